// The approximate instructions of the multi-function unit: ex2, lg2, rcp, rsqrt, sqrt, sin, cos,
// tanh (.approx) and the approximate divisions, for one element at a time.
//
// Bits: every function maps a bit pattern to a bit pattern by IEEE 754 operations on doubles
// (+ - * and conversions, never fused, never libm) and by integers, so all hosts and compilers
// agree. All of them inline and vectorise over lanes. A real GPU may answer differently inside the
// documented error; ApproximationMode spans that room:
//   Nominal  the exact value rounded to nearest (wrong in fewer than 1 of 10^4 inputs, by one
//   place) Low      the lowest result that the documented error allows (less a 2^-12 part of the
//   error) High     the highest Hashed   a point between them that depends on the input's bits only
// Documented special results (infinities, zeros, NaN) and, beyond the documents, sin, cos and tanh
// never outside [-1, 1], hold in every mode. NaN results are 0x7fffffff (0x7fff in 16 bits).
//
// What ptxas makes of each instruction (scaling of subnormals, the square of ex2, the product of
// div) is part of the Nominal result: read from the SASS of ptxas 13.0, the same for sm_80 and
// sm_90. mufu_errors.h has the documented errors and where they stand.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "device/vgpu/numeric/formats.h"
#include "device/vgpu/numeric/mufu_errors.h"

