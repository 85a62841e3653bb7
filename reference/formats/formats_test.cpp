// Number formats and decoders: laws that need no third party.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/prng.h"
#include "reference/formats/block_functions.h"
#include "reference/formats/decoder.h"
#include "reference/formats/ieee.h"

namespace lockstep::reference {
namespace {

using model::DType;
constexpr HostVectors kAllVectors[] = {HostVectors::Baseline, HostVectors::Avx2,
                                       HostVectors::Avx512};

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

TEST(Ieee, EveryF16AndBf16CodeDecodesAndEncodesBack) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    for (const DType format : {DType::F16, DType::BF16}) {
      const double value = value_of_bits(format, code);
      if (std::isnan(value)) {
        EXPECT_EQ(bits_of_value(format, value), format == DType::F16 ? 0x7e00u : 0x7fc0u);
      } else {
        EXPECT_EQ(bits_of_value(format, value), code);
      }
    }
  }
}

// Neighbours of a format: the midpoint goes to the even one, anything nearer to the nearer one.
TEST(Ieee, MidpointsGoToEvenAndTheirNeighboursDoNot) {
  for (const DType format : {DType::F16, DType::BF16}) {
    const std::uint32_t infinity = format == DType::F16 ? 0x7c00 : 0x7f80;
    for (std::uint32_t code = 0; code + 1 < infinity; ++code) {
      const double low = value_of_bits(format, code);
      const double high = value_of_bits(format, code + 1);
      const double middle = (low + high) / 2;  // exact: one bit more than the format
      EXPECT_EQ(bits_of_value(format, middle), code + (code & 1));
      EXPECT_EQ(bits_of_value(format, std::nextafter(middle, 0)), code);
      EXPECT_EQ(bits_of_value(format, std::nextafter(middle, high)), code + 1);
      EXPECT_EQ(round_to(format, -middle), -value_of_bits(format, code + (code & 1)));
    }
    const double largest = value_of_bits(format, infinity - 1);
    const double unit = largest - value_of_bits(format, infinity - 2);
    EXPECT_EQ(bits_of_value(format, largest + unit / 2), infinity);
    EXPECT_EQ(bits_of_value(format, std::nextafter(largest + unit / 2, 0)), infinity - 1);
  }
}

TEST(Ieee, Float32RoundingIsTheHosts) {
  base::Prng prng(1);
  for (int i = 0; i < 200000; ++i) {
    // exponents from below float32's subnormals to above its largest
    const std::uint64_t exponent = 1023 - 160 + prng.below(300);
    std::uint64_t word = (prng.next() & ~(std::uint64_t{0x7ff} << 52)) | (exponent << 52);
    if (i % 3 == 0) word &= ~((std::uint64_t{1} << 28) - 1);  // ties
    const double value = std::bit_cast<double>(word);
    EXPECT_EQ(f32_bits(value), std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    EXPECT_EQ(f32_value(f32_bits(value)), static_cast<double>(static_cast<float>(value)));
  }
  EXPECT_EQ(f32_bits(0.0), 0u);
  EXPECT_EQ(f32_bits(-0.0), 0x80000000u);
  EXPECT_EQ(f32_bits(-std::numeric_limits<double>::infinity()), 0xff800000u);
}

TEST(Ieee, WholeRowsRoundAsSingleValues) {
  base::Prng prng(2);
  std::vector<double> values;
  for (const double special : {0.0, -0.0, 65504.0, 65519.99, 65520.0, 65520.01, 0x1p-25, 0x1p-24,
                               0x1.8p-24, 0x1p-14, 0x1.ffep-15, 0x1.fffp-15, 0x1p-133, 0x1p-134,
                               0x1.8p-134, 0x1.fep127, 0x1.ffp127, 0x1.feffffp127}) {
    values.push_back(special);
    values.push_back(-special);
  }
  values.push_back(std::numeric_limits<double>::infinity());
  values.push_back(-std::numeric_limits<double>::infinity());
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t exponent = 1023 - 150 + prng.below(290);
    std::uint64_t word = (prng.next() & ~(std::uint64_t{0x7ff} << 52)) | (exponent << 52);
    if (i % 3 == 0) word &= ~((std::uint64_t{1} << 41) - 1);
    values.push_back(std::bit_cast<double>(word));
  }
  for (const DType format : {DType::F32, DType::F16, DType::BF16}) {
    for (const HostVectors vectors : kAllVectors) {
      if (vectors > host_vectors()) continue;
      std::vector<double> rounded = values;
      block_functions(vectors).round(format)(rounded.data(), rounded.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i])) {
          EXPECT_TRUE(std::isnan(rounded[i]));
        } else {
          EXPECT_EQ(bits(rounded[i]), bits(round_to(format, values[i]))) << values[i];
        }
      }
    }
  }
}

