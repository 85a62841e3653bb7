// Misuse of barriers; synccheck.h.
#include "device/vgpu/check/synccheck.h"

#include <string>

namespace lockstep::device::vgpu::check {
namespace {

std::string counted(u32 threads) {
  return threads == 0 ? "all threads" : std::to_string(threads) + " threads";
}

}  // namespace

void check_arrival(Findings& findings, u32 block, const BarrierArrival& arrival) {
  const std::string place =
      "warp " + std::to_string(arrival.warp) + " of block " + std::to_string(block);
  const u32 missing = arrival.live & ~arrival.lanes;
  if (arrival.is_aligned && missing != 0) {
    findings.add("synccheck", "divergent_barrier", arrival.instruction, kNoInstruction, 1, [&] {
      return std::to_string(__builtin_popcount(arrival.lanes)) + " of " +
             std::to_string(__builtin_popcount(arrival.live)) + " threads of " + place +
             " are at barrier " + std::to_string(arrival.barrier) + "; thread " +
             std::to_string(arrival.warp * kLanes + static_cast<u32>(__builtin_ctz(missing))) +
             " is not";
    });
  }
  const u32 before = arrival.arrived_threads;
  if (before != 0 && arrival.threads != arrival.expected_threads) {
    findings.add("synccheck", "barrier_count", arrival.instruction, kNoInstruction, 1, [&] {
      return place + " waits for " + counted(arrival.threads) + " at barrier " +
             std::to_string(arrival.barrier) + ", others for " + counted(arrival.expected_threads);
    });
  } else if (arrival.threads != 0 &&
             before + static_cast<u32>(__builtin_popcount(arrival.lanes)) > arrival.threads) {
    findings.add("synccheck", "barrier_count", arrival.instruction, kNoInstruction, 1, [&] {
      return place + " is one too many at barrier " + std::to_string(arrival.barrier) + " for " +
             counted(arrival.threads);
    });
  }
}

}  // namespace lockstep::device::vgpu::check
