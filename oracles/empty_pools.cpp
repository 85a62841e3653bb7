#include "oracles/empty_pools.h"

#include <algorithm>

#include "oracles/cells.h"

namespace lockstep::oracles {

bool fits_in_empty_pools(const trace::EngineSettings& engine, std::uint32_t first,
                         std::uint32_t end) {
  for (std::uint32_t pool = 0; pool < engine.pools.size(); ++pool) {
    std::uint64_t needed = 0;
    for (const trace::GroupSpec& group : engine.groups) {
      if (group.pool != pool) continue;
      needed += (end - 1) / group.block_size - oldest_read(group, first) / group.block_size + 1;
    }
    if (needed > engine.pools[pool].num_blocks) return false;
  }
  return true;
}

bool runs_in_empty_pools(const trace::EngineSettings& engine, std::uint32_t prompt_tokens,
                         std::uint32_t tokens) {
  std::uint32_t step = prompt_tokens;
  if (engine.enable_chunked_prefill) {
    const std::uint32_t chunk = engine.chunked_prefill_size;
    const std::uint32_t budget = engine.max_num_batched_tokens;
    step = chunk == 0 ? budget : std::min(budget, chunk);
  }
  for (std::uint32_t first = 0; first < prompt_tokens; first += step) {
    if (!fits_in_empty_pools(engine, first, std::min(first + step, prompt_tokens))) return false;
  }
  for (std::uint32_t first = 0; first < tokens; ++first) {
    if (!fits_in_empty_pools(engine, first, first + 1)) return false;
  }
  return true;
}

}  // namespace lockstep::oracles
