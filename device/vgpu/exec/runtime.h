// What handlers call when the fast path ends: divergence, barriers, faults. Common to all host
// instruction sets; compiled once.
#pragma once

#include <cstdint>

#include "device/vgpu/exec/machine.h"

namespace lockstep::device::vgpu::exec {

// --- Control -------------------------------------------------------------------------------
// All return the next instruction (with the warp's mask set), or nullptr where the warp stops.

// The active lanes in `taken` go to `target`, the others to `next`; both sides may be empty.
const Instr* transfer(Warp& warp, const Instr* from, std::uint32_t taken, const Instr* target,
                      const Instr* next);
// A label reached by a partly active warp: joins what waits here.
const Instr* arrive_at_label(Warp& warp, const Instr* label);
const Instr* exit_lanes(Warp& warp, const Instr* from, std::uint32_t lanes);
// A backward branch used up the time slice: stop, go on at `target` later.
const Instr* yield_at(Warp& warp, const Instr* from, const Instr* target);
// The running split waits; others of the warp go on.
const Instr* block_split(Warp& warp, const Instr* from, Wait wait, std::uint32_t detail,
                         const Instr* resume_at);
// A .sync instruction with members that are not active: joins splits that wait at it. Returns
// true when all live members are active now; else the split has to wait (block_split, Converge).
bool gather_members(Warp& warp, const Instr* here, std::uint32_t members);
// Barrier `barrier` of the block: `threads` 0 means all.
const Instr* arrive_at_barrier(Warp& warp, const Instr* from, std::uint32_t barrier,
                               std::uint32_t threads, bool waits, std::uint32_t reduction,
                               std::uint32_t contribution);

// The next split that can go on, by the smallest pc (or another one, now and then, so that lanes
// that spin cannot starve the others); nullptr with Warp::stop set where there is none.
const Instr* select_split(Warp& warp);

inline std::int64_t executed_before(const Warp& warp, const Instr* here) {
  return warp.executed + here->ordinal;
}

// --- cp.async ------------------------------------------------------------------------------
void queue_copy(Warp& warp, const AsyncCopy& copy);
// The active lanes' copies since their last commit become a group.
void commit_group(Warp& warp);
// Carries out the active lanes' copies but those of their `groups_left` latest groups (all ones:
// also those in no group yet).
void apply_copies(Warp& warp, std::uint64_t groups_left);

// --- Faults --------------------------------------------------------------------------------
enum class FaultKind : std::uint8_t {
  OutOfBounds,
  Misaligned,
  Trap,
  SyncMembers,  // a lane executes a .sync instruction that does not name it
  BadBarrier,   // a barrier number or thread count that the hardware has not
  Deadlock,     // all threads wait for each other
  NoProgress,   // the block used up its budget of instructions
};
enum class Space : std::uint8_t { Global, Shared, Local, Param };

struct Fault {
  FaultKind kind = FaultKind::Trap;
  Space space = Space::Global;
  bool is_write = false;
  std::uint32_t instruction = 0;  // in Program::origins
  std::uint32_t warp = 0, lanes = 0, size_bytes = 0;
  std::uint64_t address = 0;
};

// Records what happened at `here` and stops the warp: returns nullptr. `lanes`: those at fault;
// `address`: of the first of them; `size_bytes` 0: not a memory access.
const Instr* fail(Warp& warp, const Instr* here, FaultKind kind, std::uint32_t lanes, Space space,
                  std::uint64_t address, std::uint32_t size_bytes, bool is_write);

// --- Memory checks -------------------------------------------------------------------------
// Sets Warp::intervals[slot] to the live allocation that holds [address, address + size_bytes);
// false: there is none.
bool find_interval(Warp& warp, std::uint32_t slot, std::uint64_t address, std::uint64_t size_bytes);

}  // namespace lockstep::device::vgpu::exec
