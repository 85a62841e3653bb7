// Who touched each granule of memory last inside a block: the last writer, and the readers since.
// Granules have 16 bytes until a smaller access comes, then 8, 4, 2 or 1: neighbouring threads may
// use neighbouring bytes. So no access is smaller than a granule.
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

inline constexpr u32 kGranuleShiftMax = 4, kGranuleBytesMax = 1u << kGranuleShiftMax;
constexpr u32 granule_for(u32 access_bytes) {
  return access_bytes < kGranuleBytesMax ? access_bytes : kGranuleBytesMax;
}

constexpr u32 who(u32 record) { return record & kWhoMask; }
constexpr u32 time_of(u32 record) { return record >> kTimeShift; }
// Conditions are words of 0 or 1, joined by & and | without branches, so that loops over granules
// vectorise.
constexpr u32 is_of_warp(u32 record_who, u32 warp) {
  return u32{record_who - 1 - warp * kLanes < kLanes} | u32{record_who == kLanesOfWarp + warp};
}

class RaceRecords {
 public:
  // Records for at least `size_bytes` bytes, in granules of at most `granule_bytes` (a power of
  // two).
  void require(u64 size_bytes, u32 granule_bytes) {
    const bool is_fine = granule_bytes >> shift_ != 0;
    if (is_fine && size_bytes >> shift_ <= writers_.size() && !writers_.empty()) return;
    grow(size_bytes, granule_bytes);
  }
  void clear();
  u32 shift() const { return shift_; }
  u32* writers() { return writers_.data(); }
  u32* readers() { return readers_.data(); }
  u16* writer_instructions() { return writer_instructions_.data(); }
  u16* reader_instructions() { return reader_instructions_.data(); }

