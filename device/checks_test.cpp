// The checkers, through a Device: kernels that are right give no finding, and each planted fault
// (a barrier taken away, a bound moved, a write left out) gives the one that it should.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "device/device.h"

namespace lockstep::device {
namespace {

// An entry `k` of PTX around a body; parameters x and y are pointers, n a number. %rd1, %rd2: x and
// y, %r1: n, %r2: thread, %r3: block, %r4: 4 * thread.
std::string entry(const std::string& body) {
  return R"(.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .pred %p<20>; .reg .b16 %h<10>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .b64 %rd<20>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; shl.b32 %r4, %r2, 2;
)" + body +
         "\nret;\n}\n.file 1 \"kernels/planted.cu\"\n";
}

struct Subject {
  std::uint32_t blocks = 1, threads = 128, n = 0, shared_bytes = 0;
  std::uint64_t x_bytes = 4096, y_bytes = 4096;
  bool fill_x = true, fill_y = false, free_x = false;
  DeviceOptions options = {};
};

struct Outcome {
  std::vector<Diagnostic> diagnostics;
  std::vector<std::uint32_t> y;
  // "checker/kind" of the first, or "".
  std::string first() const {
    return diagnostics.empty() ? "" : diagnostics[0].checker + "/" + diagnostics[0].kind;
  }
  bool has(const std::string& checker, const std::string& kind) const {
    for (const Diagnostic& d : diagnostics) {
      if (d.checker == checker && d.kind == kind) return true;
    }
    return false;
  }
};

// x holds 1, 2, 3, ...
Outcome run(const std::string& body, const Subject& how) {
  auto device = open("vgpu:sm_80", how.options).value();
  const Kernel kernel = device->load(entry(body), "planted.ptx", "k").value();
  Buffer x = device->allocate(how.x_bytes, "x").value();
  const Buffer y = device->allocate(how.y_bytes, "y").value();
  std::vector<std::uint32_t> values(how.x_bytes / 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint32_t>(i + 1);
  if (how.fill_x) {
    EXPECT_TRUE(device->copy_to_device(x.address(), std::as_bytes(std::span(values))).ok());
  }
  if (how.fill_y) {
    EXPECT_TRUE(device->fill(y.address(), 0, how.y_bytes).ok());
  }
  const Parameters parameters = Parameters().add(x.address()).add(y.address()).add(how.n);
  if (how.free_x) x = Buffer();
  const LaunchConfig config{
      .grid = {how.blocks}, .block = {how.threads}, .dynamic_shared_bytes = how.shared_bytes};
  const auto status = device->launch(kernel, config, parameters.bytes());
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
  Outcome outcome;
  outcome.diagnostics = device->take_diagnostics();
  outcome.y.resize(how.y_bytes / 4);
  EXPECT_TRUE(
      device->copy_from_device(std::as_writable_bytes(std::span(outcome.y)), y.address()).ok());
  return outcome;
}

std::string shown(const Outcome& outcome) {
  std::string text;
  for (const Diagnostic& d : outcome.diagnostics) {
    text += d.checker + "/" + d.kind + " " + d.source + " " + d.source_second + ": " + d.message +
            " (" + std::to_string(d.count) + ")\n";
  }
  return text;
}

// Removes the `index`-th line that holds `what`; -1: none.
std::string without(const std::string& text, const std::string& what, int index) {
  if (index < 0) return text;
  std::size_t at = text.find(what);
  for (int i = 0; i < index; ++i) at = text.find(what, at + 1);
  EXPECT_NE(at, std::string::npos);
  std::string result = text;
  return result.erase(at, what.size());
}

// y[thread] = sum of x over the block, by a tree in shared memory: 8 barriers.
std::string tree_sum() {
  std::string body = R"(.shared .align 4 .b8 part[512];
mov.u32 %r5, part; add.s32 %r5, %r5, %r4; cvt.u64.u32 %rd3, %r4; add.s64 %rd4, %rd1, %rd3;
.loc 1 10 0
ld.global.u32 %r6, [%rd4];
.loc 1 11 0
st.shared.u32 [%r5], %r6;
)";
  for (int half = 64; half > 0; half /= 2) {
    const std::string h = std::to_string(half);
    body += "bar.sync 0;\n.loc 1 " + std::to_string(20 + half) + " 0\nsetp.ge.u32 %p1, %r2, " + h +
            ";\n@%p1 bra L" + h + ";\nld.shared.u32 %r7, [%r5];\nld.shared.u32 %r8, [%r5+" +
            std::to_string(4 * half) + "];\nadd.u32 %r7, %r7, %r8;\nst.shared.u32 [%r5], %r7;\nL" +
            h + ":\n";
  }
  return body + R"(bar.sync 0;
.loc 1 12 0
ld.shared.u32 %r9, [part];
add.s64 %rd5, %rd2, %rd3;
st.global.u32 [%rd5], %r9;)";
}