namespace lockstep::device::vgpu::numeric {

namespace detail {

using Mode = ApproximationMode;

inline constexpr std::uint64_t kSignF64 = std::uint64_t{1} << 63;
// Documented errors are used up to this part of them, which covers the errors of the functions
// below (relative 2^-37 or less, against errors of 2^-23 and more).
inline constexpr double kInside = 1 - 0x1p-12;

LS_LANE double absolute_f64(double x) { return as_double(as_bits(x) & ~kSignF64); }
LS_LANE double widen(std::uint32_t x) { return static_cast<double>(as_float(x)); }
LS_LANE double select_f64(bool condition, double yes, double no) {
  const std::uint64_t mask = 0 - static_cast<std::uint64_t>(condition);
  return as_double((as_bits(yes) & mask) | (as_bits(no) & ~mask));
}
LS_LANE std::uint32_t magnitude_of(std::uint32_t x) { return x & 0x7fffffff; }
LS_LANE bool is_subnormal_or_zero(std::uint32_t x) { return (x & 0x7f800000) == 0; }

// Spacing of the f32 numbers just below x > 0 (at a power of two the smaller one), at least 2^-149.
LS_LANE double ulp_f32(double x) {
  const double spacing = as_double((as_bits(x) - 1) & 0x7ff0000000000000) * 0x1p-23;
  return select_f64(spacing < 0x1p-149, 0x1p-149, spacing);
}

// Uniform in [-1, 1): a function of the operand's bits.
LS_LANE double hash_to_unit(std::uint32_t x, std::uint32_t salt) {
  x = (x ^ salt) * 0x9e3779b1u;
  x = (x ^ (x >> 15)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return static_cast<double>(static_cast<std::int32_t>(x ^ (x >> 16))) * 0x1p-31;
}

// The f32 that stands for the exact value `value` in `mode`; `error` >= 0: the allowed distance.
// Away from `value` by at most `error`; rounded towards `value`.
template <Mode mode>
LS_LANE std::uint32_t settle(double value, double error, std::uint32_t operand,
                             std::uint32_t salt) {
  if constexpr (mode == Mode::Nominal) {
    return as_bits(static_cast<float>(value));
  } else {
    const double part = mode == Mode::Low    ? -kInside
                        : mode == Mode::High ? kInside
                                             : kInside * hash_to_unit(operand, salt);
    const double target = value + part * error;
    const auto nearest = static_cast<float>(target);
    const auto back = static_cast<double>(nearest);
    const bool up = (part < 0) & (back < target);
    const bool down = (part >= 0) & (back > target);
    const bool negative = (as_bits(target) & kSignF64) != 0;
    const std::uint32_t grow = static_cast<std::uint32_t>((up & !negative) | (down & negative));
    const std::uint32_t shrink = static_cast<std::uint32_t>((up & negative) | (down & !negative));
    const std::uint32_t result = as_bits(nearest) + grow - shrink;
    // No number lies between value and target: the nearest one to value is all there is.
    const bool outside = absolute_f64(widen(result) - value) > error;
    return select(outside, as_bits(static_cast<float>(value)), result);
  }
}

// q(x) = (2^x - 1) / x on [-1/2, 1/2], relative error 2^-37.7 (minimax).
LS_LANE double exp2_quotient(double x) {
  double q = 0x1.62c003a790848p-20;
  q = q * x + 0x1.00c080f50e9d3p-16;
  q = q * x + 0x1.43099b5aacad1p-13;
  q = q * x + 0x1.5d87762e0eb41p-10;
  q = q * x + 0x1.3b2ab6a0dab3bp-7;
  q = q * x + 0x1.c6b08da69c7fbp-5;
  q = q * x + 0x1.ebfbdff85f4bdp-3;
  return q * x + 0x1.62e42fef9cdf6p-1;
}
// Adding this to |x| < 2^51 rounds x to an integer, which then stands in the sum's low bits.
inline constexpr double kToInteger = 0x1.8p52;

// 2^x for |x| <= 300.
LS_LANE double exp2_f64(double x) {
  const double shifted = x + kToInteger;
  const double rest = x - (shifted - kToInteger);
  const double power = 1 + rest * exp2_quotient(rest);
  return as_double(as_bits(power) + (as_bits(shifted) << 52));
}

// 1/x from the f32 reciprocal and one Newton step; relative error 2^-45; 2^-120 < x < 2^120.
LS_LANE double reciprocal_f64(double x) {
  const auto guess = static_cast<double>(1.0f / static_cast<float>(x));
  return guess * (2 - x * guess);
}

// x^-1/2 of a positive normal f32, relative error 2^-50.
LS_LANE double rsqrt_f64(float x) {
  // Two Newton steps in f32 (the products stay in range in this order), two in double.
  float y = as_float(0x5f3759df - (as_bits(x) >> 1));
  const float half = 0.5f * x;
  y = y * (1.5f - (half * y) * y);
  y = y * (1.5f - (half * y) * y);
  const double half_wide = 0.5 * static_cast<double>(x);
  auto z = static_cast<double>(y);
  z = z * (1.5 - (half_wide * z) * z);
  return z * (1.5 - (half_wide * z) * z);
}

// log2 of a positive normal f32; relative error 2^-42 (absolute where the result is above 1).
LS_LANE double log2_f64(std::uint32_t x) {
  // x = 2^k * m, m in [sqrt(1/2), sqrt(2)); log2 m = (2 / ln 2) atanh(s), s = (m - 1) / (m + 1).
  const auto k = static_cast<std::int32_t>(x - 0x3f3504f3) >> 23;
  const double m = widen(x - (static_cast<std::uint32_t>(k) << 23));
  const double s = (m - 1) * reciprocal_f64(m + 1);
  const double z = s * s;
  double p = 0x1.21b0ea97e634ap-2;
  p = p * z + 0x1.47955635813fbp-2;
  p = p * z + 0x1.a61a2ec9b1b2bp-2;
  p = p * z + 0x1.2776c2933ecdcp-1;
  p = p * z + 0x1.ec709dc53c66bp-1;
  p = p * z + 0x1.71547652b8251p+1;
  return static_cast<double>(k) + s * p;
}

// sin(2 pi x) for |x| < 2^50; absolute error 2^-43, relative near 0.
LS_LANE double sin_turns_f64(double x) {
  const double r = x - ((x + kToInteger) - kToInteger);  // [-1/2, 1/2]
  const double size = absolute_f64(r);
  const double folded = select_f64(size > 0.25, 0.5 - size, size);
  const double z = folded * folded;
  double p = 0x1.d4ec69bf9fc4fp+1;
  p = p * z - 0x1.e297cfd7ae0a6p+3;
  p = p * z + 0x1.5076fe9f744a9p+5;
  p = p * z - 0x1.32d2c96c6151cp+6;
  p = p * z + 0x1.466bc66dc7d93p+6;
  p = p * z - 0x1.4abbce6247ec4p+5;
  p = p * z + 0x1.921fb54442b5fp+2;
  const double result = folded * p;
  return as_double(as_bits(result) ^ (as_bits(r) & kSignF64));
}

// tanh |x| for a magnitude of at most 20.
LS_LANE double tanh_f64(double magnitude) {
  // t = e^2x - 1 = 2^n (2^r - 1) + (2^n - 1); tanh = t / (t + 2).
  const double turns = magnitude * 0x1.71547652b82fep+1;  // 2 / ln 2
  const double shifted = turns + kToInteger;
  const double rest = turns - (shifted - kToInteger);
  const double scale = as_double(as_bits(1.0) + (as_bits(shifted) << 52));
  const double t = scale * (rest * exp2_quotient(rest)) + (scale - 1);
  return t * reciprocal_f64(t + 2);
}

// settle() for 16-bit results: Format is F16 or BF16.
template <Mode mode, class Format>
LS_LANE std::uint32_t settle_16(double value, double error, std::uint32_t operand,
                                std::uint32_t salt) {
  constexpr auto encode = [](double x) {
    return encode_f32<Format, Rounding::NearestEven, Overflow::ToInfinity>(
        as_bits(static_cast<float>(x)));
  };
  constexpr auto decode = [](std::uint32_t code) {
    if constexpr (Format::kBias == 127) {
      return widen(code << 16);
    } else {
      return widen(decode_f32<Format>(code));
    }
  };
  const std::uint32_t nominal = encode(value);
  if constexpr (mode == Mode::Nominal) {
    return nominal;
  } else {
    const double part = mode == Mode::Low    ? -kInside
                        : mode == Mode::High ? kInside
                                             : kInside * hash_to_unit(operand, salt);
    const double target = value + part * error;
    const std::uint32_t nearest = encode(target);
    const double back = decode(nearest);
    const bool up = (part < 0) & (back < target);
    const bool down = (part >= 0) & (back > target);
    const bool negative = (as_bits(target) & kSignF64) != 0;
    const auto grow = static_cast<std::uint32_t>((up & !negative) | (down & negative));
    const auto shrink = static_cast<std::uint32_t>((up & negative) | (down & !negative));
    const std::uint32_t result = nearest + grow - shrink;
    return select(absolute_f64(decode(result) - value) > error, nominal, result);
  }
}

LS_LANE std::uint32_t clamp_to_one(std::uint32_t x) {
  return select(magnitude_of(x) > 0x3f800000, (x & 0x80000000) | 0x3f800000, x);
}

// --- The hardware functions: f32 in and out, subnormals flushed on both sides ----------------

template <Mode mode>
LS_LANE std::uint32_t mufu_rcp(std::uint32_t x) {
  x = flush_subnormal_f32(x);
  std::uint32_t result;
  if constexpr (mode == Mode::Nominal) {
    result = as_bits(1.0f / as_float(x));  // correctly rounded by IEEE 754
  } else {
    const std::uint32_t magnitude = magnitude_of(x);
    // Zero and infinity have special results: any number serves in their place here.
    const bool special = (magnitude == 0) | (magnitude >= 0x7f800000);
    const double value = 1.0 / widen(select(special, 0x3f800000, magnitude));
    result = settle<mode>(value, kRcpUlps * ulp_f32(value), magnitude, 0x52435000);
    result = select(special, (magnitude == 0 ? 0x7f800000 : 0), result);
    result |= x & 0x80000000;
  }
  return select(is_nan_f32(x), kNanF32, flush_subnormal_f32(result));
}

// Square root and its reciprocal share their special results but for those of zero and infinity.
template <Mode mode, bool reciprocal>
LS_LANE std::uint32_t mufu_root(std::uint32_t x) {
  x = flush_subnormal_f32(x);
  const std::uint32_t magnitude = magnitude_of(x);
  const bool special = (magnitude == 0) | (x >= 0x7f800000);
  const std::uint32_t operand = select(special, 0x3f800000, x);
  const double inverse = rsqrt_f64(as_float(operand));
  std::uint32_t result;
  if constexpr (reciprocal) {
    result = settle<mode>(inverse, kRsqrtRelative * inverse, x, 0x52535100);
    result = select(special, 0, result);
    result = select(magnitude == 0, x | 0x7f800000, result);
  } else {
    const double value = inverse * widen(operand);
    result = settle<mode>(value, kSqrtRelative * value, x, 0x53515200);
    result = select(special, x, result);
  }
  const bool nan = (magnitude > 0x7f800000) | (x > 0x80000000);
  return select(nan, kNanF32, result);
}

// `scaled`: the instruction's square of ex2(x / 2) below -126, where .ftz has plain zero.
template <Mode mode, bool ftz>
LS_LANE std::uint32_t ex2(std::uint32_t x) {
  x = flush_subnormal_f32(x);
  const bool nan = is_nan_f32(x);
  const bool below = x > 0xc2fc0000;               // x < -126 (or a negative NaN)
  const bool above = x - 0x43000000 < 0x3c800001;  // 128 <= x <= infinity
  // 2^-200 is zero in f32, 2^150 infinite.
  std::uint32_t operand = select(x > 0xc3480000, 0xc3480000, x);
  operand = select(above, 0x43160000, operand);
  operand = select(nan, 0, operand);
  std::uint32_t result;
  if constexpr (mode == Mode::Nominal && !ftz) {
    const double argument = widen(operand) * (below ? 0.5 : 1.0);
    const auto root = static_cast<float>(exp2_f64(argument));
    result = as_bits(root * as_float(select(below, as_bits(root), as_bits(1.0f))));
  } else {
    const double value = exp2_f64(widen(operand));
    result = settle<mode>(value, kEx2Ulps * ulp_f32(value), x, 0x45583200);
  }
  result = select(magnitude_of(x) == 0, 0x3f800000, result);
  result = select(above, 0x7f800000, result);
  result = select(x == 0xff800000, 0, result);
  if constexpr (ftz) {
    result = select(below, 0, result);
    result = flush_subnormal_f32(result);
  }
  return select(nan, kNanF32, result);
}

template <Mode mode, bool ftz>
LS_LANE std::uint32_t lg2(std::uint32_t x) {
  if constexpr (ftz) x = flush_subnormal_f32(x);
  const std::uint32_t magnitude = magnitude_of(x);
  const bool subnormal = is_subnormal_or_zero(x);
  const bool special = (magnitude == 0) | (x >= 0x7f800000);
  std::uint32_t operand = as_bits(as_float(x) * (subnormal ? 0x1p24f : 1.0f));
  operand = select(special, 0x3f800000, operand);
  const double value = log2_f64(operand);
  std::uint32_t result;
  if constexpr (mode == Mode::Nominal) {
    result = as_bits(static_cast<float>(value) + (subnormal ? -24.0f : 0.0f));
  } else {
    const double whole = value + (subnormal ? -24.0 : 0.0);
    const bool near_one = (operand > 0x3f000000) & (operand < 0x40000000) & !subnormal;
    const double error =
        select_f64(near_one, kLg2AbsoluteNearOne, kLg2Relative * absolute_f64(whole));
    result = settle<mode>(whole, error, x, 0x4c473200);
  }
  result = select(x == 0x7f800000, x, result);
  result = select(magnitude == 0, 0xff800000, result);
  const bool nan = (magnitude > 0x7f800000) | (x > 0x80000000);
  return select(nan, kNanF32, result);
}

// quarter: 0.25 for cos.
template <Mode mode, bool cosine>
LS_LANE std::uint32_t sin_or_cos(std::uint32_t x) {
  constexpr double kQuarter = cosine ? 0.25 : 0;
  const std::uint32_t magnitude = magnitude_of(x);
  // FMUL.RZ by 1/2pi; numbers of 2^23 and more are whole turns; the unit flushes subnormals.
  const double exact = widen(magnitude) * widen(0x3e22f983);  // 48 bits: exact
  const auto nearest = static_cast<float>(exact);
  const auto too_far = static_cast<std::uint32_t>(static_cast<double>(nearest) > exact);
  std::uint32_t turns = as_bits(nearest) - too_far;
  turns = select((turns >= 0x4b000000) | (turns < 0x00800000), 0, turns);
  std::uint32_t result = as_bits(static_cast<float>(sin_turns_f64(widen(turns) + kQuarter)));
  if constexpr (mode != Mode::Nominal) {
    // Inside 100 pi the error is documented: around the true value then.
    const bool documented = magnitude <= 0x439d1462;
    const std::uint32_t operand = select(documented, magnitude, 0);
    const double value = sin_turns_f64(widen(operand) * 0x1.45f306dc9c883p-3 + kQuarter);
    const double error = select_f64(magnitude <= 0x40c90fda, kSinAbsolute, kSinAbsoluteTo100Pi);
    const std::uint32_t moved =
        clamp_to_one(settle<mode>(value, error, magnitude, cosine ? 0x434f5300 : 0x53494e00));
    result = select(documented, moved, result);
  }
  result = select(magnitude == 0, (cosine ? 0x3f800000 : 0), result);
  result ^= cosine ? 0 : x & 0x80000000;
  return select(magnitude >= 0x7f800000, kNanF32, result);
}

}  // namespace detail

// --- The instructions -----------------------------------------------------------------------

// ex2.approx{.ftz}.f32. Subnormal operands count as zero (as in the unit).
template <ApproximationMode mode, bool ftz>
LS_LANE std::uint32_t ex2_approx_f32(std::uint32_t x) {
  return detail::ex2<mode, ftz>(x);
}

// lg2.approx{.ftz}.f32: lg2(+-0) = -inf, of a negative number NaN.
template <ApproximationMode mode, bool ftz>
LS_LANE std::uint32_t lg2_approx_f32(std::uint32_t x) {
  return detail::lg2<mode, ftz>(x);
}

// rcp.approx{.ftz}.f32: 1/+-0 = +-inf, 1/+-inf = +-0.
template <ApproximationMode mode, bool ftz>
LS_LANE std::uint32_t rcp_approx_f32(std::uint32_t x) {
  if constexpr (ftz) {
    return detail::mufu_rcp<mode>(x);
  } else {
    const std::uint32_t magnitude = detail::magnitude_of(x);
    const float scale = magnitude > 0x7e800000 ? 0.25f : magnitude < 0x00800000 ? 0x1p24f : 1.0f;
    const std::uint32_t inverse = detail::mufu_rcp<mode>(as_bits(as_float(x) * scale));
    return canonical_nan_f32(as_bits(as_float(inverse) * scale));
  }
}

// rsqrt.approx{.ftz}.f32: of +-0 +-inf, of +inf +0, of a negative number NaN.
template <ApproximationMode mode, bool ftz>
LS_LANE std::uint32_t rsqrt_approx_f32(std::uint32_t x) {
  if constexpr (ftz) {
    return detail::mufu_root<mode, true>(x);
  } else {
    const bool subnormal = detail::is_subnormal_or_zero(x);
    const std::uint32_t operand = as_bits(as_float(x) * (subnormal ? 0x1p24f : 1.0f));
    const std::uint32_t root = detail::mufu_root<mode, true>(operand);
    return canonical_nan_f32(as_bits(as_float(root) * (subnormal ? 0x1p12f : 1.0f)));
  }
}

// sqrt.approx{.ftz}.f32: of +-0 +-0, of a negative number NaN.
template <ApproximationMode mode, bool ftz>
LS_LANE std::uint32_t sqrt_approx_f32(std::uint32_t x) {
  if constexpr (ftz) {
    return detail::mufu_root<mode, false>(x);
  } else {
    const bool subnormal = detail::is_subnormal_or_zero(x);
    const std::uint32_t operand = as_bits(as_float(x) * (subnormal ? 0x1p24f : 1.0f));
    const std::uint32_t root = detail::mufu_root<mode, false>(operand);
    return canonical_nan_f32(as_bits(as_float(root) * (subnormal ? 0x1p-12f : 1.0f)));
  }
}

// sin.approx{.ftz}.f32, cos.approx{.ftz}.f32, x in radians: sin(+-0) = +-0, cos(+-0) = 1, of
// infinity NaN. Both forms are one instruction: the unit flushes.
template <ApproximationMode mode>
LS_LANE std::uint32_t sin_approx_f32(std::uint32_t x) {
  return detail::sin_or_cos<mode, false>(x);
}
template <ApproximationMode mode>
LS_LANE std::uint32_t cos_approx_f32(std::uint32_t x) {
  return detail::sin_or_cos<mode, true>(x);
}

// tanh.approx.f32: subnormals pass through, tanh(+-inf) = +-1.
template <ApproximationMode mode>
LS_LANE std::uint32_t tanh_approx_f32(std::uint32_t x) {
  const std::uint32_t magnitude = detail::magnitude_of(x);
  const double value =
      detail::tanh_f64(detail::widen(select(magnitude > 0x41a00000, 0x41a00000, magnitude)));
  std::uint32_t result = detail::clamp_to_one(
      detail::settle<mode>(value, kTanhRelative * value, magnitude, 0x54414e00));
  result = select(magnitude == 0x7f800000, 0x3f800000, result);
  result = select(detail::is_subnormal_or_zero(x), magnitude, result);
  return select(magnitude > 0x7f800000, kNanF32, result | (x & 0x80000000));
}

// div.approx{.ftz}.f32: a * rcp(b); b above 2^126: zero, or NaN where a is infinite.
// div.full{.ftz}.f32: the same with both operands scaled into range.
template <ApproximationMode mode, bool ftz, bool full>
LS_LANE std::uint32_t div_approximate_f32(std::uint32_t a, std::uint32_t b) {
  if constexpr (ftz) {
    a = flush_subnormal_f32(a);
    b = flush_subnormal_f32(b);
  }
  const std::uint32_t size = detail::magnitude_of(b);
  float scale = 1.0f;
  if constexpr (full) scale = size > 0x7e800000 ? 0.25f : scale;
  if constexpr (!ftz) scale = size < 0x00800000 ? 0x1p24f : scale;
  const float numerator = as_float(a) * scale;
  const std::uint32_t denominator = as_bits(as_float(b) * scale);
  const std::uint32_t inverse = detail::mufu_rcp<ApproximationMode::Nominal>(denominator);
  std::uint32_t result = as_bits(as_float(inverse) * numerator);
  if constexpr (mode != ApproximationMode::Nominal) {
    // The documented error is that of the quotient, where operands and result are in range.
    const std::uint32_t top = detail::magnitude_of(a);
    const std::uint32_t limit = full ? 0x7f7fffff : 0x7e800000;
    const bool usual = (top != 0) & (top < 0x7f800000) & (size >= 0x00800000) & (size <= limit);
    const double value = detail::widen(select(usual, top, 0x3f800000)) /
                         detail::widen(select(usual, size, 0x3f800000));
    const std::uint32_t moved = detail::settle<mode>(value, kDivUlps * detail::ulp_f32(value),
                                                     top ^ (size << 1), 0x44495600);
    result = select(usual, moved | ((a ^ b) & 0x80000000), result);
  }
  if constexpr (ftz) result = flush_subnormal_f32(result);
  return canonical_nan_f32(result);
}

// ex2.approx.f16 (f16x2: each half).
template <ApproximationMode mode>
LS_LANE std::uint16_t ex2_approx_f16(std::uint16_t x) {
  const std::uint32_t magnitude = x & 0x7fff;
  const bool above = (x >= 0x4c00) & (x <= 0x7c00);  // 16 and more: infinite
  // 2^-32 is zero in f16.
  const std::uint32_t operand = select((x > 0xd000) | above | (magnitude > 0x7c00), 0xd000, x);
  const double value = detail::exp2_f64(detail::widen(decode_f32<F16>(operand)));
  std::uint32_t result =
      detail::settle_16<mode, F16>(value, kEx2F16Relative * value, x, 0x45583248);
  result = select(magnitude == 0, 0x3c00, result);
  result = select(above, 0x7c00, result);
  result = select(x == 0xfc00, 0, result);
  return static_cast<std::uint16_t>(select(magnitude > 0x7c00, kNanF16, result));
}

// ex2.approx.ftz.bf16: subnormals are flushed on both sides.
template <ApproximationMode mode>
LS_LANE std::uint16_t ex2_approx_ftz_bf16(std::uint16_t x) {
  const std::uint32_t magnitude = x & 0x7fff;
  const std::uint32_t wide = static_cast<std::uint32_t>(x) << 16;
  const bool above = (x >= 0x4300) & (x <= 0x7f80);  // 128 and more: infinite
  const bool below = (x > 0xc2fc) & (x <= 0xff80);   // below -126: zero
  const bool one = magnitude < 0x0080;
  const std::uint32_t operand = select(above | below | one | (magnitude > 0x7f80), 0, wide);
  const double value = detail::exp2_f64(detail::widen(operand));
  std::uint32_t result =
      detail::settle_16<mode, BF16>(value, kEx2Bf16Relative * value, x, 0x45583242);
  result = select((result & 0x7f80) == 0, 0, result);
  result = select(one, 0x3f80, result);
  result = select(above, 0x7f80, result);
  result = select(below, 0, result);
  return static_cast<std::uint16_t>(select(magnitude > 0x7f80, kNanBf16, result));
}

// tanh.approx.f16: subnormals are supported.
template <ApproximationMode mode>
LS_LANE std::uint16_t tanh_approx_f16(std::uint16_t x) {
  const std::uint32_t magnitude = x & 0x7fff;
  const std::uint32_t operand = select(magnitude > 0x4d00, 0x4d00, magnitude);  // 20
  const double value = detail::tanh_f64(detail::widen(decode_f32<F16>(operand)));
  std::uint32_t result =
      detail::settle_16<mode, F16>(value, kTanhF16Absolute, magnitude, 0x54414e48);
  // The error of the magnitude must not change the sign nor pass 1.
  result = select((result & 0x8000) != 0, 0, result);
  result = select(result > 0x3c00, 0x3c00, result);
  result = select(magnitude == 0x7c00, 0x3c00, result);
  result = select(magnitude == 0, 0, result);
  return static_cast<std::uint16_t>(select(magnitude > 0x7c00, kNanF16, result | (x & 0x8000)));
}

template <ApproximationMode mode>
LS_LANE std::uint16_t tanh_approx_bf16(std::uint16_t x) {
  const std::uint32_t magnitude = x & 0x7fff;
  const std::uint32_t operand = select(magnitude > 0x41a0, 0x41a0, magnitude);  // 20
  const double value = detail::tanh_f64(detail::widen(operand << 16));
  std::uint32_t result =
      detail::settle_16<mode, BF16>(value, kTanhBf16Absolute, magnitude, 0x54414e42);
  result = select((result & 0x8000) != 0, 0, result);
  result = select(result > 0x3f80, 0x3f80, result);
  result = select(magnitude == 0x7f80, 0x3f80, result);
  result = select(magnitude == 0, 0, result);
  return static_cast<std::uint16_t>(select(magnitude > 0x7f80, kNanBf16, result | (x & 0x8000)));
}

}  // namespace lockstep::device::vgpu::numeric
