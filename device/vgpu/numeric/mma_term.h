// Sign, significand and exponent of a code, and the rounding of an exact sum: parts of mma.cpp and
// mma_exact.cpp.
#pragma once

#include <cstdint>

#include "device/vgpu/numeric/mma.h"

namespace lockstep::device::vgpu::numeric::detail {

enum class TermClass : std::uint8_t { Finite, Infinite, NotANumber };

// (-1)^negative * significand * 2^(exponent - fraction_bits); not normalised.
struct Term {
  std::uint64_t significand = 0;
  std::int32_t exponent = 0;
  std::uint32_t fraction_bits = 0;
  bool negative = false;
  TermClass kind = TermClass::Finite;
};

// A code of a floating-point format (all but S8, U8, S32).
Term decode_term(MmaFormat format, std::uint32_t code);

// a * b with special values: 0 * Inf is not a number. Exact for the operand formats.
Term multiply(const Term& a, const Term& b);

// magnitude * 2^scale_exponent rounded; the result's code, +0 for zero.
std::uint32_t round_sum(MmaRounding rounding, bool negative, std::uint64_t magnitude,
                        std::int32_t scale_exponent);

inline std::uint32_t not_a_number(MmaFormat result) {
  return result == MmaFormat::F16 ? 0x7fff : 0x7fffffff;
}
inline std::uint32_t infinity(MmaFormat result, bool negative) {
  return result == MmaFormat::F16 ? (negative ? 0xfc00 : 0x7c00)
                                  : (negative ? 0xff800000 : 0x7f800000);
}

// What the special terms seen so far make of a sum.
struct Specials {
  bool nan = false, plus = false, minus = false;
  void add(const Term& term) {
    nan |= term.kind == TermClass::NotANumber;
    if (term.kind == TermClass::Infinite) (term.negative ? minus : plus) = true;
  }
  bool any() const { return nan || plus || minus; }
  std::uint32_t result(MmaFormat format) const {
    return nan || (plus && minus) ? not_a_number(format) : infinity(format, minus);
  }
};

}  // namespace lockstep::device::vgpu::numeric::detail