TEST(Checks, EveryBarrierOfATreeReductionIsNeeded) {
  const Outcome right = run(tree_sum(), {});
  EXPECT_TRUE(right.diagnostics.empty()) << shown(right);
  for (std::size_t i = 0; i < 128; ++i) ASSERT_EQ(right.y[i], 128u * 129 / 2);
  for (int barrier = 0; barrier < 8; ++barrier) {
    const Outcome wrong = run(without(tree_sum(), "bar.sync 0;\n", barrier), {});
    EXPECT_FALSE(wrong.diagnostics.empty()) << "without barrier " << barrier;
    for (const std::uint64_t seed : {1, 2, 3}) {
      DeviceOptions options;
      options.schedule_seed = seed;
      EXPECT_FALSE(run(without(tree_sum(), "bar.sync 0;\n", barrier), {.options = options})
                       .diagnostics.empty())
          << "without barrier " << barrier << ", seed " << seed;
    }
  }
}

TEST(Checks, RacesOfSharedMemoryNameBothLines) {
  // Without the last barrier but one: half = 1 reads what half = 2 wrote (lines 22 and 21).
  const Outcome wrong = run(without(tree_sum(), "bar.sync 0;\n", 6), {});
  ASSERT_EQ(wrong.first(), "racecheck/shared") << shown(wrong);
  EXPECT_EQ(wrong.diagnostics[0].source, "kernels/planted.cu:21");
  EXPECT_EQ(wrong.diagnostics[0].source_second, "kernels/planted.cu:22");
  EXPECT_EQ(wrong.diagnostics[0].kernel, "k");
}

// One warp sums by a tree in shared memory, ordered by bar.warp.sync: 6 of them.
std::string warp_sum() {
  std::string body = R"(.shared .align 4 .b8 part[256];
mov.u32 %r5, part; add.s32 %r5, %r5, %r4; cvt.u64.u32 %rd3, %r4; add.s64 %rd4, %rd1, %rd3;
ld.global.u32 %r6, [%rd4]; st.shared.u32 [%r5], %r6;
)";
  for (int half = 16; half > 0; half /= 2) {
    const std::string h = std::to_string(half);
    body += "bar.warp.sync 0xffffffff;\nsetp.ge.u32 %p1, %r2, " + h + ";\n@%p1 bra L" + h +
            ";\nld.shared.u32 %r7, [%r5];\nld.shared.u32 %r8, [%r5+" + std::to_string(4 * half) +
            "];\nadd.u32 %r7, %r7, %r8;\nst.shared.u32 [%r5], %r7;\nL" + h + ":\n";
  }
  return body + "bar.warp.sync 0xffffffff;\nld.shared.u32 %r9, [part];\n" +
         "add.s64 %rd5, %rd2, %rd3; st.global.u32 [%rd5], %r9;";
}

