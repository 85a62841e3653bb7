// StepPlan: one step of the engine as data: which tokens of which requests run, and where their
// cells are. An Executor runs it and needs nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/ids.h"

namespace lockstep::engine {

// Consecutive tokens of one request.
struct PlannedRows {
  trace::RequestId request;
  trace::Position first_position = 0;
  std::vector<trace::TokenId> tokens;  // at first_position, first_position + 1, ...
  bool samples = false;                // the last row's logits give a token
  std::vector<trace::PageId> pages;    // block table, the planned tokens included
};

struct StepPlan {
  trace::LaunchIndex launch;
  // Kernels are chosen by phase, never by size, so that a row's bits do not depend on the batch.
  std::vector<PlannedRows> prefill;  // rows of prompts
  std::vector<PlannedRows> decode;   // one token each: the last one emitted

  bool empty() const { return prefill.empty() && decode.empty(); }
};

}  // namespace lockstep::engine
