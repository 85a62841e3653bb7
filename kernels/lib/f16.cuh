// F16 and BF16 weights: 4 planes of 16-byte slots with two outputs each. Both widen exactly.
// Device only.
#pragma once

#include "kernels/lib/tile.cuh"

namespace lockstep::kernels {

// The two numbers of a word; BF16 in a float register without a mov.
template <Format kFormat>
__device__ __forceinline__ float2 widen(std::uint32_t word) {
  if constexpr (kFormat == Format::F16) return unpack_f16(word);
  float2 two;
  asm("shl.b32 %0, %1, 16;" : "=f"(two.x) : "r"(word));
  asm("and.b32 %0, %1, 0xffff0000;" : "=f"(two.y) : "r"(word));
  return two;
}

template <Format kFormat>
struct Tile16 {
  struct Cursor {
    const uint4* slot;
    std::uint64_t plane;  // slots
  };
  struct Raw {
    uint4 pairs[4];
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    return {reinterpret_cast<const uint4*>(tile) + chunk * kLanes + lane, (columns + 3) / 4};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    cursor.slot += chunks * kLanes;
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned, unsigned,
                                             bool active) {
    Raw raw;
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      raw.pairs[p] = load_or_zero<kGuarded>(cursor.slot + p * cursor.plane, active);
    }
    return raw;
  }
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
#pragma unroll
    for (int o = 0; o < 8; ++o) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float2 two = widen<kFormat>(word_of(raw.pairs[o / 2], 2 * (o % 2) + h));
        f(o, 2 * h, two.x);
        f(o, 2 * h + 1, two.y);
      }
    }
  }
};
using TileF16 = Tile16<Format::F16>;
using TileBF16 = Tile16<Format::BF16>;

}  // namespace lockstep::kernels
