// Softmax partials and how they merge. A partial over some keys is (m, l, o): m the largest score
// times scale * log2(e), l = sum 2^(t - m), o = sum 2^(t - m) v. No keys: m = -Inf, l = 0.
// Merged: M = max m_i, w_i = 2^(m_i - M), l = sum w_i l_i, o = sum w_i o_i. Device only.
#pragma once

#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {

// Weight of a partial whose maximum is m beside the overall maximum: 0 for one without keys, also
// where there are no keys at all (-Inf minus -Inf would be NaN).
__device__ __forceinline__ float merge_weight(float m, float overall) {
  return m == kNegativeInfinity ? 0.0f : exp2_approx(m - overall);
}

}  // namespace lockstep::kernels
