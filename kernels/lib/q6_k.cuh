// Q6_K: w = d s (q - 32), q 6 bits, s a signed byte for each 16 columns, d f16 for each 256. Device
// only. Exact: d s has at most 11 + 7 bits (|s| <= 127, or 2^7), times |q - 32| <= 31 or 2^5: 23.
#pragma once

#include "kernels/lib/tile.cuh"

namespace lockstep::kernels {

struct TileQ6_K {
  // Lane 4 g + t of a warp holds the scales of outputs 2 t and 2 t + 1 for the 16 columns of g.
  struct Cursor {
    const uint4* quants;
    const uint2* quants_second;
    const std::uint16_t* scales;
    const std::uint32_t* blocks;
  };
  struct Raw {
    uint4 quants;
    uint2 quants_second;
    std::uint16_t scales;
    std::uint32_t blocks;
  };
  __device__ __forceinline__ static Cursor start(const unsigned char* tile, unsigned columns,
                                                 unsigned chunk, unsigned lane) {
    const unsigned slot = chunk * kLanes + lane;
    const unsigned char* second = tile + std::uint64_t{columns} * 4;
    const unsigned char* scales = second + std::uint64_t{columns} * 2;
    return {reinterpret_cast<const uint4*>(tile) + slot,
            reinterpret_cast<const uint2*>(second) + slot,
            reinterpret_cast<const std::uint16_t*>(scales) + slot,
            reinterpret_cast<const std::uint32_t*>(scales + columns / 2) + lane % 4};
  }
  __device__ __forceinline__ static void advance(Cursor& cursor, unsigned chunks) {
    cursor.quants += chunks * kLanes;
    cursor.quants_second += chunks * kLanes;
    cursor.scales += chunks * kLanes;
  }
  template <bool kGuarded>
  __device__ __forceinline__ static Raw load(const Cursor& cursor, unsigned chunk, unsigned,
                                             bool active) {
    return {load_or_zero<kGuarded>(cursor.quants, active),
            load_or_zero<kGuarded>(cursor.quants_second, active),
            load_or_zero<kGuarded>(cursor.scales, active),
            load_or_zero<kGuarded>(cursor.blocks + chunk / 2 * 4, active)};
  }
  // What q = 32 looks like.
  __device__ __forceinline__ static float zero(unsigned position) {
    return magic_value(position) + 32.0f;
  }
  // f(field, q - 32) for the 16 codes of three words.
  template <class F>
  __device__ __forceinline__ static void fields(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                F&& f) {
    const std::uint32_t words[3] = {a, b, c};
#pragma unroll
    for (int n = 0; n < 3; ++n) {
      const std::uint32_t high = words[n] >> 12;
      f(5 * n, magic_code<0, 6>(words[n]) - zero(0));
      f(5 * n + 1, magic_code<6, 6>(words[n]) - zero(6));
      f(5 * n + 2, magic_code<12, 6>(words[n]) - zero(12));
      f(5 * n + 3, magic_code<6, 6>(high) - zero(6));
      f(5 * n + 4, magic_code<12, 6>(high) - zero(12));
    }
    const std::uint32_t rest = __funnelshift_l(c, __funnelshift_l(b, a >> 30, 2), 2);
    f(15, __uint_as_float(rest | magic_bits(0)) - zero(0));
  }
  template <class F>
  __device__ __forceinline__ static void decode(const Raw& raw, F&& f) {
    const float2 block = unpack_f16(raw.blocks);
    const int pair = static_cast<std::int16_t>(raw.scales);
    const float own[2] = {block.x * static_cast<float>(pair << 24 >> 24),
                          block.y * static_cast<float>(pair >> 8)};
    float scale[8];
    unrolled<8>([&](auto o) { scale[o] = from_lane<4, o / 2>(own[o % 2]); });
    fields(raw.quants.x, raw.quants.y, raw.quants.z,
           [&](int field, float code) { f(field % 8, field / 8, scale[field % 8] * code); });
    fields(raw.quants.w, raw.quants_second.x, raw.quants_second.y,
           [&](int field, float code) { f(field % 8, 2 + field / 8, scale[field % 8] * code); });
  }
};

}  // namespace lockstep::kernels