TEST(Checks, EveryWarpBarrierOfAWarpReductionIsNeeded) {
  const Outcome right = run(warp_sum(), {.threads = 32});
  EXPECT_TRUE(right.diagnostics.empty()) << shown(right);
  EXPECT_EQ(right.y[31], 32u * 33 / 2);
  for (int barrier = 0; barrier < 6; ++barrier) {
    const Outcome wrong =
        run(without(warp_sum(), "bar.warp.sync 0xffffffff;\n", barrier), {.threads = 32});
    EXPECT_TRUE(wrong.has("racecheck", "shared")) << "without barrier " << barrier;
  }
}

// Three tiles through two buffers; the needed barriers are 0, 1, 2 and 4.
const char kStages[] = R"(.shared .align 16 .b8 tile[2048];
shl.b32 %r5, %r2, 4; cvt.u64.u32 %rd3, %r5; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
mov.u32 %r6, tile; add.u32 %r7, %r6, %r5; xor.b32 %r8, %r5, 528; add.u32 %r8, %r6, %r8;
cp.async.cg.shared.global [%r7], [%rd4], 16, 16;
cp.async.commit_group;
cp.async.cg.shared.global [%r7+1024], [%rd4+1024], 16, 16;
cp.async.commit_group;
cp.async.wait_group 1;
bar.sync 0;
ld.shared.v4.u32 {%r10,%r11,%r12,%r13}, [%r8];
st.global.v4.u32 [%rd5], {%r10,%r11,%r12,%r13};
bar.sync 0;
cp.async.cg.shared.global [%r7], [%rd4+2048], 16, 16;
cp.async.commit_group;
cp.async.wait_group 1;
bar.sync 0;
ld.shared.v4.u32 {%r10,%r11,%r12,%r13}, [%r8+1024];
st.global.v4.u32 [%rd5+1024], {%r10,%r11,%r12,%r13};
bar.sync 0;
cp.async.wait_group 0;
bar.sync 0;
ld.shared.v4.u32 {%r10,%r11,%r12,%r13}, [%r8];
st.global.v4.u32 [%rd5+2048], {%r10,%r11,%r12,%r13};)";

TEST(Checks, ABufferedPipelineNeedsItsWaitsAndBarriers) {
  const Subject how{.threads = 64};
  const Outcome right = run(kStages, how);
  EXPECT_TRUE(right.diagnostics.empty()) << shown(right);
  EXPECT_EQ(right.y[0], 33u * 4 + 1);
  for (const int barrier : {0, 1, 2, 4}) {
    EXPECT_FALSE(run(without(kStages, "bar.sync 0;\n", barrier), how).diagnostics.empty())
        << "without barrier " << barrier;
  }
  for (const char* wait : {"cp.async.wait_group 1;\nbar", "cp.async.wait_group 0;\nbar"}) {
    for (int index = 0; index < (wait[20] == '1' ? 2 : 1); ++index) {
      const std::string text = without(kStages, wait, index);
      // The barrier stays.
      std::string body = text;
      std::size_t at = 0;
      for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 8, "\n.sync 0") == 0) at = i + 1;
      }
      ASSERT_NE(at, 0u);
      body.insert(at, "bar");
      EXPECT_TRUE(run(body, how).has("racecheck", "async_copy")) << wait << index;
    }
  }
}

// y[i] = x[i] for i < n.
const char kCopy[] = R"(shl.b32 %r5, %r3, 7; add.u32 %r5, %r5, %r2; setp.ge.u32 %p1, %r5, %r1;
@%p1 bra done;
mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
.loc 1 7 0
ld.global.u32 %r6, [%rd4];
.loc 1 8 0
st.global.u32 [%rd5], %r6;
done:)";

