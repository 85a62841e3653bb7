// Races inside a block: small kernels written as calls, each barrier taken away in turn, and random
// programs against an exact order of all accesses.
#include "device/vgpu/check/racecheck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "base/prng.h"

namespace lockstep::device::vgpu::check {
namespace {

constexpr u64 kFirst = u64{1} << 36;
constexpr u64 kBytes = 1 << 20;

// One block of `warps` full warps, run in the order of the calls.
class Block {
 public:
  explicit Block(u32 warps, u64 shared_bytes = 4096)
      : launch_(kFirst, kBytes), races_(&launch_), warps_(warps) {
    launch_.begin_launch(nullptr);
    races_.begin_block(0, warps, shared_bytes);
  }
  void next_block(u64 shared_bytes = 4096) {
    launch_.finish_block(order_++, races_.end_block());
    races_.begin_block(static_cast<u32>(order_), warps_, shared_bytes);
  }
  void next_launch() {
    launch_.finish_block(order_, races_.end_block());
    findings_.merge(launch_.take_findings());
    order_ = 0;
    launch_.begin_launch(nullptr);
    races_.begin_block(0, warps_, 4096);
  }
  void at(u32 instruction) { instruction_ = instruction; }
  // Lane i of `warp` at start + i * size.
  void row(AccessKind kind, u32 warp, u64 start, u32 mask = kAllLanes, u32 size = 4) {
    go({kind, Pattern::Contiguous, size, mask, warp, instruction_, start, nullptr, 0});
  }
  void one(AccessKind kind, u32 warp, u32 lane, u64 address, u32 size = 4) {
    go({kind, Pattern::Uniform, size, 1u << lane, warp, instruction_, address, nullptr, 0});
  }
  void all(AccessKind kind, u32 warp, u64 address, u32 mask = kAllLanes, u32 size = 4) {
    go({kind, Pattern::Uniform, size, mask, warp, instruction_, address, nullptr, 0});
  }
  void go(const Access& access) {
    if (access.address(0) >= kFirst) {
      races_.global<Portable>(access);
    } else if (!races_.touches_copy(access)) {
      races_.shared<Portable>(access);
    }
  }
  void barrier() { barrier_of((u64{1} << warps_) - 1); }
  void barrier_of(u64 warps) {
    for (u32 warp = 0; warp < warps_; ++warp) {
      if ((warps >> warp & 1) != 0) races_.arrive_at_barrier(warp);
    }
    races_.complete_barrier(static_cast<u32>(warps), static_cast<u32>(warps));
  }
  BlockRaces& races() { return races_; }
  Findings finish() {
    launch_.finish_block(order_, races_.end_block());
    findings_.merge(launch_.take_findings());
    return findings_;
  }