TEST(Ieee, ExponentOfIsTheFloorOfTheLogarithm) {
  EXPECT_EQ(exponent_of(1.0), 0);
  EXPECT_EQ(exponent_of(std::nextafter(2.0, 0)), 0);
  EXPECT_EQ(exponent_of(2.0), 1);
  EXPECT_EQ(exponent_of(0x1p-1074), -1074);
  EXPECT_EQ(exponent_of(0x1.8p-1030), -1030);
}

TEST(BlockDecoders, BlockSizesAreTheModelsLayoutFacts) {
  int supported = 0;
  for (int i = 0; i <= static_cast<int>(DType::Q1_0); ++i) {
    const auto dtype = static_cast<DType>(i);
    const base::Result<Decoder> found = decoder(dtype);
    if (!found) {
      EXPECT_EQ(found.error().kind, base::ErrorKind::Unsupported);
      EXPECT_NE(found.error().message().find(model::name(dtype)), std::string::npos);
      continue;
    }
    ++supported;
    EXPECT_EQ(found->block_elements, model::layout(dtype).block_elements);
    EXPECT_EQ(found->block_bytes, model::layout(dtype).block_bytes);
  }
  EXPECT_EQ(supported, 19);
}

// Random bytes: all three widths give the same values, and where a format claims it, each is a
// float32. Half of the blocks keep all codes of scales, infinite and NaN ones too.
TEST(BlockDecoders, HostVectorWidthsAgreeToTheBit) {
  base::Prng prng(3);
  for (int i = 0; i <= static_cast<int>(DType::Q1_0); ++i) {
    const auto dtype = static_cast<DType>(i);
    const base::Result<Decoder> found = decoder(dtype);
    if (!found) continue;
    const std::size_t block_count = 4096 / found->block_elements * 5 + 3;
    std::vector<std::byte> bytes(block_count * found->block_bytes);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
    std::vector<double> want(block_count * found->block_elements), got(want.size());
    block_functions(HostVectors::Baseline).decode(dtype)(bytes.data(), block_count, want.data());
    for (const HostVectors vectors : kAllVectors) {
      if (vectors > host_vectors()) continue;
      block_functions(vectors).decode(dtype)(bytes.data(), block_count, got.data());
      for (std::size_t k = 0; k < want.size(); ++k) {
        if (std::isnan(want[k])) {
          EXPECT_TRUE(std::isnan(got[k]));
        } else {
          ASSERT_EQ(bits(want[k]), bits(got[k])) << found->block_bytes << " at " << k;
        }
      }
    }
    for (const double value : want) {
      if (found->exact_in_f32 && std::isfinite(value)) {
        ASSERT_EQ(value, round_to(DType::F32, value)) << model::name(dtype);
      }
    }
  }
}

TEST(BlockDecoders, EveryF16CodeDecodesAsTheScalarFunctionSays) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  std::vector<double> got(codes.size());
  for (const DType format : {DType::F16, DType::BF16}) {
    decode_values(format, std::as_bytes(std::span(codes)), got);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const double want = value_of_bits(format, codes[i]);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[i]));
      } else {
        EXPECT_EQ(bits(got[i]), bits(want)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::reference
