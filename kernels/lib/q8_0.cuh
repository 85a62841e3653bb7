// Q8_0: w = d q, q a signed byte (stored as q + 128), d f16 for each 32 columns. Device only.
// A byte is read at position 8, put there by one prmt.
// Exact: d has 11 bits and d (2^15 + 128) = 128 d (2^8 + 1), at most 11 + 9 = 20.
#pragma once

#include "kernels/lib/tile.cuh"

namespace lockstep::kernels {

struct TileQ8_0 {
  struct Cursor {
    const uint4* quants;
    std::uint64_t plane;  // slots
    const std::uint16_t* scales;
  };
  struct Raw {
    uint4 quants[2];
    std::uint16_t scale;
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    const unsigned slot = chunk * kLanes + lane;
    return {reinterpret_cast<const uint4*>(tile) + slot, columns / 4,
            reinterpret_cast<const std::uint16_t*>(tile + std::uint64_t{columns} * 8) + slot};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    cursor.quants += chunks * kLanes;
    cursor.scales += chunks * kLanes;
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned, unsigned,
                                             bool active) {
    return {{load_or_zero<kGuarded>(cursor.quants, active),
             load_or_zero<kGuarded>(cursor.quants + cursor.plane, active)},
            load_or_zero<kGuarded>(cursor.scales, active)};
  }
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
    const float own = f16_value(raw.scale);
    unrolled<8>([&](auto o) {
      const float scale = from_lane<8, o>(own);
      const float offset = scale * -(magic_value(8) + 128.0f);
      const std::uint32_t word = word_of(raw.quants[o / 4], o % 4);
      unrolled<4>([&](auto i) { f(o, i, fmaf(scale, magic_byte<i>(word), offset)); });
    });
  }
};

}  // namespace lockstep::kernels
