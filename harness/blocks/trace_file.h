// Recorded operations of a block manager with its answers: golden/vllm_block_traces/README.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/blocks/manager.h"

namespace lockstep::harness {

struct RecordedOperation {
  BlockOperation operation;
  BlockAnswer answer;  // of New and Step: all of it; else `free`
};

struct BlockTrace {
  BlockSetup setup;
  std::vector<RecordedOperation> operations;
};

// Whether the text is such a trace: one JSON object with `ops` and `null_block`.
bool is_block_trace(const nlohmann::json& document);
// Block ids are shifted by one: the recorded null block 0 is kNoBlock here. An Error names the
// operation and the rule. Every id is live from an admitted `new` to its `free`.
base::Result<BlockTrace> read_block_trace(const std::string& path, const nlohmann::json& document);

}  // namespace lockstep::harness
