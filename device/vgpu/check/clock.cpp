// Order of a block's threads; clock.h.
#include "device/vgpu/check/clock.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::device::vgpu::check {

bool BlockClock::set_all(u32 time) {
  const bool starts_over = time > kMaxTime;
  newest_ = block_time_ = starts_over ? 1 : time;
  now_.fill(newest_);
  synced_.fill(newest_);
  barriers_.clear();
  for (auto& list : syncs_) list.clear();
  return starts_over;
}

bool BlockClock::advance(u32 warp) {
  if (now_[warp] == kMaxTime) return set_all(kMaxTime + 1);
  newest_ = std::max(newest_, ++now_[warp]);
  return false;
}

bool BlockClock::begin_block(u32 warp_count) {
  LS_CHECK(warp_count > 0 && warp_count <= kMaxWarps);
  warp_count_ = warp_count;
  all_warps_ = warp_count == 32 ? kAllLanes : (1u << warp_count) - 1;
  return set_all(newest_ + 1);
}

bool BlockClock::arrive(u32 warp) {
  LS_CHECK(warp < warp_count_);
  released_[warp] = now_[warp];
  return advance(warp);
}

bool BlockClock::complete(u32 waiting, u32 arrived) {
  LS_CHECK((waiting & ~arrived) == 0);
  if (waiting == all_warps_) return set_all(newest_ + 1);
  barriers_.push_back({waiting, arrived, released_});
  for (u32 warp = 0; warp < warp_count_; ++warp) {
    if (((waiting >> warp) & 1) == 0) continue;
    // All lanes of the warp took part.
    synced_[warp] = now_[warp];
    syncs_[warp].clear();
  }
  return false;
}

bool BlockClock::sync_warp(u32 warp, u32 members, u32 live) {
  LS_CHECK(warp < warp_count_);
  const u32 before = now_[warp];
  if (advance(warp)) return true;
  if ((live & ~members) == 0) {
    synced_[warp] = now_[warp];
    syncs_[warp].clear();
  } else {
    syncs_[warp].push_back({before, members});
  }
  return false;
}

bool BlockClock::is_ordered(u32 warp, u32 lane, u32 time, u32 later_warp, u32 later_lane) const {
  if (time < block_time_) return true;
  if (warp == later_warp) {
    if (lane == later_lane && lane < kLanes) return true;
    if (time < synced_[warp]) return true;
    // Lanes that are ordered after the earlier one, grown sync by sync.
    const u32 itself = lane < kLanes ? 1u << lane : 0;
    u32 after = itself;
    for (const PartSync& sync : syncs_[warp]) {
      if (sync.time < time) continue;
      // Of unknown lanes: taken to be members, so that tiles of a warp are no false alarm.
      if (lane >= kLanes || (sync.members & after) != 0) after |= sync.members;
    }
    if (later_lane >= kLanes ? after != itself : (after >> later_lane & 1) != 0) return true;
  }
  u32 after = 0;
  for (const PartBarrier& barrier : barriers_) {
    const bool is_released = (barrier.arrived >> warp & 1) != 0 && time <= barrier.released[warp];
    if (is_released || (barrier.arrived & after) != 0) after |= barrier.waiting;
  }
  return (after >> later_warp & 1) != 0;
}

}  // namespace lockstep::device::vgpu::check
