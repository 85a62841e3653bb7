// Q4_K: w = fl(d s q - dmin m), q 4 bits; s and m 6 bits for each 32 columns; d and dmin f16 for
// each 256. Device only.
// d s and dmin m have at most 17 bits, d s q 21: one rounding, that of the exact value.
#pragma once

#include "kernels/lib/nibbles.cuh"

namespace lockstep::kernels {

struct TileQ4_K {
  using Slots = NibbleSlots<std::uint16_t>;  // {s, m}
  struct Cursor {
    Slots::Cursor slots;
    const std::uint32_t* blocks;  // {d, dmin} of lane % 8's output
  };
  struct Raw {
    Slots::Raw slot;
    std::uint32_t block;
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    // Behind 4 bytes of codes and half a byte of scales and minima a column.
    const std::uint64_t offset = std::uint64_t{columns} * 4 + columns / 2;
    return {Slots::start(tile, columns, chunk, lane),
            reinterpret_cast<const std::uint32_t*>(tile + offset) + lane % 8};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    Slots::advance(cursor.slots, chunks);
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned chunk, unsigned lane,
                                             bool active) {
    return {Slots::load<kGuarded>(cursor.slots, chunk, lane, active),
            load_or_zero<kGuarded>(cursor.blocks + chunk / 2 * 8, active)};
  }
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
    const float2 block = unpack_f16(raw.block);
    const std::uint32_t pair = raw.slot.scale;
    const float own_scale = block.x * static_cast<float>(pair & 0xff);
    const float own_minimum = -(block.y * static_cast<float>(pair >> 8));
    float scale[8], minimum[8];
    unrolled<8>([&](auto o) {
      scale[o] = from_lane<8, o>(own_scale);
      minimum[o] = from_lane<8, o>(own_minimum);
    });
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      nibbles(word_of(raw.slot.quants, i), [&](int o, float code) {
        f(o, i, fmaf(scale[o], code - magic_value(nibble_position(o)), minimum[o]));
      });
    }
  }
};

}  // namespace lockstep::kernels
