// Ranges of bits in a map with one bit a byte of memory. A map is readable 8 bytes past its last
// bit.
#pragma once

#include "device/vgpu/check/access.h"

namespace lockstep::device::vgpu::check {

// Bits [0, count) of a word; count from 0 to 64.
constexpr u64 low_bits(u64 count) { return count >= 64 ? ~u64{0} : (u64{1} << count) - 1; }

// Calls visit(word index, mask) for each 64-bit word that [first, first + count) touches.
template <class Visit>
inline void for_each_word(u64 first, u64 count, const Visit& visit) {
  u64 word = first >> 6;
  const u64 shift = first & 63;
  if (shift + count <= 64) {
    visit(word, low_bits(count) << shift);
    return;
  }
  visit(word, ~u64{0} << shift);
  u64 left = count - (64 - shift);
  for (++word; left >= 64; left -= 64, ++word) visit(word, ~u64{0});
  if (left != 0) visit(word, low_bits(left));
}

inline bool all_set(const u64* bits, u64 first, u64 count) {
  u64 missing = 0;
  for_each_word(first, count, [&](u64 word, u64 mask) {
    missing |= mask & ~__atomic_load_n(bits + word, __ATOMIC_RELAXED);
  });
  return missing == 0;
}
inline bool any_set(const u64* bits, u64 first, u64 count) {
  u64 found = 0;
  for_each_word(first, count, [&](u64 word, u64 mask) { found |= bits[word] & mask; });
  return found != 0;
}
inline void set_bits(u64* bits, u64 first, u64 count) {
  for_each_word(first, count, [&](u64 word, u64 mask) { bits[word] |= mask; });
}
inline void clear_bits(u64* bits, u64 first, u64 count) {
  for_each_word(first, count, [&](u64 word, u64 mask) { bits[word] &= ~mask; });
}
// For maps that several host threads set: words that have the bits already are only read.
inline void set_bits_atomically(u64* bits, u64 first, u64 count) {
  for_each_word(first, count, [&](u64 word, u64 mask) {
    if ((__atomic_load_n(bits + word, __ATOMIC_RELAXED) & mask) != mask) {
      __atomic_fetch_or(bits + word, mask, __ATOMIC_RELAXED);
    }
  });
}

// Lanes (of those in access.mask) with a byte whose bit is 0; bit `address - origin` stands for a
// byte.
template <class Isa>
inline u32 lanes_not_set(const u64* bits, u64 origin, const Access& access) {
  if (access.pattern == Pattern::Uniform) {
    return all_set(bits, access.start - origin, access.size) ? 0 : access.mask;
  }
  if (access.pattern == Pattern::Contiguous) {
    const u32 first = static_cast<u32>(__builtin_ctz(access.mask));
    const u32 last = 31 - static_cast<u32>(__builtin_clz(access.mask));
    const u64 bytes = u64{last - first + 1} * access.size;
    if (all_set(bits, access.start + u64{first} * access.size - origin, bytes)) return 0;
  }
  // Naturally aligned accesses of up to 32 bytes have their bits in 4 bytes of the map.
  const u64 wanted = low_bits(access.size);
  const u8* map = reinterpret_cast<const u8*>(bits);
  alignas(64) u32 missing[kLanes];
  if (access.pattern == Pattern::Scattered && access.is_full()) {
    const u64 base = access.lane_bias + origin;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const u64 bit = access.lanes[lane] - base;
      u32 word;
      __builtin_memcpy(&word, map + (bit >> 3), 4);
      missing[lane] = static_cast<u32>((word >> (bit & 7)) & wanted) ^ static_cast<u32>(wanted);
    }
    u32 any = 0;
    for (u32 lane = 0; lane < kLanes; ++lane) any |= missing[lane];
    if (any == 0) return 0;
  }
  u32 lanes = 0;
  for (u32 rest = access.mask; rest != 0; rest &= rest - 1) {
    const u32 lane = static_cast<u32>(__builtin_ctz(rest));
    if (!all_set(bits, access.address(lane) - origin, access.size)) lanes |= 1u << lane;
  }
  return lanes;
}

// Sets the bits of every active lane's bytes.
template <bool kAtomically>
inline void set_lanes(u64* bits, u64 origin, const Access& access) {
  const auto set = [&](u64 first, u64 count) {
    if constexpr (kAtomically) {
      set_bits_atomically(bits, first, count);
    } else {
      set_bits(bits, first, count);
    }
  };
  if (access.pattern == Pattern::Uniform) {
    set(access.start - origin, access.size);
  } else if (access.pattern == Pattern::Contiguous && access.is_full()) {
    set(access.start - origin, u64{kLanes} * access.size);
  } else {
    for (u32 rest = access.mask; rest != 0; rest &= rest - 1) {
      const u32 lane = static_cast<u32>(__builtin_ctz(rest));
      set(access.address(lane) - origin, access.size);
    }
  }
}

}  // namespace lockstep::device::vgpu::check
