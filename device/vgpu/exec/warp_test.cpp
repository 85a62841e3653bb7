// Control flow, warps and blocks: small kernels whose results follow from their text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "device/vgpu/exec/kernel_testing.h"

namespace lockstep::device::vgpu::exec {
namespace {

using ::testing::HasSubstr;
using testing::KernelResult;
using testing::KernelRun;
using testing::run_everywhere;
using testing::with_entry;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// out[thread] = %r40 at the end.
const char kStore[] =
    "mov.u32 %r60, %ntid.x; mad.lo.u32 %r61, %r2, %r60, %r1;\n"
    "mul.wide.u32 %rd30, %r61, 4; add.u64 %rd30, %rd30, %rd2;\nst.global.u32 [%rd30], %r40;\n";

std::vector<u32> run(const std::string& before, const std::string& body, u32 threads = 32,
                     u32 blocks = 1, std::vector<u32> input = {}) {
  KernelRun kernel;
  kernel.ptx = with_entry(before, body + kStore);
  kernel.config = {.grid = {blocks}, .block = {threads}};
  kernel.input = std::move(input);
  kernel.output_words = threads * blocks;
  const KernelResult result = run_everywhere(kernel);
  for (const Diagnostic& diagnostic : result.diagnostics) ADD_FAILURE() << diagnostic.message;
  return result.output;
}
Diagnostic failing(const std::string& before, const std::string& body, u32 threads = 32) {
  KernelRun kernel;
  kernel.ptx = with_entry(before, body);
  kernel.config = {.grid = {1}, .block = {threads}};
  kernel.output_words = threads;
  const KernelResult result = run_everywhere(kernel);
  EXPECT_EQ(result.diagnostics.size(), 1u);
  return result.diagnostics.empty() ? Diagnostic{} : result.diagnostics[0];
}

TEST(Divergence, BothSidesOfABranchRunAndJoin) {
  const auto out = run("", R"(
    and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0;
    @%p1 bra even;
    mov.u32 %r4, 100; activemask.b32 %r5;
    bra.uni join;
  even:
    mov.u32 %r4, 200; activemask.b32 %r5;
  join:
    activemask.b32 %r6;
    popc.b32 %r7, %r6; popc.b32 %r8, %r5;
    add.u32 %r40, %r4, %r1; mad.lo.u32 %r40, %r7, 1000, %r40;
    mad.lo.u32 %r40, %r8, 100000, %r40;)");
  for (u32 k = 0; k < 32; ++k) EXPECT_EQ(out[k], k + (k % 2 == 0 ? 200 : 100) + 32000 + 1600000);
}

TEST(Divergence, LanesLeaveALoopOneByOne) {
  // Steps of the Collatz sequence.
  const auto out = run("", R"(
    mad.lo.u32 %r3, %r2, 64, %r1; add.u32 %r3, %r3, 1; mov.u32 %r40, 0;
  loop:
    setp.eq.u32 %p1, %r3, 1; @%p1 bra done;
    and.b32 %r4, %r3, 1; setp.eq.u32 %p2, %r4, 0;
    @%p2 bra half;
    mad.lo.u32 %r3, %r3, 3, 1;
    bra next;
  half:
    shr.u32 %r3, %r3, 1;
  next:
    add.u32 %r40, %r40, 1;
    bra loop;
  done:)",
                       64, 3);
  for (u32 k = 0; k < out.size(); ++k) {
    u32 n = k + 1, steps = 0;
    for (; n != 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    EXPECT_EQ(out[k], steps) << k;
  }
}

TEST(Divergence, AThreadThatExitsLeavesTheRest) {
  KernelRun kernel;
  kernel.ptx = with_entry("", std::string("setp.lt.u32 %p1, %r1, 7; @%p1 exit;\n"
                                          "bar.sync 0; activemask.b32 %r40;\n") +
                                  kStore);
  kernel.config = {.grid = {1}, .block = {64}};
  kernel.output_words = 64;
  const KernelResult result = run_everywhere(kernel);
  EXPECT_TRUE(result.diagnostics.empty());
  for (u32 k = 0; k < 64; ++k) {
    EXPECT_EQ(result.output[k], k < 7 ? 0 : k < 32 ? 0xffffff80 : 0xffffffff);
  }
}

TEST(Divergence, GuardsOnAnyInstruction) {
  const auto out = run("", R"(
    setp.gt.u32 %p1, %r1, 20; mov.u32 %r40, 1;
    @%p1 add.u32 %r40, %r40, %r1;
    @!%p1 mul.lo.u32 %r40, %r1, 7;
    setp.eq.u32 %p2, %r1, 99;
    @%p2 mov.u32 %r40, 0;)",
                       40);
  for (u32 k = 0; k < 40; ++k) EXPECT_EQ(out[k], k > 20 ? k + 1 : k * 7);
}

TEST(Divergence, ASpinLockInsideAWarpIsFair) {
  // Every lane takes the lock in turn; the holder is behind the loop in which the others spin.
  const auto out = run(".global .u32 lock;\n.global .u32 sum;", R"(
    mov.u64 %rd3, lock; mov.u64 %rd4, sum;
  spin:
    atom.global.cas.b32 %r3, [%rd3], 0, 1;
    setp.ne.u32 %p1, %r3, 0; @%p1 bra spin;
    ld.global.u32 %r4, [%rd4]; add.u32 %r4, %r4, 1; st.global.u32 [%rd4], %r4;
    atom.global.exch.b32 %r5, [%rd3], 0;
    bar.sync 0;
    ld.global.u32 %r40, [%rd4];)");
  for (u32 k = 0; k < 32; ++k) EXPECT_EQ(out[k], 32u);
}

TEST(Divergence, AWarpSpinsUntilAnotherWrites) {
  const auto out = run(".shared .u32 flag;", R"(
    setp.ne.u32 %p3, %r1, 0; @%p3 bra start; st.shared.u32 [flag], 0;
  start:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, 32; @%p1 bra writer;
  wait:
    ld.volatile.shared.u32 %r3, [flag]; setp.eq.u32 %p2, %r3, 0; @%p2 bra wait;
    bra join;
  writer:
    st.volatile.shared.u32 [flag], 5;
    mov.u32 %r3, 6;
  join:
    mov.u32 %r40, %r3;)",
                       64);
  for (u32 k = 0; k < 64; ++k) EXPECT_EQ(out[k], k < 32 ? 5u : 6u);
}

