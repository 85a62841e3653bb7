// Exponential and logarithm in fixed-point integers: the same bits from every compiler and machine,
// and sums that don't depend on their order.
//
// A Fixed is a number times 2^104. Of a softmax relative to its largest logit every term lies in
// (0, 1], so 2^20 of them add up without overflow or error.
#pragma once

#include <cstdint>

namespace lockstep::reference {

__extension__ typedef __int128 Fixed;
__extension__ typedef unsigned __int128 UnsignedFixed;
inline constexpr int kFixedBits = 104;
inline constexpr UnsignedFixed kFixedOne = UnsignedFixed{1} << kFixedBits;

// |x| < 2^22. Bits below 2^-104 are dropped.
Fixed to_fixed(double x);
// To nearest, ties to even.
double to_double(Fixed x);

// e^x for x <= 0, |error| < 0.51 * 2^-104, e^0 exactly 1. At least 2^-104: what isn't masked has a
// share.
UnsignedFixed exp_fixed(Fixed x);
// ln(x) for x in [1, 2^22), |error| < 0.51 * 2^-104, ln(1) exactly 0.
Fixed log_fixed(UnsignedFixed x);

// floor(x * factor / 2^shift), and whether something was cut off. The result fits into 128 bits:
// the caller sees to it.
struct Scaled {
  UnsignedFixed floor = 0;
  bool inexact = false;
};
Scaled multiply_shift(UnsignedFixed x, std::uint64_t factor, int shift);

}  // namespace lockstep::reference
