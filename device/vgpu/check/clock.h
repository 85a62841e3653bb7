// Who is ordered after whom inside a block: a time for each warp, which moves at barriers.
//
// An access is stamped with its warp's time. Accesses before the last barrier of the whole block
// are ordered before everything now: their time is below block_time(). Inside a warp bar.warp.sync
// of all its lanes does the same with warp_time(). Barriers of some warps and bar.warp.sync of some
// lanes are kept as a list, searched only when two accesses would race otherwise.
//
// Source: PTX ISA 9.0, bar.sync and bar.warp.sync ("guarantee memory ordering among participating
// threads"). shfl, vote, match, redux, mma and ldmatrix promise no memory ordering (CUDA
// programming guide, "Warp Shuffle Functions": "do not imply a memory barrier").
#pragma once

#include <array>
#include <vector>

#include "device/vgpu/check/access.h"

namespace lockstep::device::vgpu::check {

inline constexpr u32 kMaxWarps = 32;
inline constexpr u32 kTimeBits = 20;
inline constexpr u32 kMaxTime = (1u << kTimeBits) - 1;

class BlockClock {
 public:
  // These return true where the times ran out and begin at 1 again: all records must be cleared
  // (what they could have shown is lost; it takes a million barriers).
  [[nodiscard]] bool begin_block(u32 warp_count);  // everything before is past

  u32 block_time() const { return block_time_; }
  u32 warp_time(u32 warp) const { return synced_[warp]; }
  u32 now(u32 warp) const { return now_[warp]; }

  // A warp reaches a barrier (bar.sync, bar.arrive): what it did before is released.
  [[nodiscard]] bool arrive(u32 warp);
  // A barrier is complete: `waiting` warps go on after all that `arrived` (waiting ones included).
  [[nodiscard]] bool complete(u32 waiting, u32 arrived);
  // bar.warp.sync of `members`, of the warp's `live` lanes.
  [[nodiscard]] bool sync_warp(u32 warp, u32 members, u32 live);

  // The slow question, for two accesses that block_time() and warp_time() don't order: whether
  // what `warp`'s `lane` (kLanes: some lanes) did at `time` comes before what `later_warp`'s
  // `later_lane` does now.
  bool is_ordered(u32 warp, u32 lane, u32 time, u32 later_warp, u32 later_lane) const;

 private:
  struct PartBarrier {
    u32 waiting = 0, arrived = 0;
    std::array<u32, kMaxWarps> released = {};  // time of each arrived warp's last access before
  };
  struct PartSync {
    u32 time = 0;  // accesses up to it come before
    u32 members = 0;
  };
  bool set_all(u32 time);  // everything before is past; true if the times began again
  bool advance(u32 warp);
  u32 warp_count_ = 0, all_warps_ = 0;
  u32 newest_ = 0, block_time_ = 1;
  std::array<u32, kMaxWarps> now_ = {}, synced_ = {}, released_ = {};
  std::vector<PartBarrier> barriers_ = {};                   // since the last barrier of all
  std::array<std::vector<PartSync>, kMaxWarps> syncs_ = {};  // since the warp's last full one
};

}  // namespace lockstep::device::vgpu::check