TEST(Divergence, IndexedBranches) {
  const auto out = run("", R"(
    rem.u32 %r3, %r1, 3;
    targets: .branchtargets a, b, c;
    brx.idx %r3, targets;
  a: mov.u32 %r40, 10; bra join;
  b: mov.u32 %r40, 20; bra join;
  c: mov.u32 %r40, 30;
  join:
    add.u32 %r40, %r40, %r1;)");
  for (u32 k = 0; k < 32; ++k) EXPECT_EQ(out[k], (k % 3 + 1) * 10 + k);
}

TEST(Calls, AFunctionWithParametersAndALoop) {
  const auto out = run(R"(
    .func (.param .b32 result) power(.param .b32 base, .param .b32 exponent) {
      .reg .b32 %r<6>; .reg .pred %p<2>;
      ld.param.u32 %r1, [base]; ld.param.u32 %r2, [exponent]; mov.u32 %r3, 1;
    loop:
      setp.eq.u32 %p1, %r2, 0; @%p1 bra done;
      mul.lo.u32 %r3, %r3, %r1; sub.u32 %r2, %r2, 1; bra loop;
    done:
      st.param.b32 [result], %r3;
      ret;
    })",
                       R"(
    rem.u32 %r3, %r1, 5;
    { .param .b32 a; .param .b32 b; .param .b32 c;
      st.param.b32 [a], %r1; st.param.b32 [b], %r3;
      call (c), power, (a, b);
      ld.param.b32 %r40, [c]; }
    { .param .b32 a; .param .b32 b; .param .b32 c;
      st.param.b32 [a], 2; st.param.b32 [b], %r3;
      call.uni (c), power, (a, b);
      ld.param.b32 %r4, [c]; }
    add.u32 %r40, %r40, %r4;)");
  for (u32 k = 0; k < 32; ++k) {
    u32 power = 1;
    for (u32 n = 0; n < k % 5; ++n) power *= k;
    EXPECT_EQ(out[k], power + (1u << k % 5));
  }
}

