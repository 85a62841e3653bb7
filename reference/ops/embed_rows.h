// Embedding row: e_i = w_i * scale. Contract: fl32(fl32(w_i) * fl32(scale)), known bits throughout.
#pragma once

#include <cstddef>
#include <span>

#include "reference/value.h"

namespace lockstep::reference {

template <class T>
void embed_row(std::span<const double> weights, double scale, std::span<T> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if constexpr (kIsBall<T>) {
      // 24 x 24 bits fit a double: one rounding, that of the product.
      out[i] = Ball{round_f32(round_f32(weights[i]) * round_f32(scale)), 0};
    } else {
      out[i] = weights[i] * scale;
    }
  }
}

}  // namespace lockstep::reference
