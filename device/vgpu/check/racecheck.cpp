// Races inside a block; racecheck.h. Those between blocks are in launch_races.cpp.
#include "device/vgpu/check/racecheck.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::device::vgpu::check {

BlockRaces::BlockRaces(LaunchRaces* launch)
    : launch_(launch), table_(launch->page_count() * sizeof(u32)) {}

void BlockRaces::begin_block(u32 block, u32 warp_count, u64 shared_bytes) {
  LS_CHECK(log_.pages.empty());
  allocations_ = launch_->allocations();
  log_.block = block;
  shared_bytes_ = shared_bytes;
  shared_records_.require(shared_bytes, kGranuleBytesMax);
  after(clock_.begin_block(warp_count));
  if (in_flight_bytes_ != 0 || in_flight_.size_bytes() < shared_bytes) {
    in_flight_.reset(shared_bytes);
  }
  in_flight_bytes_ = 0;
}

BlockLog BlockRaces::end_block() {
  u32* table = static_cast<u32*>(table_.data());
  for (const auto& page : log_.pages) table[page->page - launch_->first_page()] = 0;
  last_page_ = ~u64{0};
  BlockLog log = std::move(log_);
  log_ = {};
  return log;
}

void BlockRaces::clear_records() {
  shared_records_.clear();
  for (RaceRecords& records : records_) records.clear();
}

std::string BlockRaces::where(bool is_global, u64 address) const {
  if (!is_global) return "shared memory at offset " + std::to_string(address);
  std::string text = "global memory at " + hexadecimal(address);
  if (allocations_ != nullptr) text += " (" + allocations_->describe(address, 1) + ")";
  return text;
}

namespace {

std::string threads_of(u32 record) {
  const u32 id = who(record);
  if (id == kSeveralWarps) return "several threads";
  if (id >= kLanesOfWarp) return "several threads of warp " + std::to_string(id - kLanesOfWarp);
  return "thread " + std::to_string(id - 1);
}

}  // namespace

void BlockRaces::report(const Place& place, u32 granule, const Access& access, u32 lane, u32 record,
                        u16 instruction, bool other_wrote) {
  log_.findings.add("racecheck", place.is_global ? "global" : "shared", access.instruction,
                    long_instruction(instruction), 1, [&] {
                      const u64 address = place.base + (u64{granule} << place.records->shift());
                      return "thread " + std::to_string(access.warp * kLanes + lane) +
                             " of block " + std::to_string(log_.block) +
                             (is_write(access.kind) ? " writes " : " reads ") +
                             where(place.is_global, address) + ", which " + threads_of(record) +
                             (other_wrote ? " wrote" : " read") + " with no barrier between";
                    });
}

void BlockRaces::report_same_instruction(const Access& access, bool is_global, u64 address) {
  log_.findings.add(
      "racecheck", is_global ? "global" : "shared", access.instruction, access.instruction, 1, [&] {
        return std::to_string(__builtin_popcount(access.mask)) + " threads of warp " +
               std::to_string(access.warp) + " of block " + std::to_string(log_.block) + " write " +
               where(is_global, address) + " in one instruction";
      });
}

// Something in the run may race: asks the clock, and says what does. Before the run is recorded as
// written; a load's readers are recorded already, which does not matter to it.
void BlockRaces::explain(const Place& place, const GranuleRun& granules, const Access& access,
                         u32 who0) {
  const RaceTimes now = times(access.warp);
  RaceRecords& records = *place.records;
  const u32 strong = is_strong(access.kind) ? kStrong : 0;
  for (u32 i = 0; i < granules.count; ++i) {
    const u32 granule = granules.first + i;
    const u32 row_lane = (i + granules.offset) >> granules.lane_shift;
    const u32 mine = now.now | (who0 + row_lane);
    const u32 id = who(mine);
    const bool single = id < kLanesOfWarp;
    const u32 lane = single ? (id - 1) % kLanes : static_cast<u32>(__builtin_ctz(access.mask));
    if (granules.lane_shift != 31 && (access.mask >> lane & 1) == 0) continue;
    const auto races = [&](u32 record) {
      if (is_unordered(record, mine, now) == 0 || (record & strong & kStrong) != 0) return false;
      const u32 other = who(record);
      if (other == kSeveralWarps) return true;
      const bool other_single = other < kLanesOfWarp;
      const u32 other_warp = other_single ? (other - 1) / kLanes : other - kLanesOfWarp;
      return !clock_.is_ordered(other_warp, other_single ? (other - 1) % kLanes : kLanes,
                                time_of(record), access.warp, single ? lane : kLanes);
    };
    if (races(records.writers()[granule])) {
      report(place, granule, access, lane, records.writers()[granule],
             records.writer_instructions()[granule], true);
    } else if (is_write(access.kind) && races(records.readers()[granule])) {
      report(place, granule, access, lane, records.readers()[granule],
             records.reader_instructions()[granule], false);
    }
  }
}