TEST(Barriers, ATreeReductionInSharedMemory) {
  std::vector<u32> input(256 * 4);
  for (u32 k = 0; k < input.size(); ++k) input[k] = k * k;
  const auto out = run(".shared .align 4 .b8 tile[1024];", R"(
    mad.lo.u32 %r3, %r2, 256, %r1; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd3, %rd1;
    ld.global.u32 %r4, [%rd3];
    mov.u32 %r5, tile; mad.lo.u32 %r6, %r1, 4, %r5;
    st.shared.u32 [%r6], %r4;
    mov.u32 %r7, 128;
  loop:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, %r7; @%p1 bra skip;
    mad.lo.u32 %r8, %r7, 4, %r6; ld.shared.u32 %r9, [%r8]; ld.shared.u32 %r10, [%r6];
    add.u32 %r10, %r10, %r9; st.shared.u32 [%r6], %r10;
  skip:
    shr.u32 %r7, %r7, 1; setp.ne.u32 %p2, %r7, 0; @%p2 bra loop;
    bar.sync 0;
    ld.shared.u32 %r40, [tile];)",
                       256, 4, input);
  for (u32 block = 0; block < 4; ++block) {
    u32 sum = 0;
    for (u32 k = 0; k < 256; ++k) sum += input[block * 256 + k];
    for (u32 k = 0; k < 256; ++k) ASSERT_EQ(out[block * 256 + k], sum);
  }
}

TEST(Barriers, Reductions) {
  const auto out = run("", R"(
    setp.lt.u32 %p1, %r1, 70; setp.lt.u32 %p2, %r1, 96;
    bar.red.popc.u32 %r3, 0, %p1;
    bar.red.and.pred %p3, 0, %p2;
    bar.red.or.pred %p4, 0, !%p2;
    selp.u32 %r4, 1000, 0, %p3; selp.u32 %r5, 1000, 0, %p4;
    add.u32 %r40, %r3, %r4; add.u32 %r40, %r40, %r5;)",
                       96);
  for (u32 k = 0; k < 96; ++k) EXPECT_EQ(out[k], 1070u);
}

TEST(Barriers, ProducersArriveAndConsumersWait) {
  const auto out = run(".shared .align 4 .b8 cell[128];", R"(
    mov.u32 %r3, cell; and.b32 %r4, %r1, 31; mad.lo.u32 %r3, %r4, 4, %r3;
    mov.u32 %r40, 1;
    setp.lt.u32 %p1, %r1, 32; @%p1 bra consumer;
    mul.lo.u32 %r5, %r1, 3; st.shared.u32 [%r3], %r5;
    bar.arrive 1, 64;
    bra done;
  consumer:
    bar.sync 1, 64;
    ld.shared.u32 %r40, [%r3];
  done:)",
                       64);
  for (u32 k = 0; k < 64; ++k) EXPECT_EQ(out[k], k < 32 ? (k + 32) * 3 : 1);
}

TEST(Barriers, AThreadThatNeverComesIsADeadlock) {
  // Warp 1 waits at barrier 1, warp 0 at barrier 2.
  const Diagnostic diagnostic = failing("", R"(
    setp.lt.u32 %p1, %r1, 32; @%p1 bra other;
    bar.sync 1;
    bra join;
  other:
    bar.sync 2;
  join:)",
                                        64);
  EXPECT_EQ(diagnostic.kind, "deadlock");
}

