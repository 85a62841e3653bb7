#include "device/vgpu/exec/runtime.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "device/vgpu/check/hook.h"
#include "device/vgpu/exec/block.h"

namespace lockstep::device::vgpu::exec {

namespace {

// Divergent branches of one warp before another split than the one with the smallest pc has its
// turn, and how long that lasts.
constexpr std::uint64_t kPatience = 1 << 14;

void add_split(Warp& warp, const Instr* pc, std::uint32_t mask) {
  for (std::uint32_t k = 0; k < warp.split_count; ++k) {
    Split& split = warp.splits[k];
    if (split.pc == pc && split.wait == Wait::None) {
      split.mask |= mask;
      return;
    }
  }
  LS_CHECK(warp.split_count < kLanes);
  warp.splits[warp.split_count++] = {pc, mask, 0, Wait::None};
}

// Splits that wait inside the warp and need not any more; true if there is one.
bool wake_splits(Warp& warp) {
  bool woken = false;
  std::uint32_t at_sync = 0;
  for (std::uint32_t k = 0; k < warp.split_count; ++k) {
    if (warp.splits[k].wait == Wait::WarpSync) at_sync |= warp.splits[k].mask;
  }
  for (std::uint32_t k = 0; k < warp.split_count; ++k) {
    Split& split = warp.splits[k];
    const std::uint32_t here = split.wait == Wait::WarpSync ? at_sync : split.mask;
    const bool waits_inside = split.wait == Wait::WarpSync || split.wait == Wait::Converge;
    if (waits_inside && (split.detail & warp.live & ~here) == 0) {
      if (split.wait == Wait::WarpSync && warp.checks != nullptr) {
        warp.checks->sync_warp(warp.index, split.detail, warp.live);
      }
      split.wait = Wait::None;
      woken = true;
    }
  }
  return woken;
}

// Index of the split to run: the ready one with the smallest pc; in turns of fairness the n-th.
std::uint32_t choose_split(Warp& warp, std::uint32_t ready_count) {
  std::uint32_t rank = 0;
  const std::uint64_t turn = warp.divergent_transfers / kPatience;
  if (turn % 2 == 1) rank = static_cast<std::uint32_t>(turn / 2 % ready_count);
  std::uint32_t order[kLanes], count = 0;
  for (std::uint32_t k = 0; k < warp.split_count; ++k) {
    if (warp.splits[k].wait == Wait::None) order[count++] = k;
  }
  if (rank == 0) {
    return *std::min_element(order, order + count, [&](std::uint32_t a, std::uint32_t b) {
      return warp.splits[a].pc < warp.splits[b].pc;
    });
  }
  std::sort(order, order + count, [&](std::uint32_t a, std::uint32_t b) {
    return warp.splits[a].pc < warp.splits[b].pc;
  });
  return order[rank];
}

}  // namespace

const Instr* select_split(Warp& warp) {
  if (warp.split_count == 1 && warp.splits[0].wait == Wait::None) {
    warp.split_count = 0;
    warp.divergent_transfers = 0;
    set_mask(warp, warp.splits[0].mask);
    warp.executed -= warp.splits[0].pc->ordinal;
    return warp.splits[0].pc;
  }
  std::uint32_t ready = 0;
  for (std::uint32_t k = 0; k < warp.split_count; ++k) {
    ready += warp.splits[k].wait == Wait::None ? 1 : 0;
  }
  if (ready == 0 && warp.split_count != 0 && wake_splits(warp)) return select_split(warp);
  if (ready == 0) {
    warp.mask = 0;
    warp.stop = warp.split_count == 0 ? Stop::Finished : Stop::Waiting;
    return nullptr;
  }
  const std::uint32_t chosen = choose_split(warp, ready);
  const Split split = warp.splits[chosen];
  warp.splits[chosen] = warp.splits[--warp.split_count];
  if (warp.split_count == 0) warp.divergent_transfers = 0;
  // Splits that a barrier released may stand at the same place.
  std::uint32_t mask = split.mask;
  for (std::uint32_t k = 0; k < warp.split_count;) {
    if (warp.splits[k].pc == split.pc && warp.splits[k].wait == Wait::None) {
      mask |= warp.splits[k].mask;
      warp.splits[k] = warp.splits[--warp.split_count];
    } else {
      ++k;
    }
  }
  set_mask(warp, mask);
  warp.executed -= split.pc->ordinal;
  return split.pc;
}

const Instr* transfer(Warp& warp, const Instr* from, std::uint32_t taken, const Instr* target,
                      const Instr* next) {
  warp.executed += from->ordinal + 1;
  ++warp.divergent_transfers;
  const std::uint32_t others = warp.mask & ~taken;
  if (taken != 0) add_split(warp, target, taken);
  if (others != 0) add_split(warp, next, others);
  if (taken != 0 && target <= from && warp.executed >= warp.slice_end) {
    warp.mask = 0;
    warp.stop = Stop::Runnable;
    return nullptr;
  }
  return select_split(warp);
}

const Instr* arrive_at_label(Warp& warp, const Instr* label) {
  warp.executed += label->ordinal;
  add_split(warp, label, warp.mask);
  const Instr* next = select_split(warp);
  return next == label ? label + 1 : next;
}

const Instr* exit_lanes(Warp& warp, const Instr* from, std::uint32_t lanes) {
  warp.executed += from->ordinal + 1;
  warp.live &= ~lanes;
  return select_split(warp);
}

const Instr* yield_at(Warp& warp, const Instr*, const Instr* target) {
  warp.executed += target->ordinal;
  add_split(warp, target, warp.mask);
  warp.mask = 0;
  warp.stop = Stop::Runnable;
  return nullptr;
}

const Instr* block_split(Warp& warp, const Instr* from, Wait wait, std::uint32_t detail,
                         const Instr* resume_at) {
  warp.executed += from->ordinal + (resume_at == from ? 0 : 1);
  LS_CHECK(warp.split_count < kLanes);
  warp.splits[warp.split_count++] = {resume_at, warp.mask, detail, wait};
  return select_split(warp);
}

bool gather_members(Warp& warp, const Instr* here, std::uint32_t members) {
  std::uint32_t mask = warp.mask;
  for (std::uint32_t k = 0; k < warp.split_count;) {
    const Split& split = warp.splits[k];
    if (split.pc == here && (split.wait == Wait::Converge || split.wait == Wait::None)) {
      mask |= split.mask;
      warp.splits[k] = warp.splits[--warp.split_count];
    } else {
      ++k;
    }
  }
  set_mask(warp, mask);
  return (members & warp.live & ~mask) == 0;
}

const Instr* arrive_at_barrier(Warp& warp, const Instr* from, std::uint32_t barrier,
                               std::uint32_t threads, bool waits, std::uint32_t reduction,
                               std::uint32_t contribution) {
  if (barrier >= kBarriers || threads % kLanes != 0) {
    return fail(warp, from, FaultKind::BadBarrier, warp.mask, Space::Global, barrier, 0, false);
  }
  Barrier& state = warp.block->barriers[barrier];
  const auto count = static_cast<std::uint32_t>(std::popcount(warp.mask));
  if (warp.checks != nullptr) {
    warp.checks->arrive_at_barrier({.warp = warp.index,
                                    .instruction = from->index,
                                    .barrier = barrier,
                                    .is_aligned = from->immediate == 0,
                                    .lanes = warp.mask,
                                    .live = warp.live,
                                    .threads = threads,
                                    .arrived_threads = state.arrived,
                                    .expected_threads = state.expected});
  }
  state.arrived += count;
  state.expected = threads;
  state.warps |= 1u << warp.index;
  if (reduction != 0) {
    state.contributed += count;
    state.set_count += static_cast<std::uint32_t>(std::popcount(contribution));
  }
  if (!waits) return from + 1;
  return block_split(warp, from, Wait::Barrier, barrier, from + 1);
}

namespace {

// Tells the checkers who goes on after whom. Warps that have exited count as arrived where the
// barrier is of all threads.
void tell_opening(const Block& block, std::uint32_t index) {
  if (block.warps[0]->checks == nullptr) return;
  const Barrier& barrier = block.barriers[index];
  std::uint32_t waiting = 0, exited = 0;
  for (const Warp* warp : block.warps) {
    if (warp->live == 0) exited |= 1u << warp->index;
    for (std::uint32_t k = 0; k < warp->split_count; ++k) {
      const Split& split = warp->splits[k];
      if (split.wait == Wait::Barrier && split.detail == index) waiting |= 1u << warp->index;
    }
  }
  if (barrier.expected == 0) waiting |= exited;
  block.warps[0]->checks->complete_barrier(waiting, barrier.warps | waiting);
}

// What bar.red gives to the lanes of `split`; 1: popc, 2: and, 3: or.
void write_reduction(Warp& warp, const Split& split, const Barrier& barrier) {
  const Instr& instruction = split.pc[-1];
  if (instruction.f == 0) return;
  if (instruction.f == 1) {
    auto* words = reinterpret_cast<std::uint32_t*>(at(warp, instruction.d));
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if (((split.mask >> lane) & 1) != 0) words[lane] = barrier.set_count;
    }
    return;
  }
  const bool holds =
      instruction.f == 2 ? barrier.set_count == barrier.contributed : barrier.set_count != 0;
  std::uint32_t& bits = predicate(warp, instruction.d);
  bits = holds ? bits | split.mask : bits & ~split.mask;
}

}  // namespace

