// Laws of the number-format conversions; golden/scalar_format_vectors is checked by the harness.
#include "device/vgpu/numeric/formats.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"

namespace lockstep::device::vgpu::numeric {
namespace {

template <class Format, Overflow overflow>
void check_round_trip(std::uint32_t codes) {
  for (std::uint32_t code = 0; code < codes; ++code) {
    const std::uint32_t wide = decode_f32<Format>(code);
    if (is_nan_f32(wide)) continue;
    const std::uint32_t nearest = encode_f32<Format, Rounding::NearestEven, overflow>(wide);
    EXPECT_EQ(nearest, code);
    EXPECT_EQ((encode_f32<Format, Rounding::TowardZero, overflow>(wide)), code);
    EXPECT_EQ((encode_f32<Format, Rounding::Up, overflow>(wide)), code);
    EXPECT_EQ((encode_f32<Format, Rounding::Down, overflow>(wide)), code);
  }
}

TEST(Formats, every_code_survives_the_way_to_f32_and_back) {
  check_round_trip<F16, Overflow::ToInfinity>(0x10000);
  check_round_trip<E5M2, Overflow::ToInfinity>(0x100);
  check_round_trip<E4M3, Overflow::SaturateFinite>(0x100);
  check_round_trip<E3M2, Overflow::SaturateFinite>(0x40);
  check_round_trip<E2M3, Overflow::SaturateFinite>(0x40);
  check_round_trip<E2M1, Overflow::SaturateFinite>(0x10);
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    if (is_nan_bf16(code)) continue;
    EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
  }
}

// Between two neighbours of a format: toward zero takes the inner one, Up and Down the ends of the
// interval, to nearest the closer one, even on a tie.
template <class Format>
void check_between() {
  for (std::uint32_t code = 0; code < Format::kMaximum; ++code) {
    const auto low = as_float(decode_f32<Format>(code));
    const auto high = as_float(decode_f32<Format>(code + 1));
    const float middle = (low + high) / 2;  // exact: one bit more than Format
    const float below = std::nextafter(middle, low), above = std::nextafter(middle, high);
    constexpr auto kSat = Overflow::SaturateFinite;
    EXPECT_EQ((encode_f32<Format, Rounding::NearestEven, kSat>(as_bits(below))), code);
    EXPECT_EQ((encode_f32<Format, Rounding::NearestEven, kSat>(as_bits(above))), code + 1);
    EXPECT_EQ((encode_f32<Format, Rounding::NearestEven, kSat>(as_bits(middle))),
              code + (code & 1));
    EXPECT_EQ((encode_f32<Format, Rounding::NearestAway, kSat>(as_bits(middle))), code + 1);
    EXPECT_EQ((encode_f32<Format, Rounding::TowardZero, kSat>(as_bits(above))), code);
    EXPECT_EQ((encode_f32<Format, Rounding::Up, kSat>(as_bits(below))), code + 1);
    EXPECT_EQ((encode_f32<Format, Rounding::Down, kSat>(as_bits(above))), code);
    const std::uint32_t sign = 1u << Format::kSignShift;
    EXPECT_EQ((encode_f32<Format, Rounding::Up, kSat>(as_bits(-above))), code | sign);
    EXPECT_EQ((encode_f32<Format, Rounding::Down, kSat>(as_bits(-below))), (code + 1) | sign);
    EXPECT_EQ((encode_f32<Format, Rounding::NearestEven, kSat, true>(as_bits(-above))), 0u);
    EXPECT_EQ((encode_f32<Format, Rounding::NearestEven, kSat, true>(as_bits(above))), code + 1);
  }
}

TEST(Formats, rounding_between_neighbours_goes_where_it_says) {
  check_between<F16>();
  check_between<E5M2>();
  check_between<E4M3>();
  check_between<E3M2>();
  check_between<E2M3>();
  check_between<E2M1>();
}

TEST(Formats, overflow_is_infinity_or_the_largest_number_as_the_rounding_points) {
  const std::uint32_t large = as_bits(1e6f), minus_large = as_bits(-1e6f);
  EXPECT_EQ(f32_to_f16(large), 0x7c00);
  EXPECT_EQ(f32_to_f16<Rounding::TowardZero>(large), 0x7bff);
  EXPECT_EQ(f32_to_f16<Rounding::Up>(large), 0x7c00);
  EXPECT_EQ(f32_to_f16<Rounding::Down>(large), 0x7bff);
  EXPECT_EQ(f32_to_f16<Rounding::Up>(minus_large), 0xfbff);
  EXPECT_EQ(f32_to_f16<Rounding::Down>(minus_large), 0xfc00);
  EXPECT_EQ((f32_to_f16<Rounding::NearestEven, Overflow::SaturateFinite>(0x7f800000)), 0x7bff);
  EXPECT_EQ(f32_to_f16<Rounding::TowardZero>(0x7f800000), 0x7c00);
  EXPECT_EQ(f32_to_bf16(0x7f7fffff), 0x7f80);
  EXPECT_EQ(f32_to_bf16<Rounding::TowardZero>(0x7f7fffff), 0x7f7f);
}

TEST(Formats, not_a_number_is_canonical_also_with_relu_and_satfinite) {
  for (const std::uint32_t nan : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu}) {
    EXPECT_EQ(f32_to_f16(nan), kNanF16);
    EXPECT_EQ((f32_to_f16<Rounding::NearestEven, Overflow::ToInfinity, true>(nan)), kNanF16);
    EXPECT_EQ(f32_to_bf16(nan), kNanBf16);
    EXPECT_EQ(f32_to_narrow<E4M3>(nan), 0x7f);
    EXPECT_EQ(f32_to_narrow<E5M2>(nan), 0x7f);
    EXPECT_EQ(f32_to_narrow<E2M1>(nan), 0x7);
    EXPECT_EQ(round_to_integral_f32<Rounding::NearestEven>(nan), kNanF32);
  }
  EXPECT_EQ(f16_to_f32(0xfc01), kNanF32);
  EXPECT_EQ(f64_to_f32(0xfff0000000000001), kNanF32);
}

