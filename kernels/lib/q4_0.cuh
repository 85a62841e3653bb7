// Q4_0: w = d (q - 8), q 4 bits, d f16 for each 32 columns. Device only.
// Exact: d has 11 bits and d (2^(23 - p) + 8) = 8 d (2^(20 - p) + 1), p >= 8, at most 11 + 13 = 24.
#pragma once

#include "kernels/lib/nibbles.cuh"

namespace lockstep::kernels {

struct TileQ4_0 : NibbleSlots<std::uint16_t> {
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
    const float own = f16_value(raw.scale);
    float scale[8], offset[8];
    unrolled<8>([&](auto o) {
      scale[o] = from_lane<8, o>(own);
      offset[o] = scale[o] * -(magic_value(nibble_position(o)) + 8.0f);
    });
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      nibbles(word_of(raw.quants, i),
              [&](int o, float code) { f(o, i, fmaf(scale[o], code, offset[o])); });
    }
  }
};

}  // namespace lockstep::kernels
