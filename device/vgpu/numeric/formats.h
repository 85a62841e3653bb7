// Conversions between number formats, as the PTX instruction cvt does them, to the bit.
//
// Values travel as bit patterns in unsigned integers. Every function is pure, branch-free integer
// arithmetic (or a host operation that is exact by IEEE 754), takes one element, and inlines: a
// loop over 32 lanes vectorises. The host rounds to nearest even, the language's default.
//
// Sources: PTX ISA, instruction cvt; golden/scalar_format_vectors (host functions of the CUDA
// headers, ml_dtypes) checks every format. NaN results are NVIDIA's canonical NaN.
#pragma once

#include <cstdint>

// For functions that handlers compiled for several instruction sets share: a copy that one of them
// leaves to the linker could be run on a host that lacks that set, so there must be none.
#define LS_LANE [[gnu::always_inline]] inline constexpr

namespace lockstep::device::vgpu::numeric {

// .rn, .rz, .rp, .rm, .rna of PTX.
enum class Rounding : std::uint8_t { NearestEven, TowardZero, Up, Down, NearestAway };

// Overflow: to infinity where the format has one (as the rounding says), or .satfinite.
enum class Overflow : std::uint8_t { ToInfinity, SaturateFinite };

inline constexpr std::uint32_t kNanF32 = 0x7fffffff;
inline constexpr std::uint16_t kNanF16 = 0x7fff;
inline constexpr std::uint16_t kNanBf16 = 0x7fff;
inline constexpr std::uint64_t kNanF64 = 0xfff8000000000000;

LS_LANE float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
LS_LANE std::uint32_t as_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }
LS_LANE double as_double(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }
LS_LANE std::uint64_t as_bits(double value) { return __builtin_bit_cast(std::uint64_t, value); }

LS_LANE bool is_nan_f32(std::uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }
LS_LANE bool is_nan_f16(std::uint32_t x) { return (x & 0x7fff) > 0x7c00; }
LS_LANE bool is_nan_bf16(std::uint32_t x) { return (x & 0x7fff) > 0x7f80; }

// condition ? yes : no by masks: compilers don't turn it into a branch around floating-point
// operations, so loops over lanes vectorise.
LS_LANE std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0 - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// .ftz: a subnormal becomes a zero of its sign.
LS_LANE std::uint32_t flush_subnormal_f32(std::uint32_t x) {
  return select((x & 0x7f800000) == 0, x & 0x80000000, x);
}
// An f32 result as every f32 instruction but mov, neg, abs leaves it: NaNs are canonical.
LS_LANE std::uint32_t canonical_nan_f32(std::uint32_t x) {
  return select(is_nan_f32(x), kNanF32, x);
}

// One binary floating-point format below f32: sign, exponent, fraction. kMaximum: code of the
// largest finite magnitude; kInfinity: 0 where the format has none; kNan: result of cvt for a NaN
// (formats without one take +maximum).
template <std::uint32_t exponent_bits, std::uint32_t fraction_bits, std::uint32_t maximum,
          std::uint32_t infinity, std::uint32_t nan>
struct Narrow {
  static constexpr std::uint32_t kExponentBits = exponent_bits;
  static constexpr std::uint32_t kFractionBits = fraction_bits;
  static constexpr std::int32_t kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t kMaximum = maximum;
  static constexpr std::uint32_t kInfinity = infinity;
  static constexpr std::uint32_t kNan = nan;
  static constexpr std::uint32_t kSignShift = exponent_bits + fraction_bits;
};
using F16 = Narrow<5, 10, 0x7bff, 0x7c00, 0x7fff>;
using BF16 = Narrow<8, 7, 0x7f7f, 0x7f80, 0x7fff>;
using E4M3 = Narrow<4, 3, 0x7e, 0, 0x7f>;  // e4m3fn: no infinity, exponent 15 holds numbers
using E5M2 = Narrow<5, 2, 0x7b, 0x7c, 0x7f>;
using E3M2 = Narrow<3, 2, 0x1f, 0, 0x1f>;
using E2M3 = Narrow<2, 3, 0x1f, 0, 0x1f>;
using E2M1 = Narrow<2, 1, 0x7, 0, 0x7>;