 private:
  LaunchRaces launch_;
  BlockRaces races_;
  Findings findings_;
  u32 warps_, instruction_ = 0;
  u64 order_ = 0;
};

using Kernel = std::function<void(Block&, int skipped)>;

// A kernel with `barriers` barriers: no finding as it is, one where any is taken away.
void expect_every_barrier_counts(u32 warps, int barriers, const Kernel& kernel) {
  for (int skipped = -1; skipped < barriers; ++skipped) {
    Block block(warps);
    kernel(block, skipped);
    EXPECT_EQ(block.finish().empty(), skipped < 0) << "without barrier " << skipped;
  }
}

TEST(SharedRaces, EveryBarrierOfATreeReductionCounts) {
  expect_every_barrier_counts(8, 9, [](Block& block, int skipped) {
    int barrier = 0;
    const auto sync = [&] {
      if (barrier++ != skipped) block.barrier();
    };
    for (u32 warp = 0; warp < 8; ++warp) block.row(AccessKind::Store, warp, warp * 128);
    for (u32 half = 128; half > 0; half /= 2) {
      sync();
      for (u32 thread = 0; thread < half; thread += 32) {
        const u32 mask = half >= 32 ? kAllLanes : (1u << half) - 1;
        block.row(AccessKind::Load, thread / 32, (thread + half) * 4, mask);
        block.row(AccessKind::Load, thread / 32, thread * 4, mask);
        block.row(AccessKind::Store, thread / 32, thread * 4, mask);
      }
    }
    sync();
    for (u32 warp = 0; warp < 8; ++warp) block.all(AccessKind::Load, warp, 0);
  });
}

TEST(SharedRaces, EveryWarpSyncOfAWarpReductionCounts) {
  expect_every_barrier_counts(2, 6, [](Block& block, int skipped) {
    int barrier = 0;
    const auto sync = [&](u32 warp) {
      if (barrier++ != skipped) block.races().sync_warp(warp, kAllLanes, kAllLanes);
    };
    block.row(AccessKind::Store, 1, 0);
    for (u32 half = 16; half > 0; half /= 2) {
      sync(1);
      block.row(AccessKind::Load, 1, half * 4, (1u << half) - 1);
      block.row(AccessKind::Store, 1, 0, (1u << half) - 1);
    }
    sync(1);
    block.all(AccessKind::Load, 1, 0);
  });
}

TEST(SharedRaces, ADoubleBufferNeedsTwoBarriersARound) {
  // Written by one warp, read by the other, the same buffer again.
  expect_every_barrier_counts(2, 5, [](Block& block, int skipped) {
    for (int round = 0; round < 3; ++round) {
      block.row(AccessKind::Store, 0, 0);
      if (2 * round != skipped) block.barrier();
      block.row(AccessKind::Load, 1, 0);
      if (2 * round + 1 != skipped && round < 2) block.barrier();
    }
  });
}

TEST(SharedRaces, AFindingNamesBothInstructionsAndThreads) {
  Block block(2);
  block.at(7);
  block.row(AccessKind::Store, 0, 256);
  block.at(9);
  block.one(AccessKind::Load, 1, 3, 264);
  const Findings findings = block.finish();
  ASSERT_EQ(findings.list().size(), 1u);
  const Finding& finding = findings.list()[0];
  EXPECT_EQ(finding.checker, "racecheck");
  EXPECT_EQ(finding.kind, "shared");
  EXPECT_EQ(finding.instruction, 9u);
  EXPECT_EQ(finding.second_instruction, 7u);
  EXPECT_EQ(finding.message,
            "thread 35 of block 0 reads shared memory at offset 264, which thread 2 wrote with no "
            "barrier between");
}

TEST(SharedRaces, ReadersBeforeAWriterAreSeen) {
  Block block(3);
  block.row(AccessKind::Load, 0, 0);
  block.row(AccessKind::Load, 1, 0);
  block.row(AccessKind::Store, 1, 0);
  EXPECT_FALSE(block.finish().empty());
  Block own(1);
  own.row(AccessKind::Load, 0, 0);
  own.row(AccessKind::Store, 0, 0);
  own.row(AccessKind::Load, 0, 0);
  EXPECT_TRUE(own.finish().empty());
}

// What was recorded of 16 bytes holds for each part of them.
TEST(SharedRaces, APartOfAVectorRacesWithTheWhole) {
  Block block(2);
  block.row(AccessKind::Store, 0, 0, kAllLanes, 16);
  block.one(AccessKind::Store, 0, 1, 16 + 8, 4);  // its own
  EXPECT_TRUE(block.races().findings().empty());
  block.at(7);
  block.one(AccessKind::Load, 1, 3, 32 + 12, 2);
  const Findings findings = block.finish();
  ASSERT_EQ(findings.list().size(), 1u);
  EXPECT_EQ(findings.list()[0].instruction, 7u);
  EXPECT_THAT(findings.list()[0].message, testing::HasSubstr("thread 35"));
  EXPECT_THAT(findings.list()[0].message, testing::HasSubstr("which thread 2 wrote"));
}

TEST(SharedRaces, NeighbouringHalvesAndBytesAreApart) {
  Block block(1);
  block.row(AccessKind::Store, 0, 0, kAllLanes, 4);
  block.barrier();
  block.row(AccessKind::Store, 0, 0, kAllLanes, 2);
  block.barrier();
  block.row(AccessKind::Store, 0, 64, 0x55555555, 1);
  block.row(AccessKind::Load, 0, 64, 0x55555555, 1);
  block.row(AccessKind::Store, 0, 64, 0xaaaaaaaa, 1);
  EXPECT_TRUE(block.finish().empty());
  Block overlap(1);
  overlap.row(AccessKind::Store, 0, 0, kAllLanes, 2);
  overlap.row(AccessKind::Load, 0, 0, 1, 4);
  EXPECT_FALSE(overlap.finish().empty());
}

TEST(SharedRaces, LanesThatStoreToOnePlaceRace) {
  Block block(1);
  block.all(AccessKind::Store, 0, 64, 0x3);
  EXPECT_FALSE(block.finish().empty());
  Block single(1);
  single.all(AccessKind::Store, 0, 64, 0x4);
  EXPECT_TRUE(single.finish().empty());
  Block scattered(1);
  std::array<u64, kLanes> lanes;
  for (u32 lane = 0; lane < kLanes; ++lane) lanes[lane] = lane * 8;
  lanes[9] = lanes[30];
  const Access access{
      .kind = AccessKind::Store, .pattern = Pattern::Scattered, .lanes = lanes.data()};
  scattered.go(access);
  EXPECT_FALSE(scattered.finish().empty());
}

TEST(SharedRaces, AtomicsRaceWithPlainAccessesOnly) {
  Block atomics(2);
  for (u32 warp = 0; warp < 2; ++warp) atomics.all(AccessKind::Atomic, warp, 0);
  for (u32 warp = 0; warp < 2; ++warp) atomics.all(AccessKind::StrongLoad, warp, 0);
  atomics.one(AccessKind::StrongStore, 1, 5, 0);
  atomics.barrier();
  atomics.all(AccessKind::Load, 1, 0);
  EXPECT_TRUE(atomics.finish().empty());
  for (const AccessKind plain : {AccessKind::Load, AccessKind::Store}) {
    Block after(2);
    after.one(AccessKind::Atomic, 0, 0, 0);
    after.one(AccessKind::Atomic, 1, 0, 0);
    after.one(plain, 1, 0, 0);
    EXPECT_FALSE(after.finish().empty());
    Block before(2);
    before.one(plain, 0, 0, 0);
    before.one(AccessKind::Atomic, 1, 0, 0);
    EXPECT_FALSE(before.finish().empty());
  }
}

TEST(SharedRaces, TilesOfAWarpSyncAlone) {
  const auto run = [](u32 members) {
    Block block(1);
    block.row(AccessKind::Store, 0, 0, 0xff00);
    block.races().sync_warp(0, members, kAllLanes);
    std::array<u64, kLanes> lanes = {};
    for (u32 lane = 8; lane < 16; ++lane) lanes[lane] = (lane ^ 1) * 4;
    block.go({.kind = AccessKind::Load,
              .pattern = Pattern::Scattered,
              .mask = 0xff00,
              .lanes = lanes.data()});
    return block.finish().empty();
  };
  EXPECT_TRUE(run(0xff00));
  EXPECT_TRUE(run(kAllLanes));
  EXPECT_FALSE(run(0x00ff));
}

TEST(SharedRaces, BarriersOfSomeWarpsOrderThese) {
  Block block(4);
  block.row(AccessKind::Store, 0, 0);
  block.barrier_of(0b0011);
  block.row(AccessKind::Load, 1, 0);
  EXPECT_TRUE(block.races().findings().empty());
  block.barrier_of(0b0110);
  block.row(AccessKind::Load, 2, 0);  // through warp 1
  EXPECT_TRUE(block.races().findings().empty());
  block.row(AccessKind::Load, 3, 0);
  EXPECT_FALSE(block.finish().empty());
}

TEST(SharedRaces, ArrivingOrdersWhatWasBeforeOnly) {
  const auto run = [](bool after) {
    Block block(2);
    if (!after) block.row(AccessKind::Store, 0, 0);
    block.races().arrive_at_barrier(0);  // bar.arrive
    if (after) block.row(AccessKind::Store, 0, 0);
    block.races().arrive_at_barrier(1);
    block.races().complete_barrier(0b10, 0b11);
    block.row(AccessKind::Load, 1, 0);
    return block.finish().empty();
  };
  EXPECT_TRUE(run(false));
  EXPECT_FALSE(run(true));
}

TEST(SharedRaces, AsyncCopiesMustBeWaitedFor) {
  const auto run = [](bool waits, bool syncs, u32 reader) {
    Block block(2);
    block.races().begin_copy(0, 3, 32, 16, 5);
    if (waits) block.races().finish_copy(0, 3, 32, 16, 5);
    if (syncs) block.barrier();
    block.at(9);
    block.one(AccessKind::Load, reader / 32, reader % 32, 36);
    return block.finish();
  };
  const auto kind = [&](bool waits, bool syncs, u32 reader) -> std::string {
    const Findings findings = run(waits, syncs, reader);
    return findings.empty() ? "" : findings.list()[0].kind;
  };
  EXPECT_EQ(kind(true, true, 40), "");
  EXPECT_EQ(kind(true, false, 3), "");  // its own copy
  EXPECT_EQ(kind(true, false, 40), "shared");
  EXPECT_EQ(kind(false, true, 40), "async_copy");
  EXPECT_EQ(kind(false, false, 3), "async_copy");
  EXPECT_EQ(run(false, true, 40).list()[0].second_instruction, 5u);
}

TEST(SharedRaces, ACopyIntoABufferThatIsStillReadRaces) {
  const auto run = [](bool syncs) {
    Block block(2);
    block.row(AccessKind::Load, 1, 0);
    if (syncs) block.barrier();
    block.races().begin_copy(0, 0, 0, 16, 5);
    block.races().finish_copy(0, 0, 0, 16, 5);
    return block.finish().empty();
  };
  EXPECT_TRUE(run(true));
  EXPECT_FALSE(run(false));
}

TEST(SharedRaces, MatrixLoadsReadForTheWholeWarp) {
  const auto run = [](bool syncs) {
    Block block(1);
    block.row(AccessKind::Store, 0, 0);
    if (syncs) block.races().sync_warp(0, kAllLanes, kAllLanes);
    const Access access{
        .kind = AccessKind::Load, .pattern = Pattern::Uniform, .size = 16, .mask = 1};
    block.races().shared_row(access, 0);
    return block.finish().empty();
  };
  EXPECT_TRUE(run(true));
  EXPECT_FALSE(run(false));
}

TEST(SharedRaces, NextBlocksAndLaunchesAreFresh) {
  Block block(2);
  block.row(AccessKind::Store, 0, 0);
  block.next_block();
  block.row(AccessKind::Store, 1, 0);
  block.next_launch();
  block.row(AccessKind::Load, 0, 0);
  EXPECT_TRUE(block.finish().empty());
}

TEST(SharedRaces, TimesBeginAgainWithoutFalseAlarms) {
  Block block(2);
  bool told = false;
  for (u32 round = 0; round < 800'000; ++round) {
    block.one(AccessKind::Store, round & 1, 0, 0);
    block.barrier();
    told = told || !block.races().findings().empty();
  }
  EXPECT_FALSE(told);
  block.one(AccessKind::Store, 0, 0, 0);
  block.one(AccessKind::Store, 1, 0, 0);
  EXPECT_FALSE(block.finish().empty());
}

TEST(GlobalRaces, ThreadsOfABlockAndPagesAreWatched) {
  for (const u64 start : {kFirst, kFirst + kPageBytes - 64}) {
    expect_every_barrier_counts(2, 1, [&](Block& block, int skipped) {
      block.row(AccessKind::Store, 0, start, kAllLanes, 8);
      if (skipped != 0) block.barrier();
      block.row(AccessKind::Load, 1, start + 64, 0xffff0000, 8);
    });
  }
}

// --- Between blocks ---------------------------------------------------------------------------

struct Step {
  AccessKind kind;
  u64 address;
};
Findings two_blocks(const Step& first, const Step& second, bool fences = false) {
  Block block(1);
  block.at(3);
  block.one(first.kind, 0, 0, first.address);
  if (fences) block.races().fence();
  block.next_block();
  block.at(4);
  block.one(second.kind, 0, 0, second.address);
  if (fences) block.races().fence();
  return block.finish();
}

TEST(GlobalRaces, BlocksOfOneLaunchRaceUnlessAllAccessesAreStrongOrReads) {
  using K = AccessKind;
  const std::set<K> writes = {K::Store, K::StrongStore, K::Atomic};
  const std::set<K> strong = {K::StrongLoad, K::StrongStore, K::Atomic};
  for (const K first :
       {K::Load, K::Store, K::StrongLoad, K::StrongStore, K::Atomic, K::ReadOnlyLoad}) {
    for (const K second :
         {K::Load, K::Store, K::StrongLoad, K::StrongStore, K::Atomic, K::ReadOnlyLoad}) {
      const bool races = (writes.contains(first) || writes.contains(second)) &&
                         !(strong.contains(first) && strong.contains(second));
      EXPECT_EQ(!two_blocks({first, kFirst + 8}, {second, kFirst + 8}).empty(), races)
          << int(first) << ' ' << int(second);
      EXPECT_TRUE(two_blocks({first, kFirst + 8}, {second, kFirst + 12}).empty());
      EXPECT_TRUE(two_blocks({first, kFirst + 8}, {second, kFirst + 8}, true).empty());
    }
  }
}

TEST(GlobalRaces, AFindingNamesBothBlocksAndInstructions) {
  const Findings findings =
      two_blocks({AccessKind::Store, kFirst + 8}, {AccessKind::Load, kFirst + 8});
  ASSERT_EQ(findings.list().size(), 1u);
  EXPECT_EQ(findings.list()[0].kind, "global");
  EXPECT_EQ(findings.list()[0].instruction, 4u);
  EXPECT_EQ(findings.list()[0].second_instruction, 3u);
  EXPECT_EQ(findings.list()[0].message,
            "block 1 reads global memory at 0x1000000008, which block 0 writes in the same launch");
}

TEST(GlobalRaces, LaunchesAreOrdered) {
  Block block(1);
  block.row(AccessKind::Store, 0, kFirst);
  block.next_launch();
  block.row(AccessKind::Store, 0, kFirst);
  block.next_block();
  block.row(AccessKind::Load, 0, kFirst + 128);
  EXPECT_TRUE(block.finish().empty());
}

TEST(GlobalRaces, LogsAreMergedInTheOrderOfTheSchedule) {
  const auto run = [](bool swapped) {
    LaunchRaces launch(kFirst, kBytes);
    launch.begin_launch(nullptr);
    BlockRaces first(&launch), second(&launch);
    first.begin_block(0, 1, 0);
    second.begin_block(1, 1, 0);
    const Access access{.kind = AccessKind::Store, .start = kFirst};
    first.global<Portable>(access);
    second.global<Portable>(access);
    BlockLog a = first.end_block(), b = second.end_block();
    if (swapped) {
      launch.finish_block(1, std::move(b));
      launch.finish_block(0, std::move(a));
    } else {
      launch.finish_block(0, std::move(a));
      launch.finish_block(1, std::move(b));
    }
    return launch.take_findings().list().at(0).message;
  };
  EXPECT_EQ(run(false), run(true));
}

// --- Random programs against an exact order ---------------------------------------------------

// Every access of the past with what its thread had seen: vector clocks over threads.
class Exact {
 public:
  explicit Exact(u32 warps) : seen_(warps * kLanes, std::vector<u32>(warps * kLanes, 0)) {
    for (u32 thread = 0; thread < seen_.size(); ++thread) seen_[thread][thread] = 1;
  }
  // Whether an access of `thread` to a word of 4 bytes races with one before it.
  bool access(u32 thread, u32 word, bool write, bool strong) {
    bool races = false;
    for (const Past& past : past_) {
      if (past.word != word || past.thread == thread) continue;
      if (!(past.write || write) || (past.strong && strong)) continue;
      races = races || seen_[thread][past.thread] < past.time;
    }
    past_.push_back({thread, word, seen_[thread][thread], write, strong});
    return races;
  }
  void sync(const std::vector<u32>& threads) {
    std::vector<u32> joined(seen_.size(), 0);
    for (const u32 thread : threads) {
      for (std::size_t i = 0; i < joined.size(); ++i) {
        joined[i] = std::max(joined[i], seen_[thread][i]);
      }
    }
    for (const u32 thread : threads) {
      seen_[thread] = joined;
      ++seen_[thread][thread];
    }
  }

