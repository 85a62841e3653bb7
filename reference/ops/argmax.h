// argmax: the lowest id of the largest value, exact. A NaN wins, so that it can't hide (the
// operation that made it is named by its own bound).
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace lockstep::reference {

inline std::uint32_t argmax(std::span<const double> values) {
  std::uint32_t best = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) return i;
    if (values[i] > values[best]) best = i;
  }
  return best;
}

}  // namespace lockstep::reference