TEST(Shuffles, AllModesInSegments) {
  const auto values = [](u32 lane) { return lane * 3 + 5; };
  struct Mode {
    const char* name;
    u32 b, c;
  };
  for (const Mode& mode : {Mode{"up", 3, 0}, Mode{"up", 2, 0x1800}, Mode{"down", 3, 31},
                           Mode{"down", 5, 0x181f}, Mode{"bfly", 1, 31}, Mode{"bfly", 16, 31},
                           Mode{"bfly", 12, 0x1807}, Mode{"idx", 0, 31}, Mode{"idx", 9, 0x181f}}) {
    const std::string name = mode.name;
    const auto out =
        run("", "mad.lo.u32 %r3, %r1, 3, 5;\nshfl.sync." + name + ".b32 %r4|%p1, %r3, " +
                    std::to_string(mode.b) + ", " + std::to_string(mode.c) +
                    ", -1;\nselp.u32 %r5, 1000, 0, %p1; add.u32 %r40, %r4, %r5;\n");
    for (u32 lane = 0; lane < 32; ++lane) {
      const u32 segment = mode.c >> 8 & 31, clamp = mode.c & 31;
      const int limit = static_cast<int>((lane & segment) | (clamp & ~segment));
      int from = 0;
      if (name == "up") from = static_cast<int>(lane) - static_cast<int>(mode.b);
      if (name == "down") from = static_cast<int>(lane + mode.b);
      if (name == "bfly") from = static_cast<int>(lane ^ mode.b);
      if (name == "idx") from = static_cast<int>((lane & segment) | (mode.b & ~segment));
      const bool valid = name == "up" ? from >= limit : from <= limit;
      const u32 expected = values(valid ? static_cast<u32>(from) : lane) + (valid ? 1000 : 0);
      EXPECT_EQ(out[lane], expected) << name << " " << mode.b << " lane " << lane;
    }
  }
}

TEST(Shuffles, WaitForTheirMembers) {
  // Lanes come to the shuffle at different times.
  const auto out = run("", R"(
    mov.u32 %r3, %r1; mov.u32 %r4, 0;
  loop:
    setp.ge.u32 %p1, %r4, %r1; @%p1 bra out;
    add.u32 %r3, %r3, 2; add.u32 %r4, %r4, 1; bra loop;
  out:
    shfl.sync.bfly.b32 %r40, %r3, 1, 31, -1;)");
  for (u32 k = 0; k < 32; ++k) EXPECT_EQ(out[k], (k ^ 1) * 3);
}

TEST(Votes, CountTheirMembers) {
  const auto out = run("", R"(
    setp.lt.u32 %p1, %r1, 10;
    vote.sync.ballot.b32 %r3, %p1, -1;
    vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;
    vote.sync.all.pred %p4, !%p1, -1; vote.sync.uni.pred %p5, %p1, -1;
    selp.u32 %r4, 1, 0, %p2; selp.u32 %r5, 2, 0, %p3; selp.u32 %r6, 4, 0, %p4;
    selp.u32 %r7, 8, 0, %p5;
    popc.b32 %r8, %r3; mul.lo.u32 %r40, %r8, 100;
    add.u32 %r40, %r40, %r4; add.u32 %r40, %r40, %r5; add.u32 %r40, %r40, %r6;
    add.u32 %r40, %r40, %r7;)");
  for (u32 k = 0; k < 32; ++k) EXPECT_EQ(out[k], 1001u);
}

TEST(Votes, MatchReduceAndElect) {
  const auto out = run("", R"(
    rem.u32 %r3, %r1, 3;
    match.any.sync.b32 %r4, %r3, -1;
    mov.u32 %r5, 7; match.all.sync.b32 %r6|%p1, %r5, -1; match.all.sync.b32 %r7|%p2, %r3, -1;
    redux.sync.add.s32 %r8, %r1, -1; redux.sync.max.u32 %r9, %r1, -1;
    redux.sync.xor.b32 %r10, %r1, -1;
    elect.sync %r11|%p3, -1;
    popc.b32 %r12, %r4; popc.b32 %r13, %r6; popc.b32 %r14, %r7;
    selp.u32 %r15, 1, 0, %p1; selp.u32 %r16, 1, 0, %p2; selp.u32 %r17, 1, 0, %p3;
    add.u32 %r40, %r12, %r13; add.u32 %r40, %r40, %r14; add.u32 %r40, %r40, %r8;
    add.u32 %r40, %r40, %r9; add.u32 %r40, %r40, %r10; mad.lo.u32 %r40, %r15, 1000, %r40;
    mad.lo.u32 %r40, %r16, 2000, %r40; mad.lo.u32 %r40, %r17, 4000, %r40;
    add.u32 %r40, %r40, %r11;)");
  for (u32 k = 0; k < 32; ++k) {
    const u32 equal = k % 3 == 2 ? 10 : 11;
    EXPECT_EQ(out[k], equal + 32 + 0 + 496 + 31 + 0 + 1000 + (k == 0 ? 4000 : 0)) << k;
  }
}

