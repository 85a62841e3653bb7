// Races: two accesses to one byte, at least one a write, by threads that nothing orders.
//
// Inside a block (shared and global memory) by records of the last threads (race_records.h) and a
// clock that moves at barriers (clock.h). Between blocks of one launch by sets: each block's bytes
// read and written are intersected with those of the blocks before it, in the order of the
// schedule, so that what is said does not depend on the number of host threads.
//
// Limits: blocks that both execute a fence of gpu or system scope are taken to be ordered by it (a
// flag, a ticket), whatever they do. Orders through atomics on shared memory are not followed. A
// write to bytes that the same block read by ld.global.nc is not seen.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/vgpu/check/access.h"
#include "device/vgpu/check/bits.h"
#include "device/vgpu/check/clock.h"
#include "device/vgpu/check/findings.h"
#include "device/vgpu/check/initcheck.h"
#include "device/vgpu/check/memcheck.h"
#include "device/vgpu/check/race_records.h"

namespace lockstep::device::vgpu::check {

inline constexpr u32 kPageShift = 12;
inline constexpr u32 kPageBytes = 1u << kPageShift;
inline constexpr u32 kPageWords = kPageBytes / 64;
inline constexpr u32 kLineShift = 6;  // instructions are kept for lines of 64 bytes
inline constexpr u32 kPageLines = kPageBytes >> kLineShift;
inline constexpr u16 kUnknownInstruction = 0xffff;

inline u16 short_instruction(u32 instruction) {
  return instruction < kUnknownInstruction ? static_cast<u16>(instruction) : kUnknownInstruction;
}
inline u32 long_instruction(u16 instruction) {
  return instruction == kUnknownInstruction ? kNoInstruction : instruction;
}

// Bytes of one page, one bit each.
struct PageSets {
  std::array<u64, kPageWords> read = {}, written = {};
  bool any_read = false, any_written = false;
  void clear() {
    if (any_read) read = {};
    if (any_written) written = {};
    any_read = any_written = false;
  }
};
struct PageLines {
  std::array<u16, kPageLines> read = {}, written = {};  // instructions
};

// What one block did to one page.
struct BlockPage {
  u64 page = 0;  // address >> kPageShift
  PageSets weak = {};
  std::unique_ptr<PageSets> strong = {};
  PageLines lines = {};
};

struct BlockLog {
  u32 block = 0;        // linear index in the grid
  bool fenced = false;  // executed a fence beyond its block
  std::vector<std::unique_ptr<BlockPage>> pages = {};
  Findings findings = {};
};

// All blocks of one launch. Host threads hand in their logs; these are merged in the order of the
// schedule.
class LaunchRaces {
 public:
  LaunchRaces(u64 first_address, u64 size_bytes);
  void begin_launch(const AllocationTable* allocations);
  // `order`: 0, 1, ... in the schedule; each exactly once. After a block that failed, what later
  // ones did (as far as host threads ran them) is left out.
  void finish_block(u64 order, BlockLog log, bool failed = false);
  std::unique_ptr<BlockPage> new_page();
  // After the last block, or the last before one that failed.
  Findings take_findings();
  const AllocationTable* allocations() const { return allocations_; }
  u64 first_page() const { return first_page_; }
  u64 page_count() const { return page_count_; }

 private:
  struct LaunchPage {
    PageSets weak = {};  // of blocks without a fence
    std::unique_ptr<PageSets> fenced_weak = {}, strong = {}, fenced_strong = {};
    PageLines lines = {};
    std::array<u32, kPageLines> read_block = {}, written_block = {};
  };
  void merge(BlockLog& log);
  void merge_page(const BlockLog& log, BlockPage& page, LaunchPage& known);
  void compare(const BlockLog& log, const BlockPage& page, const LaunchPage& known, bool fenced);
  void report(const BlockLog& log, const BlockPage& page, const LaunchPage& known, u32 word,
              u64 bytes, bool writes, bool other_wrote);

