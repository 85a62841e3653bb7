// Q4_1: w = fl(d q + m), q 4 bits, d and m f16 for each 32 columns. Device only.
// d q has at most 15 bits, so the one rounding is that of the exact value.
#pragma once

#include "kernels/lib/nibbles.cuh"

namespace lockstep::kernels {

struct TileQ4_1 : NibbleSlots<std::uint32_t> {
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
    const float2 own = unpack_f16(raw.scale);
    float scale[8], minimum[8];
    unrolled<8>([&](auto o) {
      scale[o] = from_lane<8, o>(own.x);
      minimum[o] = from_lane<8, o>(own.y);
    });
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      nibbles(word_of(raw.quants, i), [&](int o, float code) {
        f(o, i, fmaf(scale[o], code - magic_value(nibble_position(o)), minimum[o]));
      });
    }
  }
};

}  // namespace lockstep::kernels