TEST(WarpSync, OrdersLanesOfADivergedWarp) {
  const auto out = run(".shared .align 4 .b8 cell[4];", R"(
    setp.ge.u32 %p1, %r1, 16; @%p1 bra upper;
    bar.warp.sync -1;
    ld.shared.u32 %r40, [cell];
    bra done;
  upper:
    st.shared.u32 [cell], 42;
    bar.warp.sync -1;
    mov.u32 %r40, 1;
  done:)");
  for (u32 k = 0; k < 32; ++k) EXPECT_EQ(out[k], k < 16 ? 42u : 1u);
}

TEST(Atomics, ReturnOldValuesInTheOrderOfLanes) {
  const auto out = run(".shared .u32 counter;", R"(
    setp.ne.u32 %p1, %r1, 0; @%p1 bra start; st.shared.u32 [counter], 100;
  start:
    bar.sync 0;
    and.b32 %r3, %r1, 1; add.u32 %r3, %r3, 1;
    atom.shared.add.u32 %r40, [counter], %r3;)");
  u32 sum = 100;
  for (u32 k = 0; k < 32; ++k) {
    EXPECT_EQ(out[k], sum);
    sum += k % 2 + 1;
  }
}

TEST(Atomics, SumsOverAllBlocks) {
  KernelRun kernel;
  kernel.ptx = with_entry("", R"(
    red.global.add.u32 [%rd2], %r1;
    red.global.max.s32 [%rd2+4], %r1;
    red.global.or.b32 [%rd2+8], 16;
    red.global.inc.u32 [%rd2+12], 1000000;
    cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%rd2+16], %f1;
    cvt.u64.u32 %rd3, %r1; red.global.add.u64 [%rd2+24], %rd3;)");
  kernel.config = {.grid = {20}, .block = {64}};
  kernel.output_words = 8;
  const auto out = run_everywhere(kernel).output;
  EXPECT_EQ(out[0], 20u * 2016);
  EXPECT_EQ(out[1], 63u);
  EXPECT_EQ(out[2], 16u);
  EXPECT_EQ(out[3], 1280u);
  EXPECT_EQ(std::bit_cast<float>(out[4]), 20.0f * 2016);
  EXPECT_EQ(out[6], 20u * 2016);
}

TEST(Faults, ATrapStopsTheKernel) {
  const Diagnostic diagnostic = failing("", "setp.eq.u32 %p1, %r1, 9; @%p1 trap;");
  EXPECT_EQ(diagnostic.kind, "trap");
  EXPECT_THAT(diagnostic.message, HasSubstr("thread (9, 0, 0) of block (0, 0, 0)"));
}

TEST(Faults, SharedMemoryHasAnEnd) {
  const Diagnostic diagnostic = failing(".shared .align 4 .b8 tile[64];", R"(
    mov.u32 %r3, tile; mad.lo.u32 %r3, %r1, 4, %r3; st.shared.u32 [%r3], %r1;)");
  EXPECT_EQ(diagnostic.kind, "out_of_bounds");
  EXPECT_THAT(diagnostic.message, HasSubstr("shared write of 4 bytes at 0x40"));
  EXPECT_THAT(diagnostic.message, HasSubstr("thread (16, 0, 0)"));
}

TEST(Faults, AShuffleThatLeavesOutALane) {
  const Diagnostic diagnostic = failing("", "shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xffff;");
  EXPECT_EQ(diagnostic.checker, "synccheck");
  EXPECT_EQ(diagnostic.kind, "not_a_member");
}

}  // namespace
}  // namespace lockstep::device::vgpu::exec