TEST(Checks, OneElementTooFarIsOutOfBoundsAndNamed) {
  const Subject right{.blocks = 2, .n = 200, .x_bytes = 800, .y_bytes = 800};
  EXPECT_EQ(shown(run(kCopy, right)), "");
  Subject wrong = right;
  wrong.x_bytes = 796;
  const Outcome reads = run(kCopy, wrong);
  EXPECT_EQ(reads.first(), "memcheck/out_of_bounds");
  EXPECT_NE(reads.diagnostics.at(0).message.find("0 bytes after \"x\" of 796 bytes"),
            std::string::npos)
      << shown(reads);
  EXPECT_EQ(reads.diagnostics[0].source, "kernels/planted.cu:7");
  wrong = right;
  wrong.y_bytes = 796;
  EXPECT_EQ(run(kCopy, wrong).first(), "memcheck/out_of_bounds");
}

TEST(Checks, FreedMemoryIsNamed) {
  const Outcome outcome = run(kCopy, {.n = 10, .free_x = true});
  EXPECT_EQ(outcome.first(), "memcheck/out_of_bounds");
  EXPECT_NE(outcome.diagnostics.at(0).message.find("in \"x\" of 4096 bytes, which was freed"),
            std::string::npos)
      << shown(outcome);
}

TEST(Checks, SharedAndLocalOverrunsAndMisalignmentAreFound) {
  const std::string shared = R"(.shared .align 4 .b8 part[512]; mov.u32 %r5, part;
add.u32 %r5, %r5, %r4; st.shared.u32 [%r5+OFFSET], %r4;)";
  const auto with = [](std::string text, const std::string& offset) {
    return text.replace(text.find("OFFSET"), 6, offset);
  };
  EXPECT_EQ(run(with(shared, "0"), {}).first(), "");
  EXPECT_EQ(run(with(shared, "4"), {}).first(), "memcheck/out_of_bounds");
  EXPECT_EQ(run(with(shared, "2"), {.threads = 64}).first(), "memcheck/misaligned");
  const std::string local = R"(.local .align 4 .b8 own[64]; mov.u64 %rd3, own;
st.local.u32 [%rd3+OFFSET], %r4;)";
  EXPECT_EQ(run(with(local, "60"), {}).first(), "");
  EXPECT_EQ(run(with(local, "64"), {}).first(), "memcheck/out_of_bounds");
  EXPECT_EQ(run("st.global.u32 [%rd2+2], %r4;", {.threads = 1}).first(), "memcheck/misaligned");
}

TEST(Checks, UnwrittenMemoryOfEverySpaceIsFound) {
  const Outcome global = run(kCopy, {.n = 10, .fill_x = false});
  EXPECT_EQ(global.first(), "initcheck/uninitialized_read");
  EXPECT_EQ(global.diagnostics.at(0).count, 10u);
  EXPECT_NE(global.diagnostics[0].message.find("at offset 0 of \"x\" of 4096 bytes"),
            std::string::npos);
  EXPECT_EQ(run(R"(.shared .align 4 .b8 part[512]; mov.u32 %r5, part; add.u32 %r5, %r5, %r4;
setp.eq.u32 %p1, %r2, 77; @%p1 bra skip; st.shared.u32 [%r5], %r4; skip: ld.shared.u32 %r6, [%r5];
cvt.u64.u32 %rd3, %r4; add.s64 %rd3, %rd2, %rd3; st.global.u32 [%rd3], %r6;)",
                {})
                .first(),
            "initcheck/uninitialized_read");
  EXPECT_EQ(run(R"(.local .align 4 .b8 own[64]; mov.u64 %rd3, own; st.local.u32 [%rd3], %r4;
ld.local.u32 %r6, [%rd3+4]; cvt.u64.u32 %rd3, %r4; add.s64 %rd3, %rd2, %rd3;
st.global.u32 [%rd3], %r6;)",
                {})
                .first(),
            "initcheck/uninitialized_read");
  EXPECT_EQ(run("red.global.add.u32 [%rd2], 1;", {}).first(), "initcheck/uninitialized_read");
}