// `value` * 2^-`shift`, rounded to an integer; 1 <= shift <= 31, value < 2^31 - 2^(shift - 1).
// `negative` is the sign of the number whose magnitude this is (for Up and Down).
template <Rounding rounding>
LS_LANE std::uint32_t shift_right_rounded(std::uint32_t value, std::uint32_t shift, bool negative) {
  const std::uint32_t one = std::uint32_t{1} << shift;
  std::uint32_t added = 0;
  if constexpr (rounding == Rounding::NearestEven) {
    added = (one >> 1) - 1 + ((value >> shift) & 1);
  } else if constexpr (rounding == Rounding::NearestAway) {
    added = one >> 1;
  } else if constexpr (rounding == Rounding::Up) {
    added = negative ? 0 : one - 1;
  } else if constexpr (rounding == Rounding::Down) {
    added = negative ? one - 1 : 0;
  }
  return (value + added) >> shift;
}

// The code of a finite f32 magnitude (bits < 0x7f800000) rounded to Format, without its sign;
// above Format::kMaximum where it overflows.
template <class Format, Rounding rounding>
LS_LANE std::uint32_t round_magnitude(std::uint32_t magnitude, bool negative) {
  constexpr std::uint32_t kShift = 23 - Format::kFractionBits;
  if constexpr (Format::kBias == 127) {
    return shift_right_rounded<rounding>(magnitude, kShift, negative);
  } else {
    const auto exponent = static_cast<std::int32_t>(magnitude >> 23);
    const std::uint32_t significand =
        (magnitude & 0x7fffff) | (exponent != 0 ? std::uint32_t{0x800000} : 0);
    // Distance below the smallest normal exponent of Format: that many more bits are lost.
    const std::int32_t below = (128 - Format::kBias) - exponent;
    const std::int32_t extra = below > 0 ? below : 0;
    constexpr std::int32_t kMaximumExtra = 25 - static_cast<std::int32_t>(kShift);
    const std::int32_t shift =
        static_cast<std::int32_t>(kShift) + (extra < kMaximumExtra ? extra : kMaximumExtra);
    const std::int32_t above = below < 0 ? -below : 0;
    // The hidden bit adds 1 to the exponent field of a normal number, none to a subnormal one.
    return (static_cast<std::uint32_t>(above) << Format::kFractionBits) +
           shift_right_rounded<rounding>(significand, static_cast<std::uint32_t>(shift), negative);
  }
}

// f32 bits -> code of Format. `relu`: negative results become +0.
template <class Format, Rounding rounding, Overflow overflow, bool relu = false>
LS_LANE std::uint32_t encode_f32(std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  const bool negative = (x >> 31) != 0;
  constexpr bool kToInfinity = overflow == Overflow::ToInfinity && Format::kInfinity != 0;
  std::uint32_t code = round_magnitude<Format, rounding>(magnitude, negative);
  std::uint32_t too_large = Format::kMaximum;
  if constexpr (kToInfinity) {
    // Overflow of a finite number goes to infinity only where the rounding points outwards.
    if constexpr (rounding == Rounding::NearestEven || rounding == Rounding::NearestAway) {
      too_large = Format::kInfinity;
    } else if constexpr (rounding == Rounding::Up) {
      too_large = negative ? Format::kMaximum : Format::kInfinity;
    } else if constexpr (rounding == Rounding::Down) {
      too_large = negative ? Format::kInfinity : Format::kMaximum;
    }
    too_large = magnitude == 0x7f800000 ? Format::kInfinity : too_large;
  }
  code = (code > Format::kMaximum || magnitude >= 0x7f800000) ? too_large : code;
  std::uint32_t sign = (x >> 31) << Format::kSignShift;
  if constexpr (relu) {
    code = negative ? 0 : code;
    sign = 0;
  }
  return magnitude > 0x7f800000 ? Format::kNan : code | sign;
}