bool open_barriers(Block& block) {
  std::uint32_t live = 0;
  for (const Warp* warp : block.warps) {
    live += static_cast<std::uint32_t>(std::popcount(warp->live));
  }
  bool opened = false;
  for (std::uint32_t index = 0; index < kBarriers; ++index) {
    Barrier& barrier = block.barriers[index];
    const std::uint32_t expected = barrier.expected == 0 ? live : barrier.expected;
    if (barrier.arrived == 0 || barrier.arrived < expected) continue;
    tell_opening(block, index);
    for (Warp* warp : block.warps) {
      for (std::uint32_t k = 0; k < warp->split_count; ++k) {
        Split& split = warp->splits[k];
        if (split.wait != Wait::Barrier || split.detail != index) continue;
        write_reduction(*warp, split, barrier);
        split.wait = Wait::None;
        warp->stop = Stop::Runnable;
        opened = true;
      }
    }
    barrier = {};
  }
  return opened;
}

void queue_copy(Warp& warp, const AsyncCopy& copy) {
  AsyncCopy queued = copy;
  queued.group = warp.copies->committed[copy.lane];
  if (warp.checks != nullptr) {
    warp.checks->begin_copy(warp.index, copy.lane, copy.destination, copy.size_bytes,
                            copy.instruction);
  }
  warp.copies->copies.push_back(queued);
}
void commit_group(Warp& warp) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    warp.copies->committed[lane] += (warp.mask >> lane) & 1;
  }
}
void apply_copies(Warp& warp, std::uint64_t groups_left) {
  std::vector<AsyncCopy>& copies = warp.copies->copies;
  const auto is_due = [&](const AsyncCopy& copy) {
    if (((warp.mask >> copy.lane) & 1) == 0) return false;
    if (groups_left == ~std::uint64_t{0}) return true;
    const std::uint64_t committed = warp.copies->committed[copy.lane];
    return copy.group + groups_left < committed;
  };
  std::size_t kept = 0;
  for (std::size_t k = 0; k < copies.size(); ++k) {
    const AsyncCopy& copy = copies[k];
    if (!is_due(copy)) {
      copies[kept++] = copy;
      continue;
    }
    std::byte* to = warp.shared + copy.destination;
    if (copy.source_bytes != 0) {
      __builtin_memcpy(to, reinterpret_cast<const void*>(copy.source), copy.source_bytes);
    }
    __builtin_memset(to + copy.source_bytes, 0, copy.size_bytes - copy.source_bytes);
    if (warp.checks != nullptr) {
      warp.checks->finish_copy(warp.index, copy.lane, copy.destination, copy.size_bytes,
                               copy.instruction);
    }
  }
  copies.resize(kept);
}

const Instr* fail(Warp& warp, const Instr* here, FaultKind kind, std::uint32_t lanes, Space space,
                  std::uint64_t address, std::uint32_t size_bytes, bool is_write) {
  warp.executed += here->ordinal;
  Fault fault;
  fault.kind = kind;
  fault.space = space;
  fault.is_write = is_write;
  fault.instruction = here->index;
  fault.warp = warp.index;
  fault.lanes = lanes;
  fault.size_bytes = size_bytes;
  fault.address = address;
  warp.block->fault = fault;
  warp.stop = Stop::Failed;
  return nullptr;
}

bool find_interval(Warp& warp, std::uint32_t slot, std::uint64_t address,
                   std::uint64_t size_bytes) {
  const Interval found = warp.block->memory->find(address, size_bytes);
  if (found.first == found.end) return false;
  warp.intervals[slot] = found;
  return true;
}

}  // namespace lockstep::device::vgpu::exec