TEST(Checks, BlocksThatWriteOnePlaceRace) {
  const std::string body = R"(setp.ne.u32 %p1, %r2, 0; @%p1 bra done;
.loc 1 5 0
st.global.u32 [%rd2], %r3; done:)";
  EXPECT_EQ(run(body, {.blocks = 1}).first(), "");
  for (const std::uint32_t threads : {1u, 2u}) {
    DeviceOptions options;
    options.host_threads = threads;
    const Outcome outcome = run(body, {.blocks = 64, .options = options});
    ASSERT_EQ(outcome.first(), "racecheck/global");
    EXPECT_EQ(outcome.diagnostics[0].source, "kernels/planted.cu:5");
    EXPECT_EQ(outcome.diagnostics[0].source_second, "kernels/planted.cu:5");
    EXPECT_EQ(outcome.diagnostics[0].count, 4u * 63);
    EXPECT_NE(outcome.diagnostics[0].message.find("block 1 writes"), std::string::npos)
        << shown(outcome);
  }
}

TEST(Checks, BlocksThatReadWhatOthersWriteRace) {
  // Block b writes y[b] and reads y[b - 1].
  const std::string body = R"(mul.wide.u32 %rd3, %r3, 4; add.s64 %rd3, %rd2, %rd3;
setp.ne.u32 %p1, %r2, 0; @%p1 bra done; st.global.u32 [%rd3], %r3;
setp.eq.u32 %p1, %r3, 0; @%p1 bra done; ld.global.u32 %r5, [%rd3+-4]; st.global.u32 [%rd3], %r5;
done:)";
  EXPECT_EQ(run(body, {.blocks = 1}).first(), "");
  EXPECT_EQ(run(body, {.blocks = 4, .fill_y = true}).first(), "racecheck/global");
}

TEST(Checks, AtomicsAndTicketsAreNoRace) {
  const std::string histogram = R"(.shared .align 4 .b8 bins[64]; mov.u32 %r5, bins;
setp.ge.u32 %p1, %r2, 16; @%p1 bra ready; add.u32 %r6, %r5, %r4; mov.u32 %r7, 0;
st.shared.u32 [%r6], %r7; ready: bar.sync 0; and.b32 %r8, %r4, 60; add.u32 %r8, %r5, %r8;
red.shared.add.u32 [%r8], 1; bar.sync 0; @%p1 bra done; ld.shared.u32 %r9, [%r6];
cvt.u64.u32 %rd3, %r4; add.s64 %rd3, %rd2, %rd3; red.global.add.u32 [%rd3], %r9; done:)";
  const Outcome counted = run(histogram, {.blocks = 5, .fill_y = true});
  EXPECT_EQ(shown(counted), "");
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(counted.y[i], 5u * 8);
  // The last block to take a ticket adds what the others left in y.
  const std::string ticket = R"(setp.ne.u32 %p1, %r2, 0; @%p1 bra done;
mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd2, %rd3; add.u32 %r5, %r3, 1;
st.global.u32 [%rd4+64], %r5; FENCE atom.global.add.u32 %r6, [%rd2], 1; FENCE
setp.ne.u32 %p2, %r6, 3; @%p2 bra done; ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%rd2+64];
add.u32 %r10, %r10, %r11; add.u32 %r12, %r12, %r13; add.u32 %r10, %r10, %r12;
st.global.u32 [%rd2+4], %r10; done:)";
  const auto with = [&](const std::string& fence) {
    std::string text = ticket;
    for (std::size_t at; (at = text.find("FENCE")) != std::string::npos;) {
      text.replace(at, 5, fence);
    }
    return run(text, {.blocks = 4, .fill_y = true});
  };
  const Outcome fenced = with("membar.gl;");
  EXPECT_EQ(shown(fenced), "");
  EXPECT_EQ(fenced.y[1], 10u);
  EXPECT_EQ(with("fence.acq_rel.gpu;").first(), "");
  EXPECT_EQ(with("").first(), "racecheck/global");
  EXPECT_EQ(with("membar.cta;").first(), "racecheck/global");
}

