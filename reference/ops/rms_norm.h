// RMSNorm: y_i = x_i w_i / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich, arXiv 1910.07467).
//
// Contract: s = sum x^2 in f32, at most d roundings from a term to s, t = s / n or s * fl(1 / n),
// + epsilon, r = rsqrt.approx or 1 / sqrt.rn, (x r) w in either order.
// All terms of s are positive, so t is within (d + 2) u, with epsilon (d + 3) u; the root halves
// that; two products add 2 u:
//   radius = |y| [ (d + 3) u / 2 + max(2^-22.9, 2 u) + 2 u ].
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "reference/value.h"
#include "trace/contract.h"

namespace lockstep::reference {

struct NormRule {
  std::uint32_t rounding_depth = 0;  // d
  bool rsqrt = false;                // rsqrt.approx; false: 1 / sqrt, both rounded to nearest
};
inline NormRule norm_rule(const trace::Contract& contract) {
  return {contract.rounding_depth, contract.approximate.rsqrt};
}

// Four partial sums by i mod 4.
inline double sum_of_squares(std::span<const double> x) {
  double part[4] = {0, 0, 0, 0};
  for (std::size_t i = 0; i < x.size(); ++i) part[i % 4] += x[i] * x[i];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

// Relative radius of every element.
inline double norm_relative_radius(const NormRule& rule, std::size_t n, double mean_square,
                                   double epsilon) {
  const double depth = rule.rounding_depth + 3.0;
  const double root = rule.rsqrt ? std::fmax(kRsqrtError, 2 * kF32Unit) : 2 * kF32Unit;
  // Squares and their mean may lose up to half a subnormal's spacing each.
  const double underflow = 2 * kF32Smallest / (mean_square + epsilon);
  const double own = (static_cast<double>(n) + 8) * kF64Unit;
  const double first_order = depth * kF32Unit / 2 + root + 2 * kF32Unit + underflow + own;
  return first_order * (1 + 2 * (depth + 8) * kF32Unit);  // products of the errors
}

// x, weight, out: the same size. `rule` serves Ball only.
template <class T>
void rms_norm(std::span<const double> x, std::span<const double> weight, double epsilon,
              const NormRule& rule, std::span<T> out) {
  const double mean_square = sum_of_squares(x) / static_cast<double>(x.size());
  const double scale = 1 / std::sqrt(mean_square + epsilon);
  const double relative =
      kIsBall<T> ? norm_relative_radius(rule, x.size(), mean_square, epsilon) : 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i] * scale * weight[i];
    out[i] = with_radius<T>(value, [&] {
      // x r may be subnormal before it meets w, and so may y.
      return std::fabs(value) * relative + kF32Smallest / 2 * (1 + std::fabs(weight[i]));
    });
  }
}

}  // namespace lockstep::reference
