// Ball: a result with the error that a contract allows. Value types of the reference are `double`
// (chained run: the mathematical value) and `Ball` (local check); operations are templates over
// both, each written once.
//
// One rule per primitive. A rule's radius has three parts: what the operands' radii become through
// the derivative, the rounding that the contract allows (`unit`: 2^-24 for one f32 rounding, 0 for
// none), and the reference's own rounding (2^-53 of the result).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "model/dtype.h"
#include "reference/formats/ieee.h"

namespace lockstep::reference {

inline constexpr double kF32Unit = 0x1p-24;       // u: half an ulp of f32, relative
inline constexpr double kF64Unit = 0x1p-53;       // the reference's own rounding
inline constexpr double kF32Smallest = 0x1p-149;  // spacing of subnormal f32
// Relative error of approximate instructions: PTX ISA, "ex2.approx.f32" (2^-22) and
// "rsqrt.approx.f32" (2^-22.9).
inline constexpr double kEx2Error = 0x1p-22;
inline constexpr double kRsqrtError = 1.2778759e-7;  // 2^-22.9, rounded up

// gamma(d) = d u / (1 - d u): relative to the sum of absolute terms, what d f32 roundings can do
// (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1).
inline double gamma(double depth) { return depth * kF32Unit / (1 - depth * kF32Unit); }

struct Ball {
  double value = 0;
  double radius = 0;  // >= |computed - value| for every kernel that keeps its contract
};

template <class T>
inline constexpr bool kIsBall = std::is_same_v<T, Ball>;

inline double value_of(double x) { return x; }
inline double value_of(const Ball& x) { return x.value; }

// `value`, with the radius that `radius()` gives where T carries one.
template <class T, class Radius>
T with_radius(double value, Radius&& radius) {
  if constexpr (kIsBall<T>) {
    return Ball{value, radius()};
  } else {
    return value;
  }
}

inline double round_f32(double x) { return static_cast<double>(static_cast<float>(x)); }

// What a rounding of a known or an uncertain value may give.
struct Interval {
  double low = 0, high = 0;
};
// Ends of the ball, moved out by the reference's own rounding of the two sums.
inline Interval ends(const Ball& x) {
  if (x.radius == 0) return {x.value, x.value};
  const double low = x.value - x.radius;
  const double high = x.value + x.radius;
  return {low - std::fabs(low) * (2 * kF64Unit), high + std::fabs(high) * (2 * kF64Unit)};
}
// Rounding of a ball: anything from RN(x - r) to RN(x + r), because rounding is monotone.
inline Interval round_interval(model::DType format, const Ball& x) {
  const Interval e = ends(x);
  return {round_to(format, e.low), round_to(format, e.high)};
}
// The same as a ball around RN(x): its radius is 0 where both ends round alike.
inline Ball round_to(model::DType format, const Ball& x) {
  const Interval e = round_interval(format, x);
  const double value = round_to(format, x.value);
  return {value, std::fmax(e.high - value, value - e.low)};
}

// a + b and a - b: radii add; `unit` of the result.
inline double add(double a, double b, double /*unit*/) { return a + b; }
inline Ball add(const Ball& a, const Ball& b, double unit) {
  const double value = a.value + b.value;
  const double inner = a.radius + b.radius;
  return {value, inner + (unit + kF64Unit) * (std::fabs(value) + inner)};
}
inline double subtract(double a, double b, double /*unit*/) { return a - b; }
inline Ball subtract(const Ball& a, const Ball& b, double unit) {
  return add(a, Ball{-b.value, b.radius}, unit);
}

// a b: |a| rb + |b| ra + ra rb; `unit` of the result, and half the spacing of subnormal f32.
inline double multiply(double a, double b, double /*unit*/) { return a * b; }
inline Ball multiply(const Ball& a, const Ball& b, double unit) {
  const double value = a.value * b.value;
  const double inner =
      std::fabs(a.value) * b.radius + std::fabs(b.value) * a.radius + a.radius * b.radius;
  const double floor = unit > 0 ? kF32Smallest / 2 : 0;
  return {value, inner + (unit + kF64Unit) * (std::fabs(value) + inner) + floor};
}

// a / b, b's ball clear of 0: (ra + |a / b| rb) / (|b| - rb).
inline double divide(double a, double b, double /*unit*/) { return a / b; }
inline Ball divide(const Ball& a, const Ball& b, double unit) {
  const double value = a.value / b.value;
  const double clear = std::fabs(b.value) - b.radius;
  if (!(clear > 0)) return {value, std::numeric_limits<double>::infinity()};
  const double inner = (a.radius + std::fabs(value) * b.radius) / clear;
  const double floor = unit > 0 ? kF32Smallest / 2 : 0;
  return {value, inner + (unit + kF64Unit) * (std::fabs(value) + inner) + floor};
}

// sqrt(x), x's ball clear of 0: r / (sqrt(x) + sqrt(x - r)) at its lower end.
inline double square_root(double x, double /*unit*/) { return std::sqrt(x); }
inline Ball square_root(const Ball& x, double unit) {
  const double value = std::sqrt(x.value);
  if (x.radius > x.value) return {value, std::numeric_limits<double>::infinity()};
  const double inner = x.radius == 0 ? 0 : x.radius / (value + std::sqrt(x.value - x.radius));
  return {value, inner + (unit + kF64Unit) * (value + inner)};
}

// 2^x: value (2^(r) - 1), relative error `unit` of the instruction; libm's own error is below
// 2 ulp (glibc manual, "Errors in Math Functions").
inline double exp2_of(double x, double /*unit*/) { return std::exp2(x); }
inline Ball exp2_of(const Ball& x, double unit) {
  const double value = std::exp2(x.value);
  const double inner = value * std::expm1(x.radius * 0x1.62e42fefa39f0p-1);  // ln 2, rounded up
  return {value, inner + (unit + 4 * kF64Unit) * (value + inner)};
}

}  // namespace lockstep::reference
