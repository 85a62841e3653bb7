// Who touched each granule of memory last inside a block: the last writer, and the readers since.
// Granules have 4 bytes until a smaller access comes, then 2 or 1: neighbouring threads may use
// neighbouring bytes.
//
// A record: | time 20 | strong 1 | who 11 |. `who`: 0 nobody, 1 + thread, 1025 + warp: several
// lanes of a warp, 2047: threads of several warps. Records of an earlier time than the block's last
// barrier are past, so nothing is cleared between blocks.
#pragma once

#include <vector>

#include "device/vgpu/check/access.h"
#include "device/vgpu/check/clock.h"

namespace lockstep::device::vgpu::check {

inline constexpr u32 kWhoBits = 11;
inline constexpr u32 kWhoMask = (1u << kWhoBits) - 1;
inline constexpr u32 kStrong = 1u << kWhoBits;
inline constexpr u32 kTimeShift = kWhoBits + 1;
static_assert(kTimeShift + kTimeBits == 32);
inline constexpr u32 kLanesOfWarp = 1025;  // + warp
inline constexpr u32 kSeveralWarps = kWhoMask;

constexpr u32 who(u32 record) { return record & kWhoMask; }
constexpr u32 time_of(u32 record) { return record >> kTimeShift; }
constexpr bool is_of_warp(u32 record_who, u32 warp) {
  return record_who - 1 - warp * kLanes < kLanes || record_who == kLanesOfWarp + warp;
}

class RaceRecords {
 public:
  // Records for at least `size_bytes` bytes, in granules of at most `granule_bytes` (a power of
  // two).
  void require(u64 size_bytes, u32 granule_bytes);
  void clear();
  u32 shift() const { return shift_; }
  u32* writers() { return writers_.data(); }
  u32* readers() { return readers_.data(); }
  u16* writer_instructions() { return writer_instructions_.data(); }
  u16* reader_instructions() { return reader_instructions_.data(); }

 private:
  u32 shift_ = 2;
  std::vector<u32> writers_ = {}, readers_ = {};
  std::vector<u16> writer_instructions_ = {}, reader_instructions_ = {};
};

// The times that an access is compared with, as records.
struct RaceTimes {
  u32 block = 0, warp = 0;  // block_time() and warp_time(), shifted
  u32 now = 0;              // now(), shifted
  u32 warp_index = 0;
};

// Whether `record` is of another thread than `mine`, and no barrier has come since. Several lanes
// are never one thread.
constexpr bool is_unordered(u32 record, u32 mine, const RaceTimes& times) {
  const bool by_warp = is_of_warp(who(record), times.warp_index) && record < times.warp;
  const bool other = who(record) != who(mine) || who(record) >= kLanesOfWarp;
  return record >= times.block && other && !by_warp && record != 0;
}

// The readers' record after a load by `mine`. Several readers of which one is strong count as
// strong: a strong store after them may then be missed, but none is a false alarm.
constexpr u32 merged_reader(u32 old, u32 mine, const RaceTimes& times) {
  if (old < times.block || old == 0) return mine;
  if (who(old) == who(mine)) return mine & (old | ~kStrong);
  const bool same_warp = is_of_warp(who(old), times.warp_index);
  if (same_warp && old < times.warp) return mine;
  const u32 several = same_warp ? kLanesOfWarp + times.warp_index : kSeveralWarps;
  return times.now | ((old | mine) & kStrong) | several;
}

// `count` granules from `first` on, of which granule i belongs to lane (i + offset) >> lane_shift.
struct GranuleRun {
  u32 first = 0, count = 0, offset = 0, lane_shift = 0;
};

// Records a load of lanes next to each other; true if one of them races. kPartial: only lanes of
// `mask` load. `who0`: `who` of lane 0.
template <class Isa, bool kPartial>
inline bool load_run(RaceRecords& records, const GranuleRun& run, u32 mask, u32 who0, u32 flags,
                     u16 instruction, const RaceTimes& times) {
  const u32* writers = records.writers() + run.first;
  u32* readers = records.readers() + run.first;
  u16* instructions = records.reader_instructions() + run.first;
  u32 bad = 0;
  LS_CHECK_LOOP(i, run.count) {
    const u32 lane = (i + run.offset) >> run.lane_shift;
    const u32 mine = times.now | flags | (who0 + lane);
    const bool active = !kPartial || ((mask >> lane) & 1) != 0;
    const u32 writer = writers[i], reader = readers[i];
    const bool races = is_unordered(writer, mine, times) && !((writer & flags & kStrong) != 0);
    bad |= static_cast<u32>(active && races);
    readers[i] = active ? merged_reader(reader, mine, times) : reader;
    instructions[i] = active ? instruction : instructions[i];
  }
  return bad != 0;
}

// Whether a store of lanes next to each other races.
template <class Isa, bool kPartial>
inline bool store_races(RaceRecords& records, const GranuleRun& run, u32 mask, u32 who0, u32 flags,
                        const RaceTimes& times) {
  const u32* writers = records.writers() + run.first;
  const u32* readers = records.readers() + run.first;
  u32 bad = 0;
  LS_CHECK_LOOP(i, run.count) {
    const u32 lane = (i + run.offset) >> run.lane_shift;
    const u32 mine = times.now | flags | (who0 + lane);
    const bool active = !kPartial || ((mask >> lane) & 1) != 0;
    const u32 writer = writers[i], reader = readers[i];
    const bool races = (is_unordered(writer, mine, times) && (writer & flags & kStrong) == 0) ||
                       (is_unordered(reader, mine, times) && (reader & flags & kStrong) == 0);
    bad |= static_cast<u32>(active && races);
  }
  return bad != 0;
}

// Records a weak store of lanes next to each other.
template <class Isa, bool kPartial>
inline void store_run(RaceRecords& records, const GranuleRun& run, u32 mask, u32 who0,
                      u16 instruction, const RaceTimes& times) {
  u32* writers = records.writers() + run.first;
  u32* readers = records.readers() + run.first;
  u16* instructions = records.writer_instructions() + run.first;
  LS_CHECK_LOOP(i, run.count) {
    const u32 lane = (i + run.offset) >> run.lane_shift;
    const bool active = !kPartial || ((mask >> lane) & 1) != 0;
    writers[i] = active ? times.now | (who0 + lane) : writers[i];
    readers[i] = active ? 0 : readers[i];
    instructions[i] = active ? instruction : instructions[i];
  }
}

// A strong store or atom by `mine` keeps the readers, and says if several threads did so.
constexpr u32 merged_strong_writer(u32 old, u32 mine, const RaceTimes& times) {
  if ((old & kStrong) == 0 || !is_unordered(old, mine, times)) return mine;
  const bool same_warp = is_of_warp(who(old), times.warp_index);
  return times.now | kStrong | (same_warp ? kLanesOfWarp + times.warp_index : kSeveralWarps);
}

}  // namespace lockstep::device::vgpu::check
