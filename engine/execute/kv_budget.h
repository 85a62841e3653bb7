// KV budget: how many blocks the KV pool gets of a device's memory. Pure arithmetic: what the
// numbers are is the caller's affair.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace lockstep::engine {

struct KvBudget {
  // The device, when everything but the pool is there.
  std::uint64_t total_bytes = 0, free_bytes = 0;
  double utilization = 1;  // of total_bytes: what this engine may use, weights and steps included
  std::uint64_t step_bytes = 0;  // the most that the buffers of one step take
  // The pool: `buffers` allocations (K and V of each layer) of so many bytes a block each, and what
  // an allocation takes beyond its size.
  std::uint64_t buffers = 0, block_bytes = 0, overhead_bytes = 0;
  std::uint32_t blocks_wanted = 0;  // given by the user; 0: from memory
  std::uint32_t blocks_needed = 0;  // from memory: what the requests can use at most
};

// What a pool of so many blocks takes; the largest number there is if that does not fit in 64 bits.
std::uint64_t pool_bytes(const KvBudget& budget, std::uint64_t blocks);

// The pool's blocks, so that pool and steps together fit. With `blocks_wanted` exactly those, of
// all that is free: the utilization is a rule for what nobody asked for. Else the most that the
// utilization leaves, `blocks_needed` at most, at least one. An Error (Environment) says how many
// bytes are wanted and how many there are.
base::Result<std::uint32_t> kv_blocks(const KvBudget& budget);

}  // namespace lockstep::engine
