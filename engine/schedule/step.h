// Step: one launch as planned, and what comes back from it. A launch's row-to-request map travels
// with it: outputs name the life they belong to, never a place in a batch that may have changed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "trace/ids.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::engine {

// Consecutive tokens of one request in a launch.
struct PlannedSequence {
  trace::RequestId request;
  trace::Position first = 0;
  std::uint32_t count = 0;  // tokens fed, drafts included
  trace::RowKind kind = trace::RowKind::Prefill;
  bool samples = false;                // its last 1 + drafts rows give tokens
  std::vector<trace::TokenId> drafts;  // fed after the last known token
  std::uint32_t future_slot = 0;       // samples: where its token is kept on the device
};

struct Step {
  trace::LaunchIndex launch;
  std::vector<PlannedSequence> sequences;
  CacheOps ops;
  std::uint32_t token_count = 0;
  std::uint32_t padded_to = 0;  // token_count, or a capture size

  bool empty() const { return sequences.empty(); }
};

// What one sequence of a launch gave.
struct SequenceOutput {
  trace::RequestId request;
  trace::RowKind kind = trace::RowKind::Prefill;
  std::vector<trace::TokenId> drafts;  // that were verified
  // Tokens that follow: accepted drafts, then the target's own; before any stop or cap.
  std::vector<trace::TokenId> tokens;
  std::uint32_t accepted = 0;                  // drafts
  std::vector<trace::TokenLogprobs> logprobs;  // a token each, if asked for
  std::vector<trace::DrawResult> draws;        // a token each; none if greedy
  std::vector<trace::TokenId> sampled;         // the target's choice at every sampling row
};

struct LaunchOutput {
  trace::LaunchIndex launch;
  std::vector<SequenceOutput> sequences;  // a planned sequence each
  // Why the launch failed while it ran (the device's memory did not hold it), in words; empty: it
  // ran. If it failed nothing that it wrote counts.
  std::string error;
};

// Asked before each call that a fault may fail; `who` are the requests in that call.
using FaultHook = std::function<bool(trace::FailPoint what, std::uint32_t pool,
                                     std::span<const trace::RequestId> who)>;

}  // namespace lockstep::engine