TEST(Checks, BarriersOfHalfAWarpAreFound) {
  const std::string body = R"(setp.ge.u32 %p1, %r2, 16; @%p1 bra other; BAR 0; bra done;
other: BAR 0; done:)";
  const auto with = [&](const std::string& barrier) {
    std::string text = body;
    for (std::size_t at; (at = text.find("BAR")) != std::string::npos;) {
      text.replace(at, 3, barrier);
    }
    return run(text, {.threads = 32}).first();
  };
  EXPECT_EQ(with("bar.sync"), "synccheck/divergent_barrier");
  EXPECT_EQ(with("barrier.sync.aligned"), "synccheck/divergent_barrier");
  EXPECT_EQ(with("barrier.sync"), "");
}

TEST(Checks, ExitedThreadsDoNotHoldABarrier) {
  EXPECT_EQ(run("setp.ge.u32 %p1, %r2, 96; @%p1 exit; bar.sync 0;", {}).first(), "");
}

TEST(Checks, BarriersThatNobodyCompletesAreADeadlock) {
  EXPECT_EQ(run(R"(setp.ge.u32 %p1, %r2, 64; @%p1 bra done; bar.sync 1, 128; done:)", {}).first(),
            "synccheck/deadlock");
  EXPECT_TRUE(run(R"(setp.ge.u32 %p1, %r2, 64; @%p1 bra other; bar.sync 1, 64; bra done;
other: bar.sync 1, 96; done:)",
                  {})
                  .has("synccheck", "barrier_count") ||
              run(R"(setp.ge.u32 %p1, %r2, 32; @%p1 bra other; bar.sync 1, 64; bra done;
other: bar.sync 1, 96; done:)",
                  {.threads = 64})
                  .has("synccheck", "barrier_count"));
}

TEST(Checks, EachLevelCanBeSwitchedOff) {
  const std::string body = R"(.shared .align 4 .b8 part[512]; mov.u32 %r5, part;
ld.shared.u32 %r6, [%r5]; st.shared.u32 [%r5], %r6; setp.ge.u32 %p1, %r2, 16; @%p1 bra other;
bar.sync 0; bra done; other: bar.sync 0; done: ld.global.u32 %r7, [%rd1+4096];)";
  for (int level = 0; level < 16; ++level) {
    DeviceOptions options;
    options.memcheck = (level & 1) != 0;
    options.initcheck = (level & 2) != 0;
    options.racecheck = (level & 4) != 0;
    options.synccheck = (level & 8) != 0;
    const Outcome outcome = run(body, {.options = options});
    EXPECT_EQ(outcome.has("memcheck", "out_of_bounds"), options.memcheck) << level;
    EXPECT_EQ(outcome.has("initcheck", "uninitialized_read"), options.initcheck) << level;
    EXPECT_EQ(outcome.has("racecheck", "shared"), options.racecheck) << level;
    EXPECT_EQ(outcome.has("synccheck", "divergent_barrier"), options.synccheck) << level;
  }
}

TEST(Checks, FindingsAreTheSameForEveryNumberOfHostThreadsAndInstructionSet) {
  const std::string body = R"(mul.wide.u32 %rd3, %r3, 64; add.s64 %rd4, %rd2, %rd3;
cvt.u64.u32 %rd5, %r4; add.s64 %rd6, %rd4, %rd5; ld.global.u32 %r5, [%rd6];
st.global.u32 [%rd6+32], %r5;)";
  std::string known;
  for (const char* set : {"", "avx2", "scalar"}) {
    for (const std::uint32_t threads : {1u, 2u, 3u}) {
      DeviceOptions options;
      options.host_threads = threads;
      options.instruction_set = set;
      if (!open("vgpu:sm_80", options).ok()) continue;
      const std::string text = shown(run(body, {.blocks = 24, .fill_y = true, .options = options}));
      EXPECT_FALSE(text.empty());
      if (known.empty()) known = text;
      EXPECT_EQ(text, known) << set << ' ' << threads;
    }
  }
}

}  // namespace
}  // namespace lockstep::device
