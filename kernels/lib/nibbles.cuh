// Eight 4-bit codes of a word, one of each output, as floats 2^(23 - p) + q (lib/tile.cuh). Two
// shifts bring all of them to positions 8, 12 and 16. Device only.
#pragma once

#include "kernels/lib/tile.cuh"

namespace lockstep::kernels {

// Position at which output o's code is read.
__host__ __device__ constexpr unsigned nibble_position(int o) {
  return o == 0 || o == 2 || o == 5 ? 8u : o == 4 || o == 7 ? 16u : 12u;
}

// f(o, 2^(23 - nibble_position(o)) + q)
template <class F>
__device__ __forceinline__ void nibbles(std::uint32_t word, F&& f) {
  const std::uint32_t low = word << 8, high = word >> 12;
  f(0, magic_code<8, 4>(low));
  f(1, magic_code<12, 4>(low));
  f(2, magic_code<8, 4>(word));
  f(3, magic_code<12, 4>(word));
  f(4, magic_code<16, 4>(word));
  f(5, magic_code<8, 4>(high));
  f(6, magic_code<12, 4>(high));
  f(7, magic_code<16, 4>(high));
}

// The slot of a type with 4-bit codes and, for each block of 32 columns and each output, one scale
// record of type S: lane 8 b + o of a warp holds the record of block b and output o.
template <class S>
struct NibbleSlots {
  struct Cursor {
    const uint4* quants;
    const S* scales;
  };
  struct Raw {
    uint4 quants;
    S scale;
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    const unsigned slot = chunk * kLanes + lane;
    return {reinterpret_cast<const uint4*>(tile) + slot,
            reinterpret_cast<const S*>(tile + std::uint64_t{columns} * 4) + slot};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    cursor.quants += chunks * kLanes;
    cursor.scales += chunks * kLanes;
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned, unsigned,
                                             bool active) {
    return {load_or_zero<kGuarded>(cursor.quants, active),
            load_or_zero<kGuarded>(cursor.scales, active)};
  }
};

}  // namespace lockstep::kernels
