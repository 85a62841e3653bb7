// IEEE binary32 and binary16, and bfloat16: encoding by integers, and whole rows.
#include "reference/formats/ieee.h"

#include <cstring>

#include "base/check.h"
#include "reference/formats/block_functions.h"

namespace lockstep::reference {
namespace {

// Nearest, ties to even, of the format with these field widths.
template <int kFractionBits, int kExponentBits>
std::uint32_t ieee_bits(double value) {
  constexpr std::uint32_t kInfinity = ((1u << kExponentBits) - 1) << kFractionBits;
  constexpr int kMinExponent = 2 - (1 << (kExponentBits - 1));  // of normal numbers
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 63)
                             << (kFractionBits + kExponentBits);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int exponent_field = static_cast<int>((bits >> 52) & 0x7ff);
  if (exponent_field == 0x7ff) {
    return fraction != 0 ? kInfinity | (1u << (kFractionBits - 1)) : sign | kInfinity;
  }
  if (exponent_field == 0) return sign;  // zero, or far below half of any format's least number
  const int exponent = exponent_field - 1023;
  const std::uint64_t significand = fraction | (std::uint64_t{1} << 52);
  const int below = exponent < kMinExponent ? kMinExponent - exponent : 0;
  const int shift = 52 - kFractionBits + below;
  if (shift > 54) return sign;
  std::uint64_t quotient = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (quotient & 1) != 0)) ++quotient;
  // The hidden bit of a normal number adds the 1 that its exponent field starts at; a carry out of
  // the fraction goes into the exponent, where it belongs.
  std::uint64_t magnitude = quotient;
  if (below == 0) {
    magnitude += static_cast<std::uint64_t>(exponent - kMinExponent) << kFractionBits;
  }
  return sign | (magnitude >= kInfinity ? kInfinity : static_cast<std::uint32_t>(magnitude));
}

}  // namespace

std::uint32_t f32_bits(double value) { return ieee_bits<23, 8>(value); }
std::uint16_t f16_bits(double value) { return static_cast<std::uint16_t>(ieee_bits<10, 5>(value)); }
std::uint16_t bf16_bits(double value) { return static_cast<std::uint16_t>(ieee_bits<7, 8>(value)); }

double value_of_bits(model::DType format, std::uint32_t bits) {
  if (format == model::DType::F32) return f32_value(bits);
  if (format == model::DType::F16) return f16_value(static_cast<std::uint16_t>(bits));
  LS_CHECK(format == model::DType::BF16);
  return bf16_value(static_cast<std::uint16_t>(bits));
}

std::uint32_t bits_of_value(model::DType format, double value) {
  if (format == model::DType::F32) return f32_bits(value);
  if (format == model::DType::F16) return f16_bits(value);
  LS_CHECK(format == model::DType::BF16);
  return bf16_bits(value);
}

double round_to(model::DType format, double value) {
  return value_of_bits(format, bits_of_value(format, value));
}

void decode_values(model::DType format, std::span<const std::byte> bytes, std::span<double> out) {
  LS_CHECK(format == model::DType::F32 || format == model::DType::F16 ||
           format == model::DType::BF16);
  LS_CHECK(bytes.size() == out.size() * (format == model::DType::F32 ? 4 : 2));
  block_functions(host_vectors()).decode(format)(bytes.data(), out.size(), out.data());
}

void round_values(model::DType format, std::span<double> values) {
  block_functions(host_vectors()).round(format)(values.data(), values.size());
}

int exponent_of(double value) {
  LS_CHECK(value > 0 && value <= std::numeric_limits<double>::max());
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const int field = static_cast<int>(bits >> 52);
  if (field != 0) return field - 1023;
  return static_cast<int>(std::bit_width(bits)) - 1 - 1074;
}

}  // namespace lockstep::reference
