// The checkers as the interpreter sees them: one LaunchChecks for a device, told of each launch;
// one BlockChecks for each host thread, told of what a block does. Nothing here changes what a
// kernel computes. Bounds and alignment are checked where addresses are resolved (exec), with
// AllocationTable (memcheck.h) to name what was missed.
//
// A handler calls access<Isa>(checks, Space, Access) once it knows that the addresses are valid and
// aligned, before it moves data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/vgpu/check/access.h"
#include "device/vgpu/check/findings.h"
#include "device/vgpu/check/initcheck.h"
#include "device/vgpu/check/memcheck.h"
#include "device/vgpu/check/racecheck.h"
#include "device/vgpu/check/synccheck.h"

namespace lockstep::device::vgpu::check {

enum class Space : u8 { Global, Shared, Local };

struct Levels {
  bool init = true;
  bool race = true;
  bool sync = true;
  bool any() const { return init || race || sync; }
};

class LaunchChecks {
 public:
  // Global memory at device addresses [first, first + size_bytes). `allocations` must outlive this.
  LaunchChecks(Levels levels, u64 first, u64 size_bytes, const AllocationTable* allocations);

  const Levels& levels() const { return levels_; }
  // From outside kernels: copies and fills write; new allocations hold nothing.
  void host_wrote(u64 address, u64 size_bytes);
  void allocated(u64 address, u64 size_bytes);

  void begin_launch() { races_.begin_launch(allocations_); }
  Findings end_launch() { return races_.take_findings(); }

  GlobalInit& global_init() { return global_init_; }
  LaunchRaces& races() { return races_; }
  const AllocationTable& allocations() const { return *allocations_; }

 private:
  Levels levels_;
  const AllocationTable* allocations_;
  GlobalInit global_init_;
  LaunchRaces races_;
};

class BlockChecks {
 public:
  explicit BlockChecks(LaunchChecks* launch) : launch_(launch), races_(&launch->races()) {}

  // `order`: place in the launch's schedule; `block`: linear index in the grid. Local memory of a
  // warp: all lanes' copies, `local_bytes`, lane after lane.
  void begin_block(u64 order, u32 block, u32 warp_count, u64 shared_bytes, u64 local_bytes);
  // `failed`: it stopped at a fault.
  void end_block(bool failed = false);

  // The block's barriers; bit i of the masks is warp i. `arrived` holds `waiting`.
  void arrive_at_barrier(const BarrierArrival& arrival);
  void complete_barrier(u32 waiting, u32 arrived) { races_.complete_barrier(waiting, arrived); }
  void sync_warp(u32 warp, u32 members, u32 live) { races_.sync_warp(warp, members, live); }
  // fence, membar of gpu or system scope.
  void fence() { races_.fence(); }

  // cp.async of one lane: its destination, at issue and when it is waited for. (Its source is an
  // access to global memory at issue.)
  void begin_copy(u32 warp, u32 lane, u32 offset, u32 size_bytes, u32 instruction);
  void finish_copy(u32 warp, u32 lane, u32 offset, u32 size_bytes, u32 instruction);

  // ldmatrix, stmatrix: rows of 16 bytes at these shared offsets.
  void matrix_rows(const u32* offsets, u32 count, bool is_store, u32 warp, u32 instruction);

  Findings& findings() { return races_.findings(); }

  template <class Isa>
  friend void access(BlockChecks& checks, Space space, const Access& access);

 private:
  void report_unwritten(Space space, const Access& access, u32 lanes);
  std::string where(Space space, const Access& access, u32 lane) const;
  LaunchChecks* launch_;
  BlockRaces races_;
  BlockInit shared_init_ = {};
  std::vector<BlockInit> local_init_ = {};
  u64 order_ = 0, local_bytes_ = 0;
  u32 block_ = 0;
};

template <class Isa>
inline void access(BlockChecks& checks, Space space, const Access& access) {
  if (access.mask == 0) return;
  const Levels& levels = checks.launch_->levels();
  if (levels.race && space == Space::Shared && checks.races_.touches_copy(access)) return;
  if (levels.init) {
    GlobalInit& global = checks.launch_->global_init();
    u64* bits = space == Space::Global   ? global.bits()
                : space == Space::Shared ? checks.shared_init_.bits()
                                         : checks.local_init_[access.warp].bits();
    const u64 origin = space == Space::Global ? global.first() : 0;
    if (is_read(access.kind)) {
      const u32 lanes = lanes_not_set<Isa>(bits, origin, access);
      if (__builtin_expect(lanes != 0, 0)) checks.report_unwritten(space, access, lanes);
    }
    if (is_write(access.kind)) {
      if (space == Space::Global) {
        set_lanes<true>(bits, origin, access);
      } else {
        set_lanes<false>(bits, origin, access);
      }
    }
  }
  if (levels.race && space == Space::Shared) checks.races_.shared<Isa>(access);
  if (levels.race && space == Space::Global) checks.races_.global<Isa>(access);
}

}  // namespace lockstep::device::vgpu::check
