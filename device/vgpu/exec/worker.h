// One host thread's part of a launch: an arena with the warps, shared and local memory of the block
// that it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/vgpu/check/hook.h"
#include "device/vgpu/exec/block.h"
#include "device/vgpu/exec/launch.h"

namespace lockstep::device::vgpu::exec {

// What all blocks of a launch share.
struct LaunchContext {
  const Program& program;
  const GlobalMemory& memory;
  const LaunchOptions& options;
  std::span<const std::byte> parameters;
  bool atomics_shared = false;
  check::LaunchChecks* checks = nullptr;  // nullptr: none
};

// Host memory whose start is a multiple of 64 bytes; only grows.
class AlignedBytes {
 public:
  std::byte* require(std::size_t size_bytes);

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_bytes_ = 0;
};

// The warps of one kernel: registers that no instruction writes are filled once, so that blocks and
// launches that follow start at once.
struct WarpArena {
  AlignedBytes bytes;
  std::byte* warps = nullptr;
  std::size_t stride = 0;
  std::uint32_t warp_count = 0;
  Dim3 block = {0, 0, 0}, grid = {0, 0, 0};
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;  // as the registers hold them
};

class Worker {
 public:
  // Once for each launch, before its blocks.
  void prepare(const LaunchContext& context);
  // Runs block number `order` of the schedule, which is block `linear` of the grid; a fault if it
  // could not finish.
  std::optional<Fault> run_block(const LaunchContext& context, std::uint64_t order,
                                 std::uint64_t linear);
  std::uint64_t take_executed();
  std::uint64_t take_checked_lanes();

 private:
  void prepare_arena(const LaunchContext& context, WarpArena& arena);
  void prepare_warp(const LaunchContext& context, Warp& warp);
  void start_block(const LaunchContext& context, std::uint64_t linear);
  void start_warp(const LaunchContext& context, Warp& warp);
  void fill_special(const LaunchContext& context, Warp& warp, const SpecialUse& use) const;
  void schedule();
  void report_stuck(bool progressed);

  std::unordered_map<const Program*, std::unique_ptr<WarpArena>> arenas_;
  AlignedBytes shared_arena_, local_arena_, param_arena_;
  std::byte* shared_ = nullptr;
  std::byte* local_ = nullptr;
  std::byte* param_ = nullptr;
  std::size_t local_stride_ = 0;
  std::uint32_t warp_count_ = 0, thread_count_ = 0, shared_bytes_ = 0;
  std::vector<Interval> intervals_;
  std::vector<AsyncQueue> queues_;
  std::vector<std::uint32_t> order_;
  Block block_;
  std::unique_ptr<check::BlockChecks> checks_;
  check::LaunchChecks* checks_of_ = nullptr;
  std::uint64_t executed_ = 0, checked_lanes_ = 0;
};

}  // namespace lockstep::device::vgpu::exec
