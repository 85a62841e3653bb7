// Residual: y_i = a_i + b_i. Contract: fl32(a_i + b_i) of known bits. Rounding the sum to double
// first changes nothing: 53 >= 2 * 24 + 2 (S. A. Figueroa, "When is double rounding innocuous?").
#pragma once

#include <cstddef>
#include <span>

#include "reference/value.h"

namespace lockstep::reference {

template <class T>
void residual_add(std::span<const double> a, std::span<const double> b, std::span<T> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if constexpr (kIsBall<T>) {
      out[i] = Ball{round_f32(a[i] + b[i]), 0};
    } else {
      out[i] = a[i] + b[i];
    }
  }
}

}  // namespace lockstep::reference
