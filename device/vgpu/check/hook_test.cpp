// What a block's hook says of reads, copies, matrices and barriers.
#include "device/vgpu/check/hook.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::device::vgpu::check {
namespace {

constexpr u64 kFirst = u64{1} << 36;
constexpr u64 kBuffer = kFirst + 256;

class HookTest : public testing::Test {
 protected:
  void begin(Levels levels = {}) {
    allocations_.add(kBuffer, 1024, "x");
    launch_ = std::make_unique<LaunchChecks>(levels, kFirst, 1 << 20, &allocations_);
    block_ = std::make_unique<BlockChecks>(launch_.get());
    launch_->begin_launch();
    block_->begin_block(0, 5, 2, 1024, 32 * 16);
  }
  void at(Space space, AccessKind kind, u64 start, u32 warp = 0) {
    access<Portable>(*block_, space,
                     {.kind = kind, .warp = warp, .instruction = 8, .start = start});
  }
  // "checker/kind: message", or "" for none.
  std::string end() {
    block_->end_block();
    const Findings findings = launch_->end_launch();
    if (findings.empty()) return "";
    const Finding& finding = findings.list()[0];
    return finding.checker + "/" + finding.kind + ": " + finding.message;
  }

  AllocationTable allocations_;
  std::unique_ptr<LaunchChecks> launch_;
  std::unique_ptr<BlockChecks> block_;
};

TEST_F(HookTest, GlobalReadsNeedWritesOfTheHostOrAKernel) {
  begin();
  launch_->host_wrote(kBuffer, 128);
  at(Space::Global, AccessKind::Load, kBuffer);
  at(Space::Global, AccessKind::Store, kBuffer + 128);
  at(Space::Global, AccessKind::Load, kBuffer + 128);
  EXPECT_EQ(end(), "");
}

TEST_F(HookTest, AnUnwrittenGlobalReadNamesItsAllocation) {
  begin();
  launch_->host_wrote(kBuffer, 64);
  at(Space::Global, AccessKind::Load, kBuffer);
  EXPECT_EQ(end(),
            "initcheck/uninitialized_read: thread 16 of block 5 reads 4 bytes of global memory at "
            "0x1000000140 (at offset 64 of \"x\" of 1024 bytes) that nothing has written");
}

TEST_F(HookTest, AllocatingAgainForgets) {
  begin();
  launch_->host_wrote(kBuffer, 1024);
  launch_->allocated(kBuffer, 1024);
  at(Space::Global, AccessKind::Atomic, kBuffer);
  EXPECT_NE(end(), "");
}

TEST_F(HookTest, SharedMemoryIsUnwrittenInEachBlock) {
  begin();
  at(Space::Shared, AccessKind::Store, 0);
  at(Space::Shared, AccessKind::Load, 0);
  EXPECT_TRUE(block_->findings().empty());
  block_->end_block();
  block_->begin_block(1, 6, 2, 1024, 0);
  at(Space::Shared, AccessKind::Load, 0);
  EXPECT_EQ(end(),
            "initcheck/uninitialized_read: thread 0 of block 6 reads 4 bytes of shared memory at "
            "offset 0 that nothing has written");
}

TEST_F(HookTest, LocalMemoryIsEachThreadsOwn) {
  begin();
  const auto local = [&](AccessKind kind, u32 mask) {
    u64 lanes[kLanes];
    for (u32 lane = 0; lane < kLanes; ++lane) lanes[lane] = lane * 16 + 4;
    access<Portable>(*block_, Space::Local,
                     {.kind = kind, .pattern = Pattern::Scattered, .mask = mask, .lanes = lanes});
  };
  local(AccessKind::Store, 0xff);
  local(AccessKind::Load, 0xff);
  EXPECT_TRUE(block_->findings().empty());
  local(AccessKind::Load, 0x180);
  EXPECT_EQ(end(),
            "initcheck/uninitialized_read: thread 8 of block 5 reads 4 bytes of local memory at "
            "offset 4 that nothing has written");
}

TEST_F(HookTest, EachLevelCanBeSwitchedOff) {
  for (const bool init : {false, true}) {
    for (const bool race : {false, true}) {
      allocations_ = {};
      begin({.init = init, .race = race, .sync = false});
      at(Space::Shared, AccessKind::Load, 0, 0);
      at(Space::Shared, AccessKind::Store, 0, 1);
      block_->arrive_at_barrier({.lanes = 1});
      const std::string said = end();
      EXPECT_EQ(said.substr(0, 9), init ? "initcheck" : race ? "racecheck" : "");
    }
  }
}

TEST_F(HookTest, ACopyHoldsNothingUntilItIsWaitedFor) {
  for (const bool waits : {false, true}) {
    allocations_ = {};
    begin({.init = true, .race = false});
    at(Space::Shared, AccessKind::Store, 0);
    block_->begin_copy(0, 0, 0, 16, 3);
    if (waits) block_->finish_copy(0, 0, 0, 16, 3);
    at(Space::Shared, AccessKind::Load, 0);
    EXPECT_EQ(end().empty(), waits);
  }
}

TEST_F(HookTest, MatrixRowsMustBeWrittenAndSynced) {
  begin();
  const u32 rows[8] = {0, 16, 32, 48, 64, 80, 96, 112};
  at(Space::Shared, AccessKind::Store, 0);
  block_->sync_warp(0, kAllLanes, kAllLanes);
  block_->matrix_rows(rows, 8, false, 0, 4);
  EXPECT_TRUE(block_->findings().empty());
  const u32 beyond[1] = {128};
  block_->matrix_rows(beyond, 1, false, 0, 4);
  EXPECT_NE(end(), "");
}

TEST_F(HookTest, BlocksAfterOneThatFailedAreLeftOut) {
  begin();
  block_->end_block(true);
  block_->begin_block(1, 6, 2, 1024, 0);
  at(Space::Shared, AccessKind::Load, 0);
  EXPECT_EQ(end(), "");
}

TEST_F(HookTest, BarriersTellDivergenceAndCounts) {
  begin();
  const auto said = [&](const BarrierArrival& arrival) {
    Findings findings;
    check_arrival(findings, 5, arrival);
    return findings.empty() ? "" : findings.list()[0].kind + ": " + findings.list()[0].message;
  };
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({.lanes = 0xff, .live = 0xff}), "");  // the others have exited
  EXPECT_EQ(said({.is_aligned = false, .lanes = 0xff}), "");
  EXPECT_EQ(said({.warp = 1, .barrier = 2, .lanes = 0xff}),
            "divergent_barrier: 8 of 32 threads of warp 1 of block 5 are at barrier 2; thread 40 "
            "is not");
  EXPECT_EQ(said({.threads = 64, .arrived_threads = 32, .expected_threads = 64}), "");
  EXPECT_EQ(said({.threads = 64, .arrived_threads = 32, .expected_threads = 96}),
            "barrier_count: warp 0 of block 5 waits for 64 threads at barrier 0, others for 96 "
            "threads");
  EXPECT_EQ(said({.threads = 64, .arrived_threads = 64, .expected_threads = 64}),
            "barrier_count: warp 0 of block 5 is one too many at barrier 0 for 64 threads");
}

}  // namespace
}  // namespace lockstep::device::vgpu::check
