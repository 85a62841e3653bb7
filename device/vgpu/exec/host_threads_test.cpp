// The laws of the launcher's threads.
#include "device/vgpu/exec/host_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "base/check.h"

namespace lockstep::device::vgpu::exec {
namespace {

TEST(HostThreads, EveryPartRunsOnceAndIsSeenAfterwards) {
  HostThreads threads(4);
  // Plain memory: run() orders what the parts did before what the caller does then.
  std::vector<std::uint64_t> runs(4, 0);
  std::vector<std::uint64_t> wanted(4, 0);
  for (std::uint32_t round = 0; round < 2000; ++round) {
    const std::uint32_t parts = 1 + round * 7 % 4;
    threads.run(parts, [&](std::size_t part) { runs[part] += round + 1; });
    for (std::uint32_t part = 0; part < parts; ++part) wanted[part] += round + 1;
    ASSERT_EQ(runs, wanted) << round;
  }
}

TEST(HostThreads, AnExceptionLeavesAfterAllPartsAndTheNextRoundWorks) {
  HostThreads threads(3);
  for (std::size_t thrower = 0; thrower < 3; ++thrower) {
    std::atomic<int> finished = 0;
    const auto work = [&](std::size_t part) {
      if (part == thrower) throw std::runtime_error("part");
      ++finished;
    };
    EXPECT_THROW(threads.run(3, work), std::runtime_error);
    EXPECT_EQ(finished.load(), 2);
  }
  std::atomic<int> finished = 0;
  threads.run(3, [&](std::size_t) { ++finished; });
  EXPECT_EQ(finished.load(), 3);
}

TEST(HostThreads, AFailedCheckOfAnyPartBelongsToTheCallersSubject) {
  HostThreads threads(2);
  const base::SubjectScope subject;
  EXPECT_THROW(threads.run(2, [](std::size_t part) { LS_CHECK(part == 0); }), base::CheckFailure);
}

}  // namespace
}  // namespace lockstep::device::vgpu::exec
