#include "oracles/empty_pools.h"

#include <algorithm>

namespace lockstep::oracles {

bool fits_in_empty_pools(const trace::EngineSettings& engine, std::uint64_t first,
                         std::uint64_t end) {
  for (std::uint32_t pool = 0; pool < engine.pools.size(); ++pool) {
    std::uint64_t needed = 0;
    for (const trace::GroupSpec& group : engine.groups) {
      if (group.pool != pool) continue;
      const bool slides = group.type == trace::GroupType::SlidingWindow;
      const std::uint64_t oldest = slides && first >= group.window ? first - group.window + 1 : 0;
      needed += (end - 1) / group.block_size - oldest / group.block_size + 1;
    }
    if (needed > engine.pools[pool].num_blocks) return false;
  }
  return true;
}

bool runs_in_empty_pools(const trace::EngineSettings& engine, std::uint64_t prompt_tokens,
                         std::uint64_t tokens) {
  std::uint64_t step = prompt_tokens;
  if (engine.enable_chunked_prefill) {
    const std::uint32_t chunk = engine.chunked_prefill_size;
    const std::uint32_t budget = engine.max_num_batched_tokens;
    step = chunk == 0 ? budget : std::min(budget, chunk);
  }
  for (std::uint64_t first = 0; first < prompt_tokens; first += step) {
    if (!fits_in_empty_pools(engine, first, std::min(first + step, prompt_tokens))) return false;
  }
  for (std::uint64_t first = 0; first < tokens; ++first) {
    if (!fits_in_empty_pools(engine, first, first + 1)) return false;
  }
  return true;
}

}  // namespace lockstep::oracles