  u64 first_page_, page_count_;
  LazyMemory table_;  // u32 of each page: index in pages_ + 1
  std::vector<std::unique_ptr<LaunchPage>> pages_ = {};
  std::vector<u64> used_ = {};  // pages with an entry in table_
  const AllocationTable* allocations_ = nullptr;
  Findings findings_ = {};
  std::mutex mutex_ = {};
  u64 next_order_ = 0;
  std::map<u64, BlockLog> waiting_ = {};
  u64 last_order_ = ~u64{0};  // of a block that failed
  std::vector<std::unique_ptr<BlockPage>> spare_ = {};
};

// The block that a host thread runs; used for one block after another.
class BlockRaces {
 public:
  explicit BlockRaces(LaunchRaces* launch);
  void begin_block(u32 block, u32 warp_count, u64 shared_bytes);
  BlockLog end_block();
  Findings& findings() { return log_.findings; }

  template <class Isa>
  void shared(const Access& access);
  template <class Isa>
  void global(const Access& access);
  // ldmatrix, stmatrix: rows of 16 bytes at shared offsets, by all lanes together.
  void shared_row(const Access& access, u64 offset);

  void arrive_at_barrier(u32 warp) { after(clock_.arrive(warp)); }
  void complete_barrier(u32 waiting, u32 arrived) { after(clock_.complete(waiting, arrived)); }
  void sync_warp(u32 warp, u32 members, u32 live) { after(clock_.sync_warp(warp, members, live)); }
  void fence() { log_.fenced = true; }

  // cp.async: from issue to wait nobody may touch the destination.
  void begin_copy(u32 warp, u32 lane, u64 offset, u32 size_bytes, u32 instruction);
  void finish_copy(u32 warp, u32 lane, u64 offset, u32 size_bytes, u32 instruction);
  // True (and said) where the access touches a destination of a copy that is not waited for.
  bool touches_copy(const Access& access);

 private:
  struct Place {  // where records lie, for messages
    RaceRecords* records = nullptr;
    bool is_global = false;
    u64 base = 0;  // address of granule 0
  };
  RaceTimes times(u32 warp) const {
    return {clock_.block_time() << kTimeShift, clock_.warp_time(warp) << kTimeShift,
            clock_.now(warp) << kTimeShift, warp};
  }
  void after(bool times_began_again) {
    if (times_began_again) clear_records();
  }
  void clear_records();
  template <class Isa>
  bool run_quickly(RaceRecords& records, GranuleRun run, const Access& access, u32 who0);
  template <class Isa>
  [[gnu::noinline]] void run_slowly(const Place& place, const GranuleRun& granules,
                                    const Access& access, u32 who0);
  template <class Isa>
  void run(const Place& place, const GranuleRun& granules, const Access& access, u32 who0);
  void run_strong(const Place& place, const GranuleRun& granules, const Access& access, u32 who0);
  template <class Isa>
  void lanes_in_row(const Place& place, const Access& access, u32 first_lane, u32 lane_count);
  template <class Isa>
  void page_part(const Access& access, u64 address, u32 first_lane, u32 lane_count);
  void explain(const Place& place, const GranuleRun& granules, const Access& access, u32 who0);
  void report(const Place& place, u32 granule, const Access& access, u32 lane, u32 record,
              u16 instruction, bool other_wrote);
  void report_same_instruction(const Access& access, bool is_global, u64 address);
  std::string where(bool is_global, u64 address) const;
  u32 slot_of(u64 page);
  void mark(BlockPage& page, const Access& access, u64 offset, u64 bytes);
  void mark_scattered(const Access& access);
  static u64* set_of(BlockPage& page, AccessKind kind);