// Code of Format -> f32 bits; exact. Not for BF16 (decode_bf16).
template <class Format>
LS_LANE std::uint32_t decode_f32(std::uint32_t code) {
  constexpr std::uint32_t kFractionMask = (1u << Format::kFractionBits) - 1;
  constexpr std::uint32_t kExponentMask = (1u << Format::kExponentBits) - 1;
  const std::uint32_t sign = ((code >> Format::kSignShift) & 1) << 31;
  const std::uint32_t exponent = (code >> Format::kFractionBits) & kExponentMask;
  const std::uint32_t fraction = code & kFractionMask;
  const std::uint32_t normal =
      ((exponent + (127 - Format::kBias)) << 23) | (fraction << (23 - Format::kFractionBits));
  // A subnormal: fraction * 2^(1 - bias - fraction bits); both factors and the product are exact.
  constexpr float kUnit = __builtin_bit_cast(
      float, static_cast<std::uint32_t>(127 + 1 - Format::kBias -
                                        static_cast<std::int32_t>(Format::kFractionBits))
                 << 23);
  const std::uint32_t subnormal =
      as_bits(static_cast<float>(static_cast<std::int32_t>(fraction)) * kUnit);
  std::uint32_t magnitude = select(exponent == 0, subnormal, normal);
  bool nan = false;
  if constexpr (Format::kInfinity != 0) {
    magnitude = select(exponent == kExponentMask, 0x7f800000, magnitude);
    nan = exponent == kExponentMask && fraction != 0;
  } else if constexpr (Format::kNan != Format::kMaximum) {
    nan = (code & ((1u << Format::kSignShift) - 1)) == Format::kNan;
  }
  return select(nan, kNanF32, magnitude | sign);
}

// --- The spelled conversions ---------------------------------------------------------------

template <Rounding rounding = Rounding::NearestEven, Overflow overflow = Overflow::ToInfinity,
          bool relu = false>
LS_LANE std::uint16_t f32_to_f16(std::uint32_t x) {
  return static_cast<std::uint16_t>(encode_f32<F16, rounding, overflow, relu>(x));
}
template <Rounding rounding = Rounding::NearestEven, Overflow overflow = Overflow::ToInfinity,
          bool relu = false>
LS_LANE std::uint16_t f32_to_bf16(std::uint32_t x) {
  return static_cast<std::uint16_t>(encode_f32<BF16, rounding, overflow, relu>(x));
}
// cvt.f32.f16: a NaN becomes canonical.
LS_LANE std::uint32_t f16_to_f32(std::uint16_t x) { return decode_f32<F16>(x); }
// A shift: this is what the hardware does, NaN payloads stay.
LS_LANE std::uint32_t bf16_to_f32(std::uint16_t x) { return static_cast<std::uint32_t>(x) << 16; }

// cvt.{rn,rz}.satfinite.{e4m3,e5m2,e3m2,e2m3,e2m1}: one element; PTX packs two.
template <class Format, bool relu = false>
LS_LANE std::uint8_t f32_to_narrow(std::uint32_t x) {
  return static_cast<std::uint8_t>(
      encode_f32<Format, Rounding::NearestEven, Overflow::SaturateFinite, relu>(x));
}
// f16 -> FP8: the widening to f32 is exact, so there is one rounding.
template <class Format, bool relu = false>
LS_LANE std::uint8_t f16_to_narrow(std::uint16_t x) {
  return f32_to_narrow<Format, relu>(f16_to_f32(x));
}
// FP8/FP6/FP4 -> f16, exact (every finite value of those formats is an f16).
template <class Format, bool relu = false>
LS_LANE std::uint16_t narrow_to_f16(std::uint8_t code) {
  return static_cast<std::uint16_t>(
      encode_f32<F16, Rounding::NearestEven, Overflow::ToInfinity, relu>(decode_f32<Format>(code)));
}

// cvt.{rn,rz,rna}.tf32.f32: f32 bits whose low 13 are 0. rna of a NaN keeps the upper payload bits
// (a NaN whose payload lies in the low bits alone becomes infinity); rn gives the canonical NaN.
template <Rounding rounding, Overflow overflow = Overflow::ToInfinity, bool relu = false>
LS_LANE std::uint32_t f32_to_tf32(std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  const bool negative = (x >> 31) != 0;
  std::uint32_t rounded = shift_right_rounded<rounding>(magnitude, 13, negative) << 13;
  if constexpr (overflow == Overflow::SaturateFinite) {
    rounded = rounded >= 0x7f800000 ? 0x7f7fe000 : rounded;
  }
  rounded = magnitude == 0x7f800000 && overflow == Overflow::ToInfinity ? magnitude : rounded;
  std::uint32_t result = rounded | (x & 0x80000000);
  if constexpr (relu) result = negative ? 0 : result;
  const std::uint32_t nan =
      rounding == Rounding::NearestEven || relu || overflow == Overflow::SaturateFinite
          ? kNanF32
          : x & ~std::uint32_t{0x1fff};
  return magnitude > 0x7f800000 ? nan : result;
}

