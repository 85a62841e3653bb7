// Golden test of the number formats and tensor-core models, what it can catch, and the errors of
// vector files.
#include "harness/commands/vectors_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace lockstep::harness {
namespace {

namespace numeric = device::vgpu::numeric;
using numeric::MmaForm;
using numeric::MmaRounding;
using numeric::MmaScheme;
using testing::HasSubstr;

std::string golden(const std::string& name) {
  return std::string(LOCKSTEP_GOLDEN_DIR) + "/" + name;
}

struct File {
  const char* name;
  std::uint64_t checked;  // values in it
};
const File kFiles[] = {
    {"tensor_core_vectors/f16.jsonl.zst", 19260},
    {"tensor_core_vectors/bf16.jsonl.zst", 8784},
    {"tensor_core_vectors/tf32.jsonl.zst", 8544},
    {"tensor_core_vectors/fp8.jsonl.zst", 45258},
    {"tensor_core_vectors/f8f6f4.jsonl.zst", 10944},
    {"tensor_core_vectors/mx.jsonl.zst", 17364},
    {"tensor_core_vectors/int8.jsonl.zst", 864},
    {"tensor_core_vectors/tiles.jsonl.zst", 11264},
    {"tensor_core_vectors/hw.jsonl.zst", 48000},
    {"scalar_format_vectors/decode.jsonl.zst", 1824},
    {"scalar_format_vectors/encode.jsonl.zst", 50071},
};

TEST(Vectors, every_golden_value_is_reproduced_to_the_bit) {
  for (const File& file : kFiles) {
    const auto report = check_vectors(golden(file.name));
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->checked, file.checked) << file.name;
    EXPECT_EQ(report->mismatches, 0u) << file.name;
    for (const VectorMismatch& mismatch : report->first) {
      ADD_FAILURE() << "line " << mismatch.line << ", " << mismatch.where << ": want "
                    << mismatch.want << ", got " << mismatch.got;
    }
  }
}

struct Mutation {
  const char* name;
  void (*change)(MmaForm&);
  std::vector<const char*> files;  // that must notice
};
bool is_blocks(const MmaForm& form) { return form.scheme == MmaScheme::Blocks; }

const Mutation kMutations[] = {
    {"one fraction bit more",
     [](MmaForm& form) { ++form.block.fraction_bits; },
     {"f16", "bf16", "tf32", "fp8", "f8f6f4", "mx", "tiles", "hw"}},
    {"one fraction bit less",
     [](MmaForm& form) { --form.block.fraction_bits; },
     {"f16", "bf16", "tf32", "fp8", "f8f6f4", "mx", "tiles", "hw"}},
    {"blocks of half the products",
     [](MmaForm& form) {
       if (is_blocks(form)) form.block.products /= 2;
     },
     {"f16", "bf16", "tf32", "fp8", "f8f6f4", "mx", "tiles", "hw"}},
    {"blocks of twice the products",
     [](MmaForm& form) {
       if (is_blocks(form) && form.block.products <= 16) form.block.products *= 2;
     },
     {"f16", "bf16", "tf32", "fp8", "tiles"}},
    {"f32 results keep 13 fraction bits, or all",
     [](MmaForm& form) {
       if (form.block.rounding == MmaRounding::TruncateF32) {
         form.block.rounding = MmaRounding::TruncateE8M13;
       } else if (form.block.rounding == MmaRounding::TruncateE8M13) {
         form.block.rounding = MmaRounding::TruncateF32;
       }
     },
     {"f16", "bf16", "tf32", "fp8", "f8f6f4", "mx", "tiles", "hw"}},
    {"floor one higher",
     [](MmaForm& form) { ++form.block.exponent_floor; },
     {"f16", "bf16", "tf32"}},
    {"floor one lower",
     [](MmaForm& form) { --form.block.exponent_floor; },
     {"f16", "bf16", "tf32"}},
    {"FP8 in hardware where it is emulated",
     [](MmaForm& form) {
       if (form.scheme == MmaScheme::EmulatedFp8) form.scheme = MmaScheme::Blocks;
     },
     {"fp8", "hw"}},
    {"integer sums saturate, or wrap",
     [](MmaForm& form) {
       if (form.scheme == MmaScheme::IntegerWrap) {
         form.scheme = MmaScheme::IntegerSaturate;
       } else if (form.scheme == MmaScheme::IntegerSaturate) {
         form.scheme = MmaScheme::IntegerWrap;
       }
     },
     {"int8"}},
};

