// Recorded operations of vLLM's KVCacheManager (golden/vllm_block_traces/README.md), replayed on
// our KvCache. Under vLLM's own policy every recorded hit length, refusal, block id and free count
// must come out. Under the engine's policy, which differs by choice (docs/block_managers.md), the
// rules of every block manager must hold, and what differs is counted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "harness/commands/vectors_check.h"

namespace lockstep::harness {

base::Status check_block_trace(const nlohmann::json& document, const VectorOptions& options,
                               VectorReport& report);

}  // namespace lockstep::harness
