// IEEE binary32 and binary16, and bfloat16: bits <-> double, in integer arithmetic of our own.
//
// Decoding is exact. Encoding rounds once, from the double, to the nearest value, ties to even
// (IEEE 754, 4.3.1), subnormals kept, overflow from the midpoint above the largest finite value on
// to infinity. A NaN becomes the format's quiet NaN with an empty payload and no sign.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "model/dtype.h"

namespace lockstep::reference {

// A binary format of `kFractionBits` stored fraction and `kExponentBits` exponent bits.
template <int kFractionBits, int kExponentBits>
constexpr double ieee_value(std::uint32_t bits) {
  constexpr std::uint32_t kExponentMax = (1u << kExponentBits) - 1;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  const std::uint64_t sign = std::uint64_t{(bits >> (kFractionBits + kExponentBits)) & 1} << 63;
  const std::uint64_t fraction = bits & ((1u << kFractionBits) - 1);
  const std::uint32_t exponent = (bits >> kFractionBits) & kExponentMax;
  if (exponent == 0) {  // fraction units of the smallest subnormal, itself a normal double
    constexpr std::uint64_t kUnit = static_cast<std::uint64_t>(1024 - kBias - kFractionBits) << 52;
    const double value = static_cast<double>(fraction) * std::bit_cast<double>(kUnit);
    return sign != 0 ? -value : value;
  }
  if (exponent == kExponentMax) {
    if (fraction != 0) return std::numeric_limits<double>::quiet_NaN();
    return std::bit_cast<double>(sign | (std::uint64_t{0x7ff} << 52));
  }
  return std::bit_cast<double>(sign | (std::uint64_t{exponent + (1023 - kBias)} << 52) |
                               (fraction << (52 - kFractionBits)));
}

constexpr double f32_value(std::uint32_t bits) { return ieee_value<23, 8>(bits); }
constexpr double f16_value(std::uint16_t bits) { return ieee_value<10, 5>(bits); }
constexpr double bf16_value(std::uint16_t bits) { return ieee_value<7, 8>(bits); }

std::uint32_t f32_bits(double value);
std::uint16_t f16_bits(double value);
std::uint16_t bf16_bits(double value);

// The same by format: F32, F16 or BF16 (anything else is our bug). Bits lie in the low end.
double value_of_bits(model::DType format, std::uint32_t bits);
std::uint32_t bits_of_value(model::DType format, double value);
// value_of_bits(format, bits_of_value(format, value)), with a zero's sign kept.
double round_to(model::DType format, double value);

// Exact values of numbers in memory (little endian), F32, F16 or BF16: bytes.size() is
// out.size() times the number's size.
void decode_values(model::DType format, std::span<const std::byte> bytes, std::span<double> out);
// round_to of each, in place; vectorised: use it for whole rows.
void round_values(model::DType format, std::span<double> values);

// The exponent e of a positive finite value: 2^e <= value < 2^(e+1).
int exponent_of(double value);

}  // namespace lockstep::reference
