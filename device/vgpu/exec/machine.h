// State of the interpreter: decoded instructions, warps, blocks. All of it is data: the order of
// warps and blocks can be permuted and replayed.
//
// A Warp is a header followed by its register file. A 32-bit register is 128 bytes (32 lanes, lane
// 0 first), a 64-bit one 256, a 16-bit one 64; a predicate is 4 bytes, one bit a lane. Operands are
// byte offsets from the Warp, so that a shadow of every register could lie at a fixed multiple of
// its offset in a second file. Constants and special registers are registers that no instruction
// writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::device::vgpu::check {
class BlockChecks;
}

namespace lockstep::device::vgpu::exec {

inline constexpr std::uint32_t kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffff;

// Generic addresses: windows of the other spaces lie above all of global memory.
inline constexpr std::uint64_t kGlobalBase = std::uint64_t{1} << 36;
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 44;
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{2} << 44;
inline constexpr std::uint64_t kParamWindow = std::uint64_t{3} << 44;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 32;
// Loads of a partly active warp read whole vectors: this much host memory around each space is
// readable.
inline constexpr std::uint64_t kPaddingBytes = 4096;

// Instr::f of a memory instruction: where its addresses lead.
enum class AccessSpace : std::uint32_t { Global, Shared, Local, Generic };
inline constexpr std::uint32_t kAccessChecked = 4;  // added to it
// check::AccessKind of what the checkers are told, above these bits; kAccessUntold: nothing.
inline constexpr std::uint32_t kAccessMask = 7;
inline constexpr std::uint32_t kAccessKindShift = 3;
inline constexpr std::uint32_t kAccessUntold = 7;

struct Instr;
struct Warp;
struct Block;

// Executes `instruction` for the active lanes and returns the next one; nullptr: the warp stops
// (Warp::stop says why).
using Handler = const Instr* (*)(Warp&, const Instr* instruction);

struct alignas(64) Instr {
  Handler run[2] = {nullptr, nullptr};  // [0]: all 32 lanes are active; [1]: some may not be
  std::uint32_t d = 0, a = 0, b = 0, c = 0;
  std::uint32_t e = 0, f = 0;  // second destination, size, flags: as the handler says
  union {
    std::uint64_t immediate = 0;  // address offset, ...
    const std::uint32_t* list;    // further operands
    const void* object;           // the arithmetic of an mma
  };
  union {
    const Instr* target = nullptr;   // of a branch
    const std::uint32_t* registers;  // of a vector access
  };
  std::uint32_t index = 0;    // in Program::origins
  std::uint32_t ordinal = 0;  // PTX instructions before this one (for the counters)
};
static_assert(sizeof(Instr) == 64);

enum class Wait : std::uint8_t {
  None,
  Barrier,   // bar.sync, bar.red: until enough threads of the block have arrived
  WarpSync,  // bar.warp.sync: until its members have arrived at one
  Converge,  // a .sync instruction whose members are not all here yet
};

// Lanes of one warp that are at one place.
struct Split {
  const Instr* pc = nullptr;
  std::uint32_t mask = 0;
  std::uint32_t detail = 0;  // Barrier: which; WarpSync, Converge: the members
  Wait wait = Wait::None;
};

// Runnable: some split can go on; Waiting: none can before a barrier opens.
enum class Stop : std::uint8_t { Runnable, Waiting, Finished, Failed };

// Device addresses [first, end).
struct Interval {
  std::uint64_t first = 0, end = 0;
};

// A copy that cp.async has queued; applied when it is waited for.
struct AsyncCopy {
  std::uint64_t source = 0;                        // host address
  std::uint32_t destination = 0;                   // offset in shared memory
  std::uint16_t size_bytes = 0, source_bytes = 0;  // the rest is zero
  std::uint32_t lane = 0, instruction = 0, group = 0;
};

struct AsyncQueue {
  std::vector<AsyncCopy> copies = {};                // in the order of issue
  std::array<std::uint32_t, kLanes> committed = {};  // of each lane: groups committed
};

struct alignas(64) Warp {
  std::uint32_t lane_mask[kLanes];  // all ones where the lane is active; kept when mode is 1
  std::uint32_t mask = 0;           // active lanes
  std::uint32_t mode = 0;           // index into Instr::run
  std::uint32_t live = 0;           // lanes that have not exited
  std::uint32_t split_count = 0;    // splits besides the running one; of a stopped warp: all
  std::uint32_t guard_saved = 0;    // active lanes around a guarded instruction
  std::uint32_t carry = 0;          // CC.CF, one bit a lane
  std::uint32_t index = 0;          // in the block
  Stop stop = Stop::Runnable;
  bool atomics_shared = false;  // other host threads may touch global memory at the same time
  std::int64_t executed = 0;    // PTX instructions: this plus the ordinal where we are
  std::int64_t slice_end = 0;   // yield at the next backward branch beyond
  std::uint64_t divergent_transfers = 0;
  // Memory: host address = bias + device address.
  std::uint64_t global_bias = 0, global_size = 0;
  std::byte* shared = nullptr;
  std::uint64_t shared_size = 0;
  std::byte* local = nullptr;  // of lane 0
  std::uint64_t local_size = 0, local_stride = 0;
  const std::byte* param = nullptr;
  std::uint64_t param_size = 0;
  Block* block = nullptr;
  check::BlockChecks* checks = nullptr;  // what listens to this block, or nothing
  Interval* intervals = nullptr;  // of each global access (Instr::e): the allocation used last
  std::uint64_t checked_lanes = 0;
  Split splits[kLanes];
  AsyncQueue* copies = nullptr;
};

inline std::byte* at(Warp& warp, std::uint32_t offset) {
  return reinterpret_cast<std::byte*>(&warp) + offset;
}
inline std::uint32_t& predicate(Warp& warp, std::uint32_t offset) {
  return *reinterpret_cast<std::uint32_t*>(reinterpret_cast<std::byte*>(&warp) + offset);
}

inline void set_mask(Warp& warp, std::uint32_t mask) {
  warp.mask = mask;
  warp.mode = mask == kAllLanes ? 0 : 1;
  if (warp.mode == 1) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      warp.lane_mask[lane] = 0 - ((mask >> lane) & 1);
    }
  }
}

}  // namespace lockstep::device::vgpu::exec