TEST(Vectors, a_changed_tensor_core_parameter_is_noticed) {
  for (const Mutation& mutation : kMutations) {
    for (const char* file : mutation.files) {
      VectorOptions options;
      options.change_form = mutation.change;
      const auto report =
          check_vectors(golden("tensor_core_vectors/" + std::string(file) + ".jsonl.zst"), options);
      ASSERT_TRUE(report.ok()) << report.error().message();
      EXPECT_GT(report->mismatches, 0u) << mutation.name << " in " << file;
      EXPECT_FALSE(report->first.empty());
    }
  }
}

class VectorFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "lockstep_vectors_XXXXXX";
    const int file = mkstemp(path_.data());
    ASSERT_GE(file, 0);
    close(file);
  }
  void TearDown() override { std::remove(path_.c_str()); }

  // The message of the error that this text must give.
  std::string error_of(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    const auto report = check_vectors(path_);
    return report.ok() ? "no error" : report.error().message();
  }
  std::string path_;
};

constexpr const char* kHeader = "{\"rec\":\"header\",\"format\":\"tcv1\"}\n";
constexpr const char* kSet =
    "{\"rec\":\"set\",\"set\":\"s\",\"a_type\":\"f16\",\"b_type\":\"f16\",\"c_type\":\"f32\","
    "\"d_type\":\"f32\",\"k\":16,\"models\":{\"hopper.mma\":{\"instr\":\"i\",\"k\":16}}}\n";

TEST_F(VectorFile, errors_name_file_line_and_rule) {
  EXPECT_THAT(error_of(""), HasSubstr(path_ + ": holds no vectors"));
  EXPECT_THAT(error_of("{\"rec\":\"header\",\"format\":\"tcv2\"}\n"),
              HasSubstr(path_ + ": line 1: format must be tcv1 or sfv1, not tcv2"));
  EXPECT_THAT(error_of(kSet), HasSubstr("line 1: the first record must be a header"));
  EXPECT_THAT(error_of(std::string(kHeader) + "{\"rec\":\"set\""),
              HasSubstr("line 2: must be one"));
  EXPECT_THAT(error_of(std::string(kHeader) + "{\"rec\":\"row\"}"),
              HasSubstr("line 2: unknown record row"));
  EXPECT_THAT(
      error_of(std::string(kHeader) + "{\"rec\":\"vec\",\"set\":\"s\",\"n\":1,\"case\":\"c\"}"),
      HasSubstr("line 2: set s has no set record before"));
  EXPECT_THAT(error_of(std::string(kHeader) + kSet +
                       "{\"rec\":\"vec\",\"set\":\"s\",\"case\":\"c\",\"n\":1,\"a\":\"00\"}"),
              HasSubstr("line 3: a must hold 16 codes of 4 digits, has 2 digits"));
  EXPECT_THAT(error_of(std::string(kHeader) +
                       "{\"rec\":\"hw\",\"gpu\":\"g\",\"model\":\"maxwell.mma\",\"a_type\":\"f16\","
                       "\"b_type\":\"f16\",\"c_type\":\"f32\",\"d_type\":\"f32\",\"k\":1,\"n\":0}"),
              HasSubstr("line 2: unknown model maxwell.mma"));
  EXPECT_THAT(error_of(std::string(kHeader) +
                       "{\"rec\":\"set\",\"set\":\"s\",\"a_type\":\"f17\",\"b_type\":\"f16\","
                       "\"c_type\":\"f32\",\"d_type\":\"f32\",\"k\":16,\"models\":{}}"),
              HasSubstr("line 2: a_type: unknown type f17"));
  EXPECT_THAT(error_of("{\"rec\":\"header\",\"format\":\"sfv1\"}\n{\"rec\":\"encode\",\"n\":1,"
                       "\"x\":\"00000000\",\"to\":\"e9m9\"}"),
              HasSubstr("line 2: unknown format e9m9"));
}

TEST_F(VectorFile, a_cut_off_file_is_an_error_wherever_it_is_cut) {
  std::ifstream in(golden("scalar_format_vectors/decode.jsonl.zst"), std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  const std::string whole = bytes.str();
  ASSERT_EQ(error_of(whole), "no error");
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    EXPECT_THAT(error_of(whole.substr(0, size)), HasSubstr(path_)) << size;
  }
}

TEST(Vectors, a_missing_file_is_an_error) {
  const auto report = check_vectors("/nonexistent/file.jsonl");
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("/nonexistent/file.jsonl: cannot be opened"));
  EXPECT_EQ(report.error().exit_status(), 2);
}

}  // namespace
}  // namespace lockstep::harness