// cvt.{rz,rp}.ue8m0: the exponent of |x|; 2^(code - 127), 0xff is NaN. Values at or below 2^-127,
// zero too, take code 0; overflow (Infinity too) takes 0xfe with satfinite, else 0xff.
template <bool round_up, Overflow overflow = Overflow::SaturateFinite>
LS_LANE std::uint8_t f32_to_ue8m0(std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  std::uint32_t code = magnitude >> 23;
  if constexpr (round_up) {
    // A subnormal above 2^-127 (0x400000) rounds up to 2^-126.
    const std::uint32_t exact = code == 0 ? std::uint32_t{0x400000} : magnitude & 0x7f800000;
    code += magnitude > exact ? 1 : 0;
  }
  const std::uint32_t too_large = overflow == Overflow::SaturateFinite ? 0xfe : 0xff;
  code = code >= 0xff ? too_large : code;
  return static_cast<std::uint8_t>(magnitude > 0x7f800000 ? 0xff : code);
}
LS_LANE std::uint16_t ue8m0_to_bf16(std::uint8_t code) {
  const std::uint32_t finite = code == 0 ? 0x40 : static_cast<std::uint32_t>(code) << 7;
  return static_cast<std::uint16_t>(code == 0xff ? kNanBf16 : finite);
}
LS_LANE std::uint32_t ue8m0_to_f32(std::uint8_t code) {
  return code == 0xff ? kNanF32 : bf16_to_f32(ue8m0_to_bf16(code));
}
// Unsigned e4m3 (block scales): the sign bit is ignored.
LS_LANE std::uint32_t ue4m3_to_f32(std::uint8_t code) { return decode_f32<E4M3>(code & 0x7f); }

// cvt.f64.f32: exact. A NaN keeps its payload and becomes quiet.
LS_LANE std::uint64_t f32_to_f64(std::uint32_t x) {
  return as_bits(static_cast<double>(as_float(x)));
}
// cvt.{rn,rz,rp,rm}.f32.f64, from the host's correctly rounded conversion (to nearest): a directed
// rounding moves that result by at most one place.
template <Rounding rounding = Rounding::NearestEven>
LS_LANE std::uint32_t f64_to_f32(std::uint64_t x) {
  static_assert(rounding != Rounding::NearestAway);
  const double value = as_double(x);
  const float nearest = static_cast<float>(value);
  std::uint32_t result = as_bits(nearest);
  if constexpr (rounding != Rounding::NearestEven) {
    const bool negative = (x >> 63) != 0;
    const auto back = static_cast<double>(nearest);
    const bool above = back > value;
    const bool below = back < value;
    bool towards_zero = false;  // the magnitude must shrink by one place
    bool outwards = false;
    if constexpr (rounding == Rounding::TowardZero) {
      towards_zero = negative ? below : above;
    } else if constexpr (rounding == Rounding::Up) {
      towards_zero = negative && below;
      outwards = !negative && below;
    } else {
      towards_zero = !negative && above;
      outwards = negative && above;
    }
    result += static_cast<std::uint32_t>(outwards) - static_cast<std::uint32_t>(towards_zero);
  }
  const bool nan = (x & 0x7fffffffffffffff) > 0x7ff0000000000000;
  return select(nan, kNanF32, result);
}

// f32 -> an integer-valued f32 (cvt.rni/rzi/rpi/rmi.f32.f32); -0 and signs of zero results stay.
template <Rounding rounding>
LS_LANE std::uint32_t round_to_integral_f32(std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  const bool negative = (x >> 31) != 0;
  const auto exponent = static_cast<std::int32_t>(magnitude >> 23);
  // Below 1/2 the fraction bits are all of the number: one shift of 25 rounds it (to 0 or 1).
  const std::int32_t fraction_bits = 150 - exponent;
  const std::int32_t shift = fraction_bits < 1 ? 1 : (fraction_bits > 25 ? 25 : fraction_bits);
  const std::uint32_t significand =
      (magnitude & 0x7fffff) | (exponent != 0 ? std::uint32_t{0x800000} : 0);
  const auto integer = static_cast<std::int32_t>(
      shift_right_rounded<rounding>(significand, static_cast<std::uint32_t>(shift), negative));
  const std::uint32_t result = as_bits(static_cast<float>(integer));  // integer <= 2^23: exact
  const std::uint32_t finite = select(fraction_bits <= 0, magnitude, result);
  return select(is_nan_f32(x), kNanF32, finite | (x & 0x80000000));
}

}  // namespace lockstep::device::vgpu::numeric