 private:
  struct Past {
    u32 thread, word, time;
    bool write, strong;
  };
  std::vector<std::vector<u32>> seen_;
  std::vector<Past> past_;
};

std::vector<u32> threads_of_warp(u32 warp) {
  std::vector<u32> threads;
  for (u32 lane = 0; lane < kLanes; ++lane) threads.push_back(warp * kLanes + lane);
  return threads;
}

// Runs a random program until its first race; true where both sides agree on when that is. With
// strong accesses (even seeds) some races may be missed, but none is invented.
bool agrees(u64 seed) {
  constexpr u32 kWarps = 3;
  base::Prng random(seed);
  Block block(kWarps);
  Exact exact(kWarps);
  const bool strong_too = seed % 2 == 0;
  const u64 base = seed % 3 == 0 ? kFirst : 0;
  for (int step = 0; step < 60; ++step) {
    const u32 warp = static_cast<u32>(random.below(kWarps));
    const u64 what = random.below(16);
    bool races = false;
    if (what < 3) {
      block.barrier();
      std::vector<u32> all;
      for (u32 i = 0; i < kWarps * kLanes; ++i) all.push_back(i);
      exact.sync(all);
    } else if (what < 6) {
      block.races().sync_warp(warp, kAllLanes, kAllLanes);
      exact.sync(threads_of_warp(warp));
    } else {
      const u64 pick = random.below(strong_too ? 5 : 2);
      const AccessKind kind = pick == 0   ? AccessKind::Load
                              : pick == 1 ? AccessKind::Store
                              : pick == 2 ? AccessKind::Atomic
                              : pick == 3 ? AccessKind::StrongLoad
                                          : AccessKind::StrongStore;
      const u32 mask = random.below(3) == 0 ? kAllLanes : 0x1111u << random.below(8);
      const u32 size = 4u << random.below(3);
      const u64 start = base + random.below(2) * 64;
      // Loads of one place by all, rows, and places anywhere (several lanes at one of them, too).
      const u64 shape = random.below(3);
      const Pattern pattern = shape == 0 && is_read(kind) ? Pattern::Uniform
                              : shape == 1                ? Pattern::Scattered
                                                          : Pattern::Contiguous;
      std::array<u64, kLanes> lanes;
      for (u64 lane = 0; lane < kLanes; ++lane) {
        const u64 place = is_write(kind) && random.below(20) != 0 ? lane ^ 5 : random.below(kLanes);
        lanes[lane] = start + place * size;
      }
      const Access access{.kind = kind,
                          .pattern = pattern,
                          .size = size,
                          .mask = mask,
                          .warp = warp,
                          .start = start,
                          .lanes = lanes.data()};
      const int times = is_write(kind) ? 1 : 2;  // a load again changes nothing
      for (int i = 0; i < times; ++i) block.go(access);
      for (u32 lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const u32 first = static_cast<u32>((access.address(lane) - base) / 4);
        for (u32 word = first; word < first + size / 4; ++word) {
          races |= exact.access(warp * kLanes + lane, word, is_write(kind), is_strong(kind));
        }
      }
    }
    if (races || !block.races().findings().empty()) {
      return block.finish().empty() ? !races || strong_too : races;
    }
  }
  return block.finish().empty();
}

TEST(SharedRaces, RandomProgramsRaceExactlyWhenTheirOrderSaysSo) {
  for (u64 seed = 1; seed <= 4000; ++seed) ASSERT_TRUE(agrees(seed)) << "seed " << seed;
}

}  // namespace
}  // namespace lockstep::device::vgpu::check
