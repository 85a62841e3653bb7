// Each rule and limit of the GGUF reader, by a file that breaks it.
#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/file.h"
#include "model/test_files.h"

namespace lockstep::model {
namespace {

using test_files::Bytes;
using test_files::ByteWriter;
using test_files::GgufWriter;
using testing::HasSubstr;

constexpr std::uint32_t kF32 = 0, kQ4_0 = 2;
const std::vector<std::uint64_t> kFour = {4};

std::string error_of(const Bytes& bytes, const base::Limits& limits = {}) {
  const auto read = read_gguf(bytes, "a.gguf", limits);
  return read.ok() ? "read" : read.error().message();
}

// A file that is right until `change` has its say.
std::string error_after(const std::function<void(GgufWriter&)>& change,
                        const base::Limits& limits = {}) {
  GgufWriter writer;
  change(writer);
  return error_of(writer.finish(), limits);
}

TEST(Gguf, ReadsEveryValueType) {
  GgufWriter writer;
  writer.head("u8", GgufType::Uint8).number(std::uint8_t{255});
  writer.head("i8", GgufType::Int8).number(std::int8_t{-128});
  writer.head("u16", GgufType::Uint16).number(std::uint16_t{65535});
  writer.head("i16", GgufType::Int16).number(std::int16_t{-32768});
  writer.u32("u32", 4294967295u);
  writer.head("i32", GgufType::Int32).number(std::int32_t{-2147483647});
  writer.head("u64", GgufType::Uint64).number(~std::uint64_t{0});
  writer.head("i64", GgufType::Int64).number(std::int64_t{-1});
  writer.f32("f32", 0.1f);
  writer.head("f64", GgufType::Float64).number(0.1);
  writer.boolean("bool", true);
  writer.string("string", "text");
  const std::vector<std::string> strings = {"a", "", "ccc"};
  writer.strings("strings", strings);
  const std::vector<std::int16_t> numbers = {-1, 7};
  writer.numbers("numbers", GgufType::Int16, std::span<const std::int16_t>(numbers));
  const Bytes bytes = writer.finish();
  auto read = read_gguf(bytes, "a.gguf");
  ASSERT_TRUE(read.ok()) << read.error().message();
  const auto value = [&](const char* key) { return read->find(key)->value; };
  EXPECT_EQ(std::get<std::uint64_t>(value("u8")), 255u);
  EXPECT_EQ(std::get<std::int64_t>(value("i8")), -128);
  EXPECT_EQ(std::get<std::uint64_t>(value("u16")), 65535u);
  EXPECT_EQ(std::get<std::int64_t>(value("i16")), -32768);
  EXPECT_EQ(std::get<std::uint64_t>(value("u32")), 4294967295u);
  EXPECT_EQ(std::get<std::int64_t>(value("i32")), -2147483647);
  EXPECT_EQ(std::get<std::uint64_t>(value("u64")), ~std::uint64_t{0});
  EXPECT_EQ(std::get<std::int64_t>(value("i64")), -1);
  EXPECT_EQ(std::get<double>(value("f32")), double{0.1f});
  EXPECT_EQ(std::get<double>(value("f64")), 0.1);
  EXPECT_EQ(std::get<bool>(value("bool")), true);
  EXPECT_EQ(std::get<std::string_view>(value("string")), "text");
  EXPECT_THAT(std::get<GgufArray>(value("strings")).strings, testing::ElementsAre("a", "", "ccc"));
  EXPECT_EQ(std::get<GgufArray>(value("numbers")).integer(0), -1);
  EXPECT_EQ(std::get<GgufArray>(value("numbers")).integer(1), 7);
  EXPECT_EQ(read->find("none"), nullptr);
}

// Facts of golden/tiny_gguf/llama_kquants, as the Python package gguf lists them.
TEST(Gguf, ReadsTensorsOfAFileThatLlamaCppReads) {
  auto file = MappedFile::open(
      std::string(LOCKSTEP_GOLDEN_DIR) + "/tiny_gguf/llama_kquants/model.gguf", {});
  ASSERT_TRUE(file.ok());
  auto read = read_gguf((*file)->bytes(), "model.gguf");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->metadata.size(), 24u);
  EXPECT_EQ(read->tensors.all().size(), 21u);
  struct Fact {
    const char* name;
    std::vector<std::uint64_t> shape;
    DType dtype;
    std::uint64_t offset;
  };
  for (const Fact& fact : {Fact{"token_embd.weight", {384, 256}, DType::Q4_K, 10592},
                           Fact{"blk.0.attn_v.weight", {128, 256}, DType::Q6_K, 208992},
                           Fact{"blk.1.attn_norm.weight", {256}, DType::F32, 399712},
                           Fact{"blk.1.ffn_gate.weight", {256, 256}, DType::IQ4_XS, 509024},
                           Fact{"blk.1.ffn_down.weight", {256, 256}, DType::Q5_K, 580704}}) {
    const TensorInfo* tensor = read->tensors.find(fact.name);
    ASSERT_NE(tensor, nullptr) << fact.name;
    EXPECT_EQ(tensor->shape, fact.shape);
    EXPECT_EQ(tensor->dtype, fact.dtype);
    EXPECT_EQ(tensor->offset_bytes, fact.offset);
    EXPECT_EQ(tensor->data.size(), storage_bytes(fact.dtype, tensor->elements()));
    EXPECT_EQ(tensor->row(tensor->rows() - 1).data() + tensor->row_bytes(),
              tensor->data.data() + tensor->data.size());
  }
}

TEST(Gguf, HeaderRules) {
  EXPECT_THAT(error_of({}), HasSubstr("a.gguf: offset 0: magic"));
  EXPECT_EQ(error_after([](GgufWriter&) {}), "read");
  EXPECT_THAT(error_after([](GgufWriter& w) { w.version = 2; }), HasSubstr("offset 4: version"));
  EXPECT_THAT(error_after([](GgufWriter& w) { w.version = 0x03000000; }), HasSubstr("big-endian"));
}

TEST(Gguf, MetadataRules) {
  const auto twice = [](GgufWriter& w) { w.u32("k", 1), w.u32("k", 2); };
  EXPECT_THAT(error_after(twice), HasSubstr("k: this metadata key occurs twice"));
  EXPECT_THAT(error_after([](GgufWriter& w) { w.u32("", 1); }), HasSubstr("must not be empty"));
  const auto bad_bool = [](GgufWriter& w) { w.head("k", GgufType::Bool).number(std::uint8_t{2}); };
  EXPECT_THAT(error_after(bad_bool), HasSubstr("k: a Bool is 0 or 1, found 2"));
  const auto bad_type = [](GgufWriter& w) {
    w.head("k", static_cast<GgufType>(13)).number(std::uint32_t{0});
  };
  EXPECT_THAT(error_after(bad_type), HasSubstr("k: unknown value type 13"));
  const auto nested = [](GgufWriter& w) { w.array("k", GgufType::Array, 0); };
  EXPECT_THAT(error_after(nested), HasSubstr("k: an array of arrays"));
  for (const std::uint32_t alignment : {0u, 4u, 24u}) {
    EXPECT_THAT(error_after([=](GgufWriter& w) { w.u32("general.alignment", alignment); }),
                HasSubstr("general.alignment: must be"));
  }
}

TEST(Gguf, LimitsAreNamed) {
  const auto expect_limit = [](const char* limit, const base::Limits& limits,
                               const std::function<void(GgufWriter&)>& change) {
    EXPECT_EQ(error_after(change), "read") << limit;
    EXPECT_THAT(error_after(change, limits), HasSubstr(std::string("exceeds the limit ") + limit));
  };
  const auto two_tensors = [](GgufWriter& w) {
    w.tensor("a", kFour, kF32, Bytes(16)), w.tensor("b", kFour, kF32, Bytes(16));
  };
  const auto string = [](GgufWriter& w) { w.string("k", "text"); };
  expect_limit("file_bytes", {.file_bytes = 23}, string);
  expect_limit("tensor_count", {.tensor_count = 1}, two_tensors);
  expect_limit("metadata_count", {.metadata_count = 0}, string);
  expect_limit("string_bytes", {.string_bytes = 3}, string);
  expect_limit("array_elements", {.array_elements = 2}, [](GgufWriter& w) {
    const std::vector<std::string> values(3);
    w.strings("k", values);
  });
  expect_limit("tensor_dimensions", {.tensor_dimensions = 1}, [](GgufWriter& w) {
    const std::vector<std::uint64_t> axes = {2, 2};
    w.tensor("a", axes, kF32, Bytes(16));
  });
}

TEST(Gguf, TensorRules) {
  const auto one = [](std::string_view label, const std::vector<std::uint64_t>& axes,
                      std::uint32_t type, std::uint64_t offset) {
    return error_after([&](GgufWriter& w) {
      w.tensor_at(label, axes, type, offset);
      w.data(64);
    });
  };
  EXPECT_EQ(one("t", kFour, kF32, 32), "read");
  EXPECT_THAT(one("", kFour, kF32, 0), HasSubstr("a name must not be empty"));
  EXPECT_THAT(one(std::string(65, 't'), kFour, kF32, 0), HasSubstr("64 bytes of a tensor's name"));
  EXPECT_THAT(one("t", {}, kF32, 0), HasSubstr("tensor t: a tensor has at least one axis"));
  EXPECT_THAT(one("t", {4, 0}, kF32, 0), HasSubstr("axis 1 has size 0"));
  EXPECT_THAT(one("t", {1, 1, 1, 1, 1}, kF32, 0), HasSubstr("limit tensor_dimensions"));
  EXPECT_THAT(one("t", {1u << 31, 1u << 31, 8}, kF32, 0), HasSubstr("elements overflows"));
  EXPECT_THAT(one("t", {1u << 31, 1u << 31, 2}, kF32, 0), HasSubstr("bytes overflows"));
  EXPECT_THAT(one("t", kFour, 4, 0), HasSubstr("unknown tensor type 4"));
  EXPECT_THAT(one("t", {48}, kQ4_0, 0), HasSubstr("no multiple of Q4_0's block of 32"));
  EXPECT_THAT(one("t", kFour, kF32, 8), HasSubstr("no multiple of the alignment 32"));
  EXPECT_THAT(one("t", kFour, kF32, 64), HasSubstr("outside of the file"));
  EXPECT_THAT(one("t", {16}, kF32, 32), HasSubstr("outside of the file"));
  EXPECT_THAT(one("t", kFour, kF32, ~std::uint64_t{31}), HasSubstr("outside of the file"));
}

TEST(Gguf, TensorsDontShareNamesOrBytes) {
  const auto two = [](std::string_view second, std::uint64_t offset) {
    return error_after([&](GgufWriter& w) {
      w.tensor_at("a", std::vector<std::uint64_t>{16}, kF32, 32);
      w.tensor_at(second, kFour, kF32, offset);
      w.data(128);
    });
  };
  EXPECT_EQ(two("b", 0), "read");
  EXPECT_EQ(two("b", 96), "read");
  EXPECT_THAT(two("a", 0), HasSubstr("tensor a: this tensor name occurs twice"));
  EXPECT_THAT(two("b", 64), HasSubstr("tensor b: its data overlap those of tensor a"));
  EXPECT_THAT(two("b", 32), HasSubstr("overlap"));
}

}  // namespace
}  // namespace lockstep::model
