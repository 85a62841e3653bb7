// One memory instruction of one warp, as the checkers see it. Addresses are relative to the space:
// device addresses in global memory, offsets from the block's first byte in shared memory, offsets
// from the warp's first byte in local memory.
#pragma once

#include <cstdint>

namespace lockstep::device::vgpu::check {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

inline constexpr u32 kLanes = 32;
inline constexpr u32 kAllLanes = 0xffffffff;

// Which accesses order with which: PTX ISA 9.0, section "Memory Consistency Model": weak accesses
// of different threads race unless ordered; strong ones (relaxed, acquire, release, volatile,
// atom, red) do not race with each other.
enum class AccessKind : u8 {
  Load,
  Store,
  StrongLoad,
  StrongStore,
  Atomic,        // atom, red: a strong load and store
  ReadOnlyLoad,  // ld.global.nc: nobody writes it during the kernel
};
constexpr bool is_write(AccessKind kind) {
  return kind == AccessKind::Store || kind == AccessKind::StrongStore || kind == AccessKind::Atomic;
}
constexpr bool is_read(AccessKind kind) {
  return kind != AccessKind::Store && kind != AccessKind::StrongStore;
}
constexpr bool is_strong(AccessKind kind) {
  return kind == AccessKind::StrongLoad || kind == AccessKind::StrongStore ||
         kind == AccessKind::Atomic;
}

enum class Pattern : u8 {
  Contiguous,  // lane i is at start + i * size
  Uniform,     // every lane is at start
  Scattered,   // lane i is at lanes[i] - lane_bias
};

struct Access {
  AccessKind kind = AccessKind::Load;
  Pattern pattern = Pattern::Contiguous;
  u32 size = 4;  // bytes of one lane: 1, 2, 4, ..., 32; addresses are multiples of it
  u32 mask = kAllLanes;
  u32 warp = 0;         // in the block
  u32 instruction = 0;  // for messages; races keep 16 bits of it
  u64 start = 0;
  const u64* lanes = nullptr;
  u64 lane_bias = 0;

  u64 address(u32 lane) const {
    switch (pattern) {
      case Pattern::Contiguous:
        return start + u64{lane} * size;
      case Pattern::Uniform:
        return start;
      case Pattern::Scattered:
        return lanes[lane] - lane_bias;
    }
    return 0;
  }
  bool is_full() const { return mask == kAllLanes; }
};

// Code in headers here is compiled once per host instruction set by exec: templates take a tag
// type of the including namespace, so that no two instruction sets share an instantiation.
struct Portable {};

// A loop whose iterations touch disjoint elements; a hint, so no warning where it is not taken.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define LS_CHECK_LOOP(i, count) \
  _Pragma("clang loop vectorize(assume_safety)") for (u32 i = 0; i < (count); ++i)
#else
#define LS_CHECK_LOOP(i, count) _Pragma("GCC ivdep") for (u32 i = 0; i < (count); ++i)
#endif

}  // namespace lockstep::device::vgpu::check
