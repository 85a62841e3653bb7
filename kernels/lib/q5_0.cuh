// Q5_0: w = d (q - 16), q 5 bits, d f16 for each 32 columns. Device only.
// Codes are read at positions 10 (even outputs) and 15 (odd ones).
// Exact: d has 11 bits and d (2^(23 - p) + 16) = 16 d (2^(19 - p) + 1), at most 11 + 10 = 21.
#pragma once

#include "kernels/lib/tile.cuh"

namespace lockstep::kernels {

struct TileQ5_0 {
  struct Cursor {
    const uint4* quants;
    const std::uint32_t* fifth;
    const std::uint16_t* scales;
  };
  struct Raw {
    uint4 quants;
    std::uint32_t fifth;
    std::uint16_t scale;
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    const unsigned slot = chunk * kLanes + lane;
    const unsigned char* fifth = tile + std::uint64_t{columns} * 4;
    return {reinterpret_cast<const uint4*>(tile) + slot,
            reinterpret_cast<const std::uint32_t*>(fifth) + slot,
            reinterpret_cast<const std::uint16_t*>(fifth + columns) + slot};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    cursor.quants += chunks * kLanes;
    cursor.fifth += chunks * kLanes;
    cursor.scales += chunks * kLanes;
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned, unsigned,
                                             bool active) {
    return {load_or_zero<kGuarded>(cursor.quants, active),
            load_or_zero<kGuarded>(cursor.fifth, active),
            load_or_zero<kGuarded>(cursor.scales, active)};
  }
  // f(0, codes at bits 0 and 5), f(1, at 10 and 15), f(2, at 20 and 25)
  template <class F>
  __device__ __forceinline__ static void pairs(std::uint32_t word, F&& f) {
    const std::uint32_t low = word << 10, high = word >> 10;
    f(0, magic_code<10, 5>(low), magic_code<15, 5>(low));
    f(1, magic_code<10, 5>(word), magic_code<15, 5>(word));
    f(2, magic_code<10, 5>(high), magic_code<15, 5>(high));
  }
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
    const float own = f16_value(raw.scale);
    float scale[8], offset[8];
    unrolled<8>([&](auto o) {
      scale[o] = from_lane<8, o>(own);
      offset[o] = scale[o] * -(magic_value(o % 2 == 0 ? 10 : 15) + 16.0f);
    });
    const auto weight = [&](int o, int i, float code) { f(o, i, fmaf(scale[o], code, offset[o])); };
    std::uint32_t rest = 0;  // bits 30 and 31 of each word
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t word = word_of(raw.quants, i);
      pairs(word, [&](int n, float even, float odd) {
        weight(2 * n, i, even);
        weight(2 * n + 1, i, odd);
      });
      rest = __funnelshift_l(word, rest, 2);
    }
    pairs(raw.fifth, [&](int i, float even, float odd) {
      weight(6, i, even);
      weight(7, i, odd);
    });
    rest = __funnelshift_l(raw.fifth, rest, 2) << 10;
    weight(6, 3, magic_code<10, 5>(rest));
    weight(7, 3, magic_code<15, 5>(rest));
  }
};

}  // namespace lockstep::kernels
