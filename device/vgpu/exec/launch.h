// Runs all blocks of a launch on the host's threads. The results are the same for every number of
// threads; with a schedule seed of 0 blocks and warps go in ascending order, with another in a
// permutation of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "device/vgpu/check/hook.h"
#include "device/vgpu/exec/memory.h"
#include "device/vgpu/exec/program.h"

namespace lockstep::device::vgpu::exec {

struct LaunchOptions {
  Dim3 grid, block;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint64_t schedule_seed = 0;
  std::uint32_t sm = 80;
  std::uint32_t multiprocessor_count = 1;
  bool memcheck = true;
};

struct LaunchOutcome {
  std::vector<Diagnostic> diagnostics;  // in the order of blocks
  std::uint64_t warp_instructions = 0;
  std::uint64_t checked_accesses = 0;
};

class Worker;
class HostThreads;

// The host threads and their arenas, kept between launches.
class Launcher {
 public:
  explicit Launcher(std::uint32_t host_threads);  // 0: all cores
  ~Launcher();
  // `checks`: what listens, or nullptr. `parameters` has Program::param_bytes. The limits have been
  // checked.
  LaunchOutcome launch(const Program& program, const GlobalMemory& memory,
                       const LaunchOptions& options, std::span<const std::byte> parameters,
                       check::LaunchChecks* checks);

 private:
  std::unique_ptr<HostThreads> threads_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unordered_map<const Program*, std::uint64_t> work_of_warp_;  // of its last launch
};

}  // namespace lockstep::device::vgpu::exec