  LaunchRaces* launch_;
  const AllocationTable* allocations_ = nullptr;
  BlockClock clock_ = {};
  BlockLog log_ = {};
  RaceRecords shared_records_ = {};
  LazyMemory table_;                       // u32 of each page: slot + 1
  std::vector<RaceRecords> records_ = {};  // of each slot, kept from block to block
  u64 last_page_ = ~u64{0};
  u32 last_slot_ = 0;
  BlockInit in_flight_ = {};
  u64 in_flight_bytes_ = 0, shared_bytes_ = 0;
};

// --- Inline parts ---------------------------------------------------------------------------

constexpr u32 who_of(u32 warp, u32 lane) { return 1 + warp * kLanes + lane; }

// Weak accesses in the shapes that kernels mostly have, where nobody else is about; else false.
template <class Isa>
inline bool BlockRaces::run_quickly(RaceRecords& records, GranuleRun run, const Access& access,
                                    u32 who0) {
  const RaceTimes now = times(access.warp);
  const bool writes = access.kind == AccessKind::Store;
  const u16 instruction = short_instruction(access.instruction);
  if (run.lane_shift == 31) {
    return access_one_quickly(records, run.first, run.count, writes, who0, instruction, now);
  }
  if (!access.is_full()) return false;
  if (run.count == 32 && run.lane_shift == 0) {
    return access_quickly<Isa, 32, 0>(records, run, writes, who0, instruction, now);
  }
  if (run.count == 64 && run.lane_shift == 1) {
    return access_quickly<Isa, 64, 1>(records, run, writes, who0, instruction, now);
  }
  if (run.count == 128 && run.lane_shift == 2) {
    return access_quickly<Isa, 128, 2>(records, run, writes, who0, instruction, now);
  }
  return false;
}

template <class Isa>
inline void BlockRaces::run(const Place& place, const GranuleRun& granules, const Access& access,
                            u32 who0) {
  const bool is_plain = access.kind == AccessKind::Load || access.kind == AccessKind::Store;
  if (is_plain && run_quickly<Isa>(*place.records, granules, access, who0)) return;
  run_slowly<Isa>(place, granules, access, who0);
}

template <class Isa>
void BlockRaces::run_slowly(const Place& place, const GranuleRun& granules, const Access& access,
                            u32 who0) {
  const RaceTimes now = times(access.warp);
  const u16 instruction = short_instruction(access.instruction);
  const u32 mask = access.mask;
  const bool full = access.is_full() || granules.lane_shift == 31;
  switch (access.kind) {
    case AccessKind::ReadOnlyLoad:
      return;
    case AccessKind::Load:
    case AccessKind::StrongLoad: {
      const u32 flags = is_strong(access.kind) ? kStrong : 0;
      const bool bad =
          full ? load_run<Isa, false>(*place.records, granules, mask, who0, flags, instruction, now)
               : load_run<Isa, true>(*place.records, granules, mask, who0, flags, instruction, now);
      if (__builtin_expect(bad, 0)) explain(place, granules, access, who0);
      return;
    }
    case AccessKind::Store: {
      const bool bad = full ? store_races<Isa, false>(*place.records, granules, mask, who0, now)
                            : store_races<Isa, true>(*place.records, granules, mask, who0, now);
      if (__builtin_expect(bad, 0)) explain(place, granules, access, who0);
      if (full) {
        store_run<Isa, false>(*place.records, granules, mask, who0, instruction, now);
      } else {
        store_run<Isa, true>(*place.records, granules, mask, who0, instruction, now);
      }
      return;
    }
    case AccessKind::StrongStore:
    case AccessKind::Atomic:
      run_strong(place, granules, access, who0);
      return;
  }
}

// Lanes [first_lane, first_lane + lane_count) next to each other, from access.address(first_lane).
template <class Isa>
inline void BlockRaces::lanes_in_row(const Place& place, const Access& access, u32 first_lane,
                                     u32 lane_count) {
  const u32 shift = place.records->shift();
  const u32 size_shift = static_cast<u32>(__builtin_ctz(access.size));
  const u32 lane_shift = size_shift - shift;
  const u64 start = access.address(first_lane) - place.base;
  run<Isa>(place,
           {static_cast<u32>(start >> shift), lane_count << lane_shift, first_lane << lane_shift,
            lane_shift},
           access, who_of(access.warp, 0));
}

template <class Isa>
inline void BlockRaces::shared(const Access& access) {
  shared_records_.require(0, granule_for(access.size));
  const Place place{&shared_records_, false, 0};
  const u32 first = static_cast<u32>(__builtin_ctz(access.mask));
  if (access.pattern == Pattern::Contiguous) {
    lanes_in_row<Isa>(place, access, first,
                      32 - static_cast<u32>(__builtin_clz(access.mask)) - first);
    return;
  }
  const u32 shift = shared_records_.shift();
  const u32 count = access.size >> shift;
  if (access.pattern == Pattern::Uniform) {
    const bool several = (access.mask & (access.mask - 1)) != 0;
    if (several && access.kind == AccessKind::Store) {
      report_same_instruction(access, false, access.start);
    }
    run<Isa>(place, {static_cast<u32>(access.start >> shift), count, 0, 31}, access,
             several ? kLanesOfWarp + access.warp : who_of(access.warp, first));
    return;
  }
  alignas(64) u32 granules[kLanes];
  const u64 bias = access.lane_bias;
  LS_CHECK_LOOP(lane, kLanes) {
    granules[lane] = static_cast<u32>((access.lanes[lane] - bias) >> shift);
  }
  if (access.kind == AccessKind::Load && count <= 4) {
    // Inactive lanes must not lead the gather astray.
    for (u32 rest = ~access.mask; rest != 0; rest &= rest - 1) granules[__builtin_ctz(rest)] = 0;
    if (scattered_loads_known<Isa>(shared_records_, granules, count, access.mask,
                                   who_of(access.warp, 0), times(access.warp))) {
      return;
    }
  }
  for (u32 rest = access.mask; rest != 0; rest &= rest - 1) {
    const u32 lane = static_cast<u32>(__builtin_ctz(rest));
    run<Isa>(place, {granules[lane], count, 0, 31}, access, who_of(access.warp, lane));
  }
}

// A part of the access that lies in one page: lanes next to each other, or all lanes of a uniform
// access.
template <class Isa>
inline void BlockRaces::page_part(const Access& access, u64 address, u32 first_lane,
                                  u32 lane_count) {
  const u32 slot = slot_of(address >> kPageShift);
  BlockPage& page = *log_.pages[slot];
  const u64 offset = address & (kPageBytes - 1);
  const bool in_row = access.pattern == Pattern::Contiguous;
  if (in_row && !access.is_full()) {
    for (u32 lane = first_lane; lane < first_lane + lane_count; ++lane) {
      if ((access.mask >> lane & 1) != 0) {
        mark(page, access, offset + u64{lane - first_lane} * access.size, access.size);
      }
    }
  } else {
    mark(page, access, offset, in_row ? u64{lane_count} * access.size : access.size);
  }
  if (access.kind == AccessKind::ReadOnlyLoad) return;
  RaceRecords& records = records_[slot];
  records.require(kPageBytes, granule_for(access.size));
  const Place place{&records, true, address - offset};
  if (in_row) {
    lanes_in_row<Isa>(place, access, first_lane, lane_count);
    return;
  }
  const bool several = access.pattern == Pattern::Uniform && (access.mask & (access.mask - 1)) != 0;
  const u32 shift = records.shift();
  run<Isa>(place, {static_cast<u32>(offset >> shift), access.size >> shift, 0, 31}, access,
           several ? kLanesOfWarp + access.warp : who_of(access.warp, first_lane));
}

template <class Isa>
inline void BlockRaces::global(const Access& access) {
  const u32 first = static_cast<u32>(__builtin_ctz(access.mask));
  if (access.pattern == Pattern::Uniform) {
    if ((access.mask & (access.mask - 1)) != 0 && access.kind == AccessKind::Store) {
      report_same_instruction(access, true, access.start);
    }
    page_part<Isa>(access, access.start, first, 0);
  } else if (access.pattern == Pattern::Contiguous) {
    // Naturally aligned lanes don't straddle pages.
    const u32 end = 32 - static_cast<u32>(__builtin_clz(access.mask));
    for (u32 lane = first; lane < end;) {
      const u64 address = access.address(lane);
      const u32 room = static_cast<u32>((kPageBytes - (address & (kPageBytes - 1))) / access.size);
      const u32 count = end - lane < room ? end - lane : room;
      page_part<Isa>(access, address, lane, count);
      lane += count;
    }
  } else {
    mark_scattered(access);
    if (access.kind == AccessKind::ReadOnlyLoad) return;
    for (u32 rest = access.mask; rest != 0; rest &= rest - 1) {
      const u32 lane = static_cast<u32>(__builtin_ctz(rest));
      const u64 address = access.lanes[lane] - access.lane_bias;
      RaceRecords& records = records_[slot_of(address >> kPageShift)];
      records.require(kPageBytes, granule_for(access.size));
      const u64 offset = address & (kPageBytes - 1);
      const u32 shift = records.shift();
      run<Isa>({&records, true, address - offset},
               {static_cast<u32>(offset >> shift), access.size >> shift, 0, 31}, access,
               who_of(access.warp, lane));
    }
  }
}

inline u32 BlockRaces::slot_of(u64 page) {
  if (page == last_page_) return last_slot_;
  u32& entry = static_cast<u32*>(table_.data())[page - launch_->first_page()];
  if (entry == 0) {
    log_.pages.push_back(launch_->new_page());
    log_.pages.back()->page = page;
    if (records_.size() < log_.pages.size()) records_.emplace_back();
    entry = static_cast<u32>(log_.pages.size());
  }
  last_page_ = page;
  last_slot_ = entry - 1;
  return last_slot_;
}

inline u64* BlockRaces::set_of(BlockPage& page, AccessKind kind) {
  PageSets* sets = &page.weak;
  if (is_strong(kind)) {
    if (page.strong == nullptr) page.strong = std::make_unique<PageSets>();
    sets = page.strong.get();
  }
  if (is_write(kind)) {
    sets->any_written = true;
    return sets->written.data();
  }
  sets->any_read = true;
  return sets->read.data();
}

inline void BlockRaces::mark(BlockPage& page, const Access& access, u64 offset, u64 bytes) {
  static_assert(kLineShift == 6);  // a word of bits is a line
  u64* set = set_of(page, access.kind);
  u16* lines = (is_write(access.kind) ? page.lines.written : page.lines.read).data();
  const u16 instruction = short_instruction(access.instruction);
  for_each_word(offset, bytes, [&](u64 word, u64 mask) {
    set[word] |= mask;
    lines[word] = instruction;
  });
}

// Scattered lanes: bits of one word are gathered before they are set.
inline void BlockRaces::mark_scattered(const Access& access) {
  static_assert(kLineShift == 6);
  const u64 bits = low_bits(access.size);
  const u16 instruction = short_instruction(access.instruction);
  u64 page = ~u64{0}, line = ~u64{0}, gathered = 0;
  u64* set = nullptr;
  u16* lines = nullptr;
  for (u32 rest = access.mask; rest != 0; rest &= rest - 1) {
    const u64 address = access.lanes[__builtin_ctz(rest)] - access.lane_bias;
    if (address >> kLineShift != line) {
      if (gathered != 0) set[line & (kPageWords - 1)] |= gathered;
      gathered = 0;
      line = address >> kLineShift;
      if (address >> kPageShift != page) {
        page = address >> kPageShift;
        BlockPage& touched = *log_.pages[slot_of(page)];
        set = set_of(touched, access.kind);
        lines = (is_write(access.kind) ? touched.lines.written : touched.lines.read).data();
      }
      lines[line & (kPageWords - 1)] = instruction;
    }
    gathered |= bits << (address & 63);
  }
  if (gathered != 0) set[line & (kPageWords - 1)] |= gathered;
}

}  // namespace lockstep::device::vgpu::check