void BlockRaces::run_strong(const Place& place, const GranuleRun& granules, const Access& access,
                            u32 who0) {
  const RaceTimes now = times(access.warp);
  RaceRecords& records = *place.records;
  explain(place, granules, access, who0);
  for (u32 i = 0; i < granules.count; ++i) {
    const u32 lane = (i + granules.offset) >> granules.lane_shift;
    if (granules.lane_shift != 31 && (access.mask >> lane & 1) == 0) continue;
    u32& writer = records.writers()[granules.first + i];
    writer = merged_strong_writer(writer, now.now | kStrong | (who0 + lane), now);
    records.writer_instructions()[granules.first + i] = short_instruction(access.instruction);
  }
}

void BlockRaces::shared_row(const Access& access, u64 offset) {
  const Place place{&shared_records_, false, 0};
  const u32 shift = shared_records_.shift();
  if (access.kind == AccessKind::Load) {
    const RaceTimes now = times(access.warp);
    const u32* writers = shared_records_.writers() + (offset >> shift);
    const u32* readers = shared_records_.readers() + (offset >> shift);
    u32 known = 1;
    for (u32 i = 0; i < 16u >> shift; ++i) {
      known &= is_known_load(writers[i], readers[i], kLanesOfWarp + access.warp, now);
    }
    if (known != 0) return;
  }
  run<Portable>(place, {static_cast<u32>(offset >> shift), 16u >> shift, 0, 31}, access,
                kLanesOfWarp + access.warp);
}

void BlockRaces::begin_copy(u32 warp, u32 lane, u64 offset, u32 size_bytes, u32 instruction) {
  const u64 address = offset;
  const Access access{.kind = AccessKind::Store,
                      .pattern = Pattern::Uniform,
                      .size = size_bytes,
                      .mask = 1u << lane,
                      .warp = warp,
                      .instruction = instruction,
                      .start = address};
  if (!touches_copy(access)) shared<Portable>(access);
  if (!any_set(in_flight_.bits(), offset, size_bytes)) in_flight_bytes_ += size_bytes;
  set_bits(in_flight_.bits(), offset, size_bytes);
}

void BlockRaces::finish_copy(u32 warp, u32 lane, u64 offset, u32 size_bytes, u32 instruction) {
  if (any_set(in_flight_.bits(), offset, size_bytes)) {
    in_flight_bytes_ -= std::min<u64>(in_flight_bytes_, size_bytes);
  }
  clear_bits(in_flight_.bits(), offset, size_bytes);
  // The write is done now, by the thread that waited.
  shared_records_.require(0, granule_for(size_bytes));
  const RaceTimes now = times(warp);
  const u32 shift = shared_records_.shift();
  const GranuleRun granules{static_cast<u32>(offset >> shift), size_bytes >> shift, 0, 31};
  store_run<Portable, false>(shared_records_, granules, kAllLanes, who_of(warp, lane),
                             short_instruction(instruction), now);
}

bool BlockRaces::touches_copy(const Access& access) {
  if (in_flight_bytes_ == 0) return false;
  if (access.pattern == Pattern::Contiguous && access.is_full() &&
      !any_set(in_flight_.bits(), access.start, u64{kLanes} * access.size)) {
    return false;
  }
  for (u32 rest = access.mask; rest != 0; rest &= rest - 1) {
    const u32 lane = static_cast<u32>(__builtin_ctz(rest));
    const u64 address = access.address(lane);
    if (!any_set(in_flight_.bits(), address, access.size)) continue;
    const u32 granule = static_cast<u32>(address >> shared_records_.shift());
    const u16 copier = shared_records_.writer_instructions()[granule];
    log_.findings.add(
        "racecheck", "async_copy", access.instruction, long_instruction(copier), 1, [&] {
          return "thread " + std::to_string(access.warp * kLanes + lane) + " of block " +
                 std::to_string(log_.block) + (is_write(access.kind) ? " writes " : " reads ") +
                 where(false, address) + ", where a cp.async goes that was not waited for";
        });
    return true;
  }
  return false;
}

}  // namespace lockstep::device::vgpu::check
