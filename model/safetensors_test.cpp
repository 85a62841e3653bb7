// Each rule and limit of the safetensors reader, by a file that breaks it.
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/file.h"
#include "model/test_files.h"

namespace lockstep::model {
namespace {

using test_files::Bytes;
using test_files::safetensors_bytes;
using testing::HasSubstr;

std::string error_of(const Bytes& bytes, const base::Limits& limits = {}) {
  const auto read = read_safetensors(bytes, "a.safetensors", limits);
  return read.ok() ? "read" : read.error().message();
}
std::string error_of(std::string_view header, std::size_t data_bytes,
                     const base::Limits& limits = {}) {
  return error_of(safetensors_bytes(header, data_bytes), limits);
}
std::string entry(std::string_view label, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return "\"" + std::string(label) + "\":{\"dtype\":\"" + std::string(dtype) +
         "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":" + std::string(offsets) + "}";
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const Bytes bytes = safetensors_bytes("{\"__metadata__\":{\"format\":\"pt\"}," +
                                            entry("b", "F32", "[]", "[6,10]") + "," +
                                            entry("a", "BF16", "[3,1]", "[0,6]") + "}   ",
                                        10);
  auto read = read_safetensors(bytes, "a.safetensors");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->metadata.at("format"), "pt");
  const TensorInfo* a = read->tensors.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shape, (std::vector<std::uint64_t>{3, 1}));
  EXPECT_EQ(a->dtype, DType::BF16);
  EXPECT_EQ(a->offset_bytes, bytes.size() - 10);
  EXPECT_EQ(a->data.data(), bytes.data() + bytes.size() - 10);
  EXPECT_EQ(read->tensors.find("b")->elements(), 1u);
}

TEST(Safetensors, HeaderRules) {
  EXPECT_THAT(error_of(Bytes(7)), HasSubstr("a.safetensors: offset 0: header length"));
  Bytes longer = safetensors_bytes("{}", 0);
  longer[0] = std::byte{3};
  EXPECT_THAT(error_of(longer), HasSubstr("3 bytes, but only 2 follow"));
  EXPECT_EQ(error_of("{}", 0), "read");
  EXPECT_THAT(error_of("[]", 0), HasSubstr("must begin with '{'"));
  EXPECT_THAT(error_of(" {}", 0), HasSubstr("must begin with '{'"));
  EXPECT_THAT(error_of("{} x", 0), HasSubstr("offset 12: JSON"));
  EXPECT_THAT(error_of("{\"a\":1,\"a\":2}", 0), HasSubstr("the key \"a\" occurs twice"));
  EXPECT_THAT(error_of("{\"__metadata__\":{\"k\":1}}", 0), HasSubstr("must be a string"));
}

TEST(Safetensors, TensorRules) {
  const auto one = [](const std::string& text, std::size_t data_bytes) {
    return error_of("{" + text + "}", data_bytes);
  };
  EXPECT_EQ(one(entry("t", "F16", "[2,3]", "[0,12]"), 12), "read");
  EXPECT_EQ(one(entry("t", "F16", "[0,3]", "[0,0]"), 0), "read");
  EXPECT_THAT(one(entry("t", "F4", "[2,3]", "[0,3]"), 3), HasSubstr("tensor t: unknown dtype"));
  EXPECT_THAT(one(entry("t", "F16", "[2,3]", "[0,10]"), 10), HasSubstr("dtype and shape"));
  EXPECT_THAT(one(entry("t", "F16", "[-2,3]", "[0,12]"), 12), HasSubstr("\"shape\""));
  EXPECT_THAT(one(entry("t", "F16", "[1.5]", "[0,12]"), 12), HasSubstr("\"shape\""));
  EXPECT_THAT(one(entry("t", "F16", "[6]", "[0,14]"), 12), HasSubstr("outside of the 12 bytes"));
  EXPECT_THAT(one(entry("t", "F16", "[6]", "[12,0]"), 12), HasSubstr("outside of"));
  EXPECT_THAT(one(entry("t", "F16", "[6]", "[0]"), 12), HasSubstr("\"data_offsets\""));
  EXPECT_THAT(one(entry("t", "U8", "[18446744073709551615,2]", "[0,12]"), 12),
              HasSubstr("overflows"));
  EXPECT_THAT(one(entry("t", "U8", "[18446744073709551616]", "[0,12]"), 12),
              HasSubstr("\"shape\""));
  EXPECT_THAT(one("\"t\":{\"dtype\":\"F16\",\"shape\":[0]}", 0),
              HasSubstr("has no \"data_offsets\""));
  EXPECT_THAT(one("\"t\":{\"x\":1}", 0), HasSubstr("unknown key \"x\""));
}

TEST(Safetensors, DataAreCoveredWithoutHolesOrOverlaps) {
  const auto two = [](const char* first, const char* second, std::size_t data_bytes) {
    return error_of(
        "{" + entry("a", "U8", "[4]", first) + "," + entry("b", "U8", "[4]", second) + "}",
        data_bytes);
  };
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "read");
  EXPECT_THAT(two("[0,4]", "[2,6]", 6), HasSubstr("tensor b: its data begin at 2, inside of"));
  EXPECT_THAT(two("[0,4]", "[6,10]", 10),
              HasSubstr("tensor b: its data begin at 6, not at the end"));
  EXPECT_THAT(two("[0,4]", "[4,8]", 9), HasSubstr("1 bytes belong to no tensor"));
}

TEST(Safetensors, LimitsAreNamed) {
  const std::string header = "{" + entry("t", "U8", "[2,2]", "[0,4]") + "}";
  EXPECT_EQ(error_of(header, 4), "read");
  EXPECT_THAT(error_of(header, 4, {.file_bytes = 11}), HasSubstr("file_bytes"));
  EXPECT_THAT(error_of(header, 4, {.tensor_count = 0}), HasSubstr("tensor_count"));
  EXPECT_THAT(error_of(header, 4, {.tensor_dimensions = 1}), HasSubstr("tensor_dimensions"));
  EXPECT_THAT(error_of(header, 4, {.safetensors_header_bytes = 7}),
              HasSubstr("safetensors_header_bytes"));
  EXPECT_THAT(error_of(header, 4, {.json_bytes = 7}), HasSubstr("json_bytes"));
  EXPECT_THAT(error_of(header, 4, {.json_depth = 2}), HasSubstr("json_depth"));
}

TEST(Safetensors, ReadsAFileThatThirdPartiesWrote) {
  auto file = MappedFile::open(
      std::string(LOCKSTEP_GOLDEN_DIR) + "/tiny_models/llama/model.safetensors", {});
  ASSERT_TRUE(file.ok());
  auto read = read_safetensors((*file)->bytes(), "model.safetensors");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->tensors.all().size(), 30u);
  const TensorInfo* gate = read->tensors.find("model.layers.2.mlp.gate_proj.weight");
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->shape, (std::vector<std::uint64_t>{112, 64}));
  EXPECT_EQ(gate->dtype, DType::BF16);
}

}  // namespace
}  // namespace lockstep::model