 private:
  void grow(u64 size_bytes, u32 granule_bytes);
  u32 shift_ = kGranuleShiftMax;
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
// are never one thread. (A record of nobody is 0, and times begin at 1.)
constexpr u32 is_unordered(u32 record, u32 mine, RaceTimes times) {
  const u32 by_warp = is_of_warp(who(record), times.warp_index) & u32{record < times.warp};
  const u32 other = u32{who(record) != who(mine)} | u32{who(record) >= kLanesOfWarp};
  return u32{record >= times.block} & other & (by_warp ^ 1);
}

// Whether everything that `record` stands for comes before what the warp does now.
constexpr u32 is_past(u32 record, RaceTimes times) {
  return u32{record < times.block} |
         (is_of_warp(who(record), times.warp_index) & u32{record < times.warp});
}

// The readers' record after a load by `mine`. Several readers of which one is strong count as
// strong: a strong store after them may then be missed, but none is a false alarm.
constexpr u32 merged_reader(u32 old, u32 mine, RaceTimes times) {
  const u32 same = who(old) == who(mine);
  const u32 same_warp = is_of_warp(who(old), times.warp_index);
  const u32 past = u32{old < times.block} | ((same ^ 1) & same_warp & u32{old < times.warp});
  const u32 several = same_warp != 0 ? kLanesOfWarp + times.warp_index : kSeveralWarps;
  const u32 joined = times.now | ((old | mine) & kStrong) | several;
  const u32 again = mine & (old | ~kStrong);
  return past != 0 ? mine : same != 0 ? again : joined;
}

// `count` granules from `first` on, of which granule i belongs to lane (i + offset) >> lane_shift.
struct GranuleRun {
  u32 first = 0, count = 0, offset = 0, lane_shift = 0;
};

// Whether a weak load by `mine` leaves the granule's records as they are: nobody else wrote, and it
// has been noted already that `mine`, or several warps, read.
constexpr u32 is_known_load(u32 writer, u32 reader, u32 mine, RaceTimes times) {
  const u32 several = u32{reader >= times.block} & u32{who(reader) == kSeveralWarps};
  const u32 again = u32{reader == (times.now | mine)};
  const u32 own = u32{who(writer) == mine} & u32{mine < kLanesOfWarp};
  return (is_past(writer, times) | own) & (several | again);
}

// Weak loads of scattered lanes (granule index of each in `first`, `count` granules from there on)
// that leave all records as they are: what a loop that reads a table again does.
template <class Isa>
inline bool scattered_loads_known(RaceRecords& records, const u32* first, u32 count, u32 mask,
                                  u32 who0, RaceTimes times) {
  const u32* writers = records.writers();
  const u32* readers = records.readers();
  u32 known = 1;
  for (u32 k = 0; k < count; ++k) {
    LS_CHECK_LOOP(lane, kLanes) {
      const u32 granule = first[lane] + k;
      known &= is_known_load(writers[granule], readers[granule], who0 + lane, times) |
               (((mask >> lane) & 1) ^ 1);
    }
    if (known == 0) return false;
  }
  return true;
}

inline void fill_instructions(u16* instructions, GranuleRun run, u32 mask, u16 instruction) {
  if (mask == kAllLanes) {
    LS_CHECK_LOOP(i, run.count) { instructions[i] = instruction; }
    return;
  }
  LS_CHECK_LOOP(i, run.count) {
    const bool active = ((mask >> ((i + run.offset) >> run.lane_shift)) & 1) != 0;
    instructions[i] = active ? instruction : instructions[i];
  }
}

// The common case of a weak load by all lanes: nobody else wrote, and nobody else reads but several
// warps. Done with then; false: nothing was recorded.
template <class Isa, u32 kCount, u32 kLaneShift>
inline bool load_quickly(RaceRecords& records, GranuleRun run, u32 who0, RaceTimes times) {
  const u32* writers = records.writers() + run.first;
  u32* readers = records.readers() + run.first;
  const u32 first_lane = who0 + (run.offset >> kLaneShift);
  u32 others = 0;
  LS_CHECK_LOOP(i, kCount) {
    const u32 mine = first_lane + (i >> kLaneShift);
    const u32 writer = writers[i], reader = readers[i];
    const u32 known = u32{who(reader) == mine} | u32{who(reader) == kSeveralWarps};
    others |=
        ((is_past(writer, times) | u32{who(writer) == mine}) & (is_past(reader, times) | known)) ^
        1;
  }
  if (others != 0) return false;
  LS_CHECK_LOOP(i, kCount) {
    const u32 reader = readers[i];
    const u32 several = u32{reader >= times.block} & u32{who(reader) == kSeveralWarps};
    readers[i] = several != 0 ? reader : times.now | (first_lane + (i >> kLaneShift));
  }
  return true;
}

// The same for a weak store: nobody else wrote or read.
template <class Isa, u32 kCount, u32 kLaneShift>
inline bool store_quickly(RaceRecords& records, GranuleRun run, u32 who0, RaceTimes times) {
  u32* writers = records.writers() + run.first;
  u32* readers = records.readers() + run.first;
  const u32 first_lane = who0 + (run.offset >> kLaneShift);
  u32 others = 0;
  LS_CHECK_LOOP(i, kCount) {
    const u32 mine = first_lane + (i >> kLaneShift);
    const u32 writer = writers[i], reader = readers[i];
    others |= ((is_past(writer, times) | u32{who(writer) == mine}) &
               (is_past(reader, times) | u32{who(reader) == mine})) ^
              1;
  }
  if (others != 0) return false;
  LS_CHECK_LOOP(i, kCount) {
    writers[i] = times.now | (first_lane + (i >> kLaneShift));
    readers[i] = 0;
  }
  return true;
}

template <class Isa, u32 kCount, u32 kLaneShift>
inline bool access_quickly(RaceRecords& records, GranuleRun run, bool writes, u32 who0,
                           u16 instruction, RaceTimes times) {
  const bool done = writes ? store_quickly<Isa, kCount, kLaneShift>(records, run, who0, times)
                           : load_quickly<Isa, kCount, kLaneShift>(records, run, who0, times);
  if (!done) return false;
  u16* instructions =
      (writes ? records.writer_instructions() : records.reader_instructions()) + run.first;
  LS_CHECK_LOOP(i, kCount) { instructions[i] = instruction; }
  return true;
}

// A weak access of one thread, or of several lanes of a warp together, to a few granules.
inline bool access_one_quickly(RaceRecords& records, u32 first, u32 count, bool writes, u32 mine,
                               u16 instruction, RaceTimes times) {
  const bool alone = mine < kLanesOfWarp;  // several lanes are never one thread
  for (u32 granule = first; granule < first + count; ++granule) {
    const u32 writer = records.writers()[granule], reader = records.readers()[granule];
    if (is_past(writer, times) == 0 && !(alone && who(writer) == mine)) return false;
    const bool known =
        writes ? alone && who(reader) == mine : who(reader) == mine || who(reader) == kSeveralWarps;
    if (is_past(reader, times) == 0 && !known) return false;
  }
  for (u32 granule = first; granule < first + count; ++granule) {
    u32& reader = records.readers()[granule];
    if (writes) {
      records.writers()[granule] = times.now | mine;
      records.writer_instructions()[granule] = instruction;
      reader = 0;
    } else {
      const bool several = reader >= times.block && who(reader) == kSeveralWarps;
      reader = several ? reader : times.now | mine;
      records.reader_instructions()[granule] = instruction;
    }
  }
  return true;
}

// Records a load of lanes next to each other; true if one of them races. kPartial: only lanes of
// `mask` load. `who0`: `who` of lane 0. `flags`: kStrong or 0.
template <class Isa, bool kPartial>
inline bool load_run(RaceRecords& records, GranuleRun run, u32 mask, u32 who0, u32 flags,
                     u16 instruction, RaceTimes times) {
  const u32* writers = records.writers() + run.first;
  u32* readers = records.readers() + run.first;
  const u32 base = times.now | flags;
  u32 bad = 0;
  LS_CHECK_LOOP(i, run.count) {
    const u32 lane = (i + run.offset) >> run.lane_shift;
    const u32 mine = base | (who0 + lane);
    const u32 active = kPartial ? (mask >> lane) & 1 : 1;
    const u32 writer = writers[i], reader = readers[i];
    bad |= is_unordered(writer, mine, times) & u32{(writer & flags) == 0} & active;
    const u32 merged = merged_reader(reader, mine, times);
    readers[i] = active != 0 ? merged : reader;
  }
  fill_instructions(records.reader_instructions() + run.first, run, kPartial ? mask : kAllLanes,
                    instruction);
  return bad != 0;
}

// Whether a store of lanes next to each other races.
template <class Isa, bool kPartial>
inline bool store_races(RaceRecords& records, GranuleRun run, u32 mask, u32 who0, RaceTimes times) {
  const u32* writers = records.writers() + run.first;
  const u32* readers = records.readers() + run.first;
  u32 bad = 0;
  LS_CHECK_LOOP(i, run.count) {
    const u32 lane = (i + run.offset) >> run.lane_shift;
    const u32 mine = times.now | (who0 + lane);
    const u32 active = kPartial ? (mask >> lane) & 1 : 1;
    bad |= (is_unordered(writers[i], mine, times) | is_unordered(readers[i], mine, times)) & active;
  }
  return bad != 0;
}

// Records a weak store of lanes next to each other.
template <class Isa, bool kPartial>
inline void store_run(RaceRecords& records, GranuleRun run, u32 mask, u32 who0, u16 instruction,
                      RaceTimes times) {
  u32* writers = records.writers() + run.first;
  u32* readers = records.readers() + run.first;
  const u32 now = times.now;
  LS_CHECK_LOOP(i, run.count) {
    const u32 lane = (i + run.offset) >> run.lane_shift;
    const bool active = !kPartial || ((mask >> lane) & 1) != 0;
    writers[i] = active ? now | (who0 + lane) : writers[i];
    readers[i] = active ? 0 : readers[i];
  }
  fill_instructions(records.writer_instructions() + run.first, run, kPartial ? mask : kAllLanes,
                    instruction);
}

// A strong store or atom by `mine` keeps the readers, and says if several threads did so.
constexpr u32 merged_strong_writer(u32 old, u32 mine, RaceTimes times) {
  if ((old & kStrong) == 0 || is_unordered(old, mine, times) == 0) return mine;
  const bool same_warp = is_of_warp(who(old), times.warp_index);
  return times.now | kStrong | (same_warp != 0 ? kLanesOfWarp + times.warp_index : kSeveralWarps);
}

}  // namespace lockstep::device::vgpu::check
