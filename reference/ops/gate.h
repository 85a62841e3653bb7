// Gated activation: y = act(g) * up.
//   GELU by tanh (Hendrycks and Gimpel, arXiv 1606.08415): g sigma(2 z),
//     z = sqrt(2 / pi) (g + 0.044715 g^3); never as (1 + tanh z) / 2, which cancels for z << 0.
//   SiLU: g sigma(g).
//
// Contract: e = ex2.approx(-a log2 e), y = (g / (1 + e)) up, div.rn, with a = 2 z or g.
//   GELU radius: |y| [ (2 |z| 8 u + 2^-22) (1 - sigma(2 z)) + 5 u ]
//   SiLU radius: |y| [ (3 |g| u + 2^-22) (1 - sigma(g)) + 4 u ]
// plus |g up| 2^-126 where e overflows, and half the spacing of subnormals.
#pragma once

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

#include "model/config.h"
#include "reference/value.h"
#include "trace/contract.h"

namespace lockstep::reference {

inline double sigmoid(double a) { return 1 / (1 + std::exp(-a)); }

// Errors of the instructions that the contract declares beyond ex2 and div.rn: PTX ISA, div.approx
// 2 ulp, rcp.approx 1 ulp (times the numerator: one more rounding).
inline double division_extra(const trace::ApproximateSet& approximate) {
  return (approximate.divide ? 4 * kF32Unit : 0) + (approximate.rcp ? 3 * kF32Unit : 0);
}

template <class T>
T gate_element(model::Activation activation, double g, double up,
               const trace::ApproximateSet& approximate) {
  const bool gelu = activation == model::Activation::GeluTanh;
  const double z = std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g);
  const double a = gelu ? 2 * z : g;
  const double value = g * sigmoid(a) * up;
  return with_radius<T>(value, [&] {
    const double exponent = gelu ? 2 * std::fabs(z) * 8 * kF32Unit : 3 * std::fabs(g) * kF32Unit;
    const double roundings = (gelu ? 5 : 4) * kF32Unit + division_extra(approximate);
    const double slope = (exponent + kEx2Error) * sigmoid(-a);
    // e overflows; or tanh.approx: 2^-11 of a tanh that is at most 1, of which g up / 2 is taken.
    const double share = approximate.tanh ? 0x1p-12 : 0x1p-126;
    const double floor = std::fabs(g * up) * share + kF32Smallest * (1 + std::fabs(up));
    return std::fabs(value) * (slope + roundings + 16 * kF64Unit) * (1 + 0x1p-16) + floor;
  });
}

template <class T>
void gate(model::Activation activation, std::span<const double> g, std::span<const double> up,
          const trace::ApproximateSet& approximate, std::span<T> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = gate_element<T>(activation, g[i], up[i], approximate);
  }
}

}  // namespace lockstep::reference
