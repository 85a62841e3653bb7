// Weight tiles on the device (layout: kernels/weights.h), and how quantized codes become numbers.
//
// Codes by magic numbers. Bits that a mask leaves of a word, or'ed into the float 2^(23 - p) with
// p = position of the code's lowest bit, are the float F = 2^(23 - p) + q, exactly: one lop3. Then
//   w = fma(s, F, -s (2^(23 - p) + z)) = s (q - z)      where the constant is exact in float32,
//   w = fma(s, F - 2^(23 - p), m)      = fl(s q + m)    always (the difference is exact).
// The first form rounds nothing if s (2^(23 - p) + z) needs at most 24 bits; each decoder says why
// it does. A zero may come out as +0 where s q is -0; scales of Inf or NaN give NaN.
//
// A decoder is a struct of static functions for one lane of a warp that works on one tile:
//   Cursor start(tile, columns, chunk, lane): where the lane's slot 32 chunk + lane lies
//   advance(cursor, chunks)
//   Raw load<kGuarded>(cursor, chunk, lane, active): the slot's bits (zeros where not active,
//     which decode to zero weights), 16 bytes and less a load, contiguous over the warp
//   decode(raw, f): f(o, i, w) for the 8 outputs o and 4 columns i; all 32 lanes take part: a scale
//     is loaded and converted by one lane and handed to the others by shuffles
// Device only.
#pragma once

#include <utility>

#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {

inline constexpr unsigned kTileOutputs = 8;
inline constexpr unsigned kSlotColumns = 4;
inline constexpr unsigned kChunkColumns = 128;
inline constexpr unsigned kLanes = 32;

// 2^(23 - p) as bits.
__host__ __device__ constexpr std::uint32_t magic_bits(unsigned position) {
  return (127u + 23u - position) << 23;
}
__host__ __device__ constexpr float magic_value(unsigned position) {
  return static_cast<float>(1u << (23u - position));
}

// A loop that is unrolled, with an index that is a constant: f(Index<0>), f(Index<1>), ...
template <int kValue>
struct Index {
  static constexpr int value = kValue;
  __host__ __device__ constexpr operator int() const { return kValue; }
};
template <class F, int... kValues>
__device__ __forceinline__ void unrolled(F&& f, std::integer_sequence<int, kValues...>) {
  (f(Index<kValues>{}), ...);
}
template <int kCount, class F>
__device__ __forceinline__ void unrolled(F&& f) {
  unrolled(f, std::make_integer_sequence<int, kCount>{});
}

// The next three write a float register with an instruction for bits, and take constants as
// immediates: the compiler would spend a mov on each.

// The float 2^(23 - kPosition) + (the kBits bits of word from kPosition on).
template <unsigned kPosition, unsigned kBits>
__device__ __forceinline__ float magic_code(std::uint32_t word) {
  static_assert(kPosition + kBits <= 23);
  constexpr std::uint32_t kMask = ((1u << kBits) - 1) << kPosition;
  float result;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;"  // (a & b) | c
      : "=f"(result)
      : "r"(word), "n"(kMask), "n"(magic_bits(kPosition)));
  return result;
}
// The float 2^15 + byte kByte of word.
template <int kByte>
__device__ __forceinline__ float magic_byte(std::uint32_t word) {
  float result;
  asm("prmt.b32 %0, %1, %2, %3;"
      : "=f"(result)
      : "r"(word), "n"(magic_bits(8)), "n"(0x7404 | kByte << 4));
  return result;
}
// Lane kSource of each group of kWidth lanes; by all lanes of the warp.
template <int kWidth, int kSource>
__device__ __forceinline__ float from_lane(float x) {
  float result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, 0xffffffff;"
               : "=f"(result)
               : "f"(x), "n"(kSource), "n"((32 - kWidth) << 8 | 31));
  return result;
}

__device__ __forceinline__ float f16_value(std::uint16_t bits) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
  return result;
}

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Read-only loads; kGuarded: zeros where not active.
template <bool kGuarded, class T>
__device__ __forceinline__ T load_or_zero(const T* from, bool active) {
  T value{};
  if (!kGuarded || active) value = __ldg(from);
  return value;
}

}  // namespace lockstep::kernels
