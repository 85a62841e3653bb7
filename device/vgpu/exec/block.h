// A block of threads while it runs: its warps, barriers, and what went wrong.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "device/vgpu/exec/machine.h"
#include "device/vgpu/exec/memory.h"
#include "device/vgpu/exec/program.h"
#include "device/vgpu/exec/runtime.h"

namespace lockstep::device::vgpu::exec {

inline constexpr std::uint32_t kBarriers = 16;

struct Barrier {
  std::uint32_t arrived = 0;      // threads
  std::uint32_t expected = 0;     // threads; 0: all that live
  std::uint32_t set_count = 0;    // of bar.red: threads whose predicate was set
  std::uint32_t contributed = 0;  // threads that took part in the reduction
  std::uint32_t warps = 0;        // that arrived, one bit each
};

struct Index3 {
  std::uint32_t x = 0, y = 0, z = 0;
};

struct Block {
  const Program* program = nullptr;
  const GlobalMemory* memory = nullptr;
  Index3 index;
  std::vector<Warp*> warps;
  std::array<Barrier, kBarriers> barriers = {};
  std::optional<Fault> fault;
};

// Opens every barrier for which enough threads have arrived; false: there is none.
bool open_barriers(Block& block);

}  // namespace lockstep::device::vgpu::exec
