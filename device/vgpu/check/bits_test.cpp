// Bit ranges and lanes against a plain array of bools.
#include "device/vgpu/check/bits.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.h"
#include "device/vgpu/check/initcheck.h"

namespace lockstep::device::vgpu::check {
namespace {

TEST(Bits, RangesTouchTheirBitsOnly) {
  constexpr u64 kBits = 300;
  for (u64 first = 0; first < 140; first += 7) {
    for (u64 count = 1; first + count < kBits; count += 5) {
      std::vector<u64> map(kBits / 64 + 2, 0);
      set_bits(map.data(), first, count);
      for (u64 bit = 0; bit < kBits; ++bit) {
        const bool wanted = bit >= first && bit < first + count;
        ASSERT_EQ((map[bit / 64] >> (bit % 64) & 1) != 0, wanted) << first << ' ' << count;
      }
      EXPECT_TRUE(all_set(map.data(), first, count));
      EXPECT_FALSE(all_set(map.data(), first, count + 1));
      EXPECT_TRUE(any_set(map.data(), first + count - 1, 5));
      EXPECT_FALSE(any_set(map.data(), first + count, 5));
      clear_bits(map.data(), first, count);
      EXPECT_EQ(map, std::vector<u64>(kBits / 64 + 2, 0));
    }
  }
}

// A random access: pattern, size, mask and addresses below `bytes`.
struct RandomAccess {
  Access access;
  std::array<u64, kLanes> lanes;
};
void draw(base::Prng& random, u64 bytes, RandomAccess& result) {
  Access& access = result.access;
  access.size = 1u << random.below(6);
  access.pattern = static_cast<Pattern>(random.below(3));
  access.mask = random.below(2) == 0 ? kAllLanes : static_cast<u32>(random.next()) | 1u << 7;
  const u64 slots = bytes / access.size;
  access.start = random.below(slots - kLanes) * access.size;
  access.lane_bias = 1000;
  for (u64& lane : result.lanes) lane = random.below(slots) * access.size + 1000;
  access.lanes = result.lanes.data();
}

TEST(Bits, LanesAreFoundAndSetInEveryPattern) {
  base::Prng random(5);
  constexpr u64 kBytes = 2048, kOrigin = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<u64> map(kBytes / 64 + 2, 0);
    std::vector<bool> truth(kBytes, false);
    for (int write = 0; write < 40; ++write) {
      RandomAccess one;
      draw(random, kBytes, one);
      if (write % 2 == 0) {
        set_lanes<false>(map.data(), kOrigin, one.access);
      } else {
        set_lanes<true>(map.data(), kOrigin, one.access);
      }
      for (u32 lane = 0; lane < kLanes; ++lane) {
        if ((one.access.mask >> lane & 1) == 0) continue;
        for (u64 i = 0; i < one.access.size; ++i) truth[one.access.address(lane) + i] = true;
      }
    }
    RandomAccess read;
    draw(random, kBytes, read);
    u32 wanted = 0;
    for (u32 lane = 0; lane < kLanes; ++lane) {
      if ((read.access.mask >> lane & 1) == 0) continue;
      for (u64 i = 0; i < read.access.size; ++i) {
        if (!truth[read.access.address(lane) + i]) wanted |= 1u << lane;
      }
    }
    ASSERT_EQ(lanes_not_set<Portable>(map.data(), kOrigin, read.access), wanted);
  }
}

TEST(GlobalInit, RemembersWritesUntilTheyAreForgotten) {
  GlobalInit init(0x1000000, u64{1} << 33);  // address space only
  const u64 far = 0x1000000 + (u64{1} << 33) - 64;
  EXPECT_FALSE(init.is_marked(far, 1));
  init.mark(far, 64);
  EXPECT_TRUE(init.is_marked(far, 64));
  EXPECT_FALSE(init.is_marked(far - 1, 2));
  init.forget(far, 32);
  EXPECT_FALSE(init.is_marked(far + 31, 1));
  EXPECT_TRUE(init.is_marked(far + 32, 32));
}

}  // namespace
}  // namespace lockstep::device::vgpu::check
