// F32 weights: 8 planes, output o's slots in plane o. Device only.
#pragma once

#include "kernels/lib/tile.cuh"

namespace lockstep::kernels {

struct TileF32 {
  struct Cursor {
    const float4* slot;
    std::uint64_t plane;  // slots
  };
  struct Raw {
    float4 outputs[8];
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    return {reinterpret_cast<const float4*>(tile) + chunk * kLanes + lane, (columns + 3) / 4};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    cursor.slot += chunks * kLanes;
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned, unsigned,
                                             bool active) {
    Raw raw;
#pragma unroll
    for (int o = 0; o < 8; ++o) {
      raw.outputs[o] = load_or_zero<kGuarded>(cursor.slot + o * cursor.plane, active);
    }
    return raw;
  }
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
#pragma unroll
    for (int o = 0; o < 8; ++o) {
      f(o, 0, raw.outputs[o].x);
      f(o, 1, raw.outputs[o].y);
      f(o, 2, raw.outputs[o].z);
      f(o, 3, raw.outputs[o].w);
    }
  }
};

}  // namespace lockstep::kernels
