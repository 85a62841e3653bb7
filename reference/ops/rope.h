// RoPE (Su et al., arXiv 2104.09864), and what goes with it in one operation: the norm over each
// head of q and k before it, and the cells after it.
//   y0 = x0 cos - x1 sin,  y1 = x0 sin + x1 cos,  angle = position * frequency_i
//
// Contract: the table holds RN_f32 of cosines and sines taken in double; radius of y from known x:
// u (|x0 c| + |x1 s| + |y|), any fusion; a normed x brings its own radius, rotated by absolute
// values. Both follow from the primitives' rules.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "reference/models/graph.h"
#include "reference/ops/rms_norm.h"
#include "reference/value.h"

namespace lockstep::reference {

template <class T>
struct Angle {
  T cosine, sine;
};

// Of all pairs of a head at one position.
template <class T>
void rope_angles(const AttentionFacts& facts, std::uint32_t position, std::span<Angle<T>> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double angle = position * facts.rope_frequencies[i];
    if constexpr (kIsBall<T>) {
      // Both sides' angles and their sines and cosines (libm: below 1 ulp each).
      const double error = angle * facts.frequency_error + (position == 0 ? 0 : 0x1p-51);
      out[i] = {round_to(model::DType::F32, Ball{std::cos(angle), error}),
                round_to(model::DType::F32, Ball{std::sin(angle), error})};
    } else {
      out[i] = {std::cos(angle), std::sin(angle)};
    }
  }
}

// One head: x and out have twice as many elements as there are angles.
template <class T>
void rotate(std::span<const T> x, std::span<const Angle<T>> angles, model::RopePairing pairing,
            std::span<T> out) {
  const std::size_t half = angles.size();
  for (std::size_t i = 0; i < half; ++i) {
    const bool halves = pairing == model::RopePairing::Half;
    const std::size_t first = halves ? i : 2 * i;
    const std::size_t second = halves ? i + half : 2 * i + 1;
    const T& c = angles[i].cosine;
    const T& s = angles[i].sine;
    const T x0 = x[first];
    const T x1 = x[second];
    out[first] = subtract(multiply(x0, c, kF32Unit), multiply(x1, s, kF32Unit), kF32Unit);
    out[second] = add(multiply(x0, s, kF32Unit), multiply(x1, c, kF32Unit), kF32Unit);
  }
}

// All heads of one row of q or k: norm over each head where `norm_weight` isn't empty, then the
// rotation. `raw` and `out`: [heads, 2 * angles.size()].
template <class T>
void norm_and_rotate(std::span<const double> raw, std::span<const double> norm_weight,
                     double epsilon, const NormRule& rule, std::span<const Angle<T>> angles,
                     model::RopePairing pairing, std::span<T> out) {
  const std::size_t head_size = 2 * angles.size();
  std::vector<T> normed(head_size);
  for (std::size_t start = 0; start < raw.size(); start += head_size) {
    const std::span<const double> head = raw.subspan(start, head_size);
    if (norm_weight.empty()) {
      for (std::size_t i = 0; i < head_size; ++i) {
        normed[i] = with_radius<T>(head[i], [] { return 0.0; });
      }
    } else {
      rms_norm<T>(head, norm_weight, epsilon, rule, normed);
    }
    rotate<T>(normed, angles, pairing, out.subspan(start, head_size));
  }
}

}  // namespace lockstep::reference