// The narrowing of a double is correct if it brackets: Down <= x <= Up, one place apart at most,
// and TowardZero is the one of them nearer to zero.
TEST(Formats, directed_roundings_of_a_double_bracket_it) {
  base::Prng prng(1);
  for (int i = 0; i < 200000; ++i) {
    std::uint64_t bits = prng.next();
    // Half of them in f32's range and near its subnormals.
    if (i % 2 == 0) {
      bits = (bits & 0x800fffffffffffff) | ((std::uint64_t{850} + prng.below(330)) << 52);
    }
    const double x = as_double(bits);
    if (std::isnan(x)) continue;
    const float down = as_float(f64_to_f32<Rounding::Down>(bits));
    const float up = as_float(f64_to_f32<Rounding::Up>(bits));
    const float inner = as_float(f64_to_f32<Rounding::TowardZero>(bits));
    const float nearest = as_float(f64_to_f32(bits));
    ASSERT_LE(static_cast<double>(down), x);
    ASSERT_GE(static_cast<double>(up), x);
    ASSERT_TRUE(up == down || std::nextafter(down, up) == up) << x;
    ASSERT_EQ(inner, std::abs(up) < std::abs(down) ? up : down) << x;
    ASSERT_TRUE(nearest == up || nearest == down) << x;
  }
}

TEST(Formats, rounding_to_an_integer_is_that_of_the_host) {
  base::Prng prng(2);
  for (int i = 0; i < 200000; ++i) {
    const auto x = static_cast<std::uint32_t>(prng.next());
    const float value = as_float(x);
    if (std::isnan(value)) continue;
    ASSERT_EQ(round_to_integral_f32<Rounding::NearestEven>(x), as_bits(std::nearbyint(value)));
    ASSERT_EQ(round_to_integral_f32<Rounding::TowardZero>(x), as_bits(std::trunc(value)));
    ASSERT_EQ(round_to_integral_f32<Rounding::Up>(x), as_bits(std::ceil(value)));
    ASSERT_EQ(round_to_integral_f32<Rounding::Down>(x), as_bits(std::floor(value)));
  }
}

}  // namespace
}  // namespace lockstep::device::vgpu::numeric
