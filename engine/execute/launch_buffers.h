// LaunchBuffers: the inputs of a launch as flat arrays, as a captured graph reads them: the
// executor reads them when the launch *runs*, so a buffer is not filled again while its launch is
// in flight. They are persistent: rows beyond the real ones hold what PadFill says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/schedule/life.h"
#include "engine/schedule/planner.h"
#include "engine/schedule/step.h"
#include "trace/scenario.h"

namespace lockstep::engine {

inline constexpr std::int64_t kNoSlot = -1;  // writes nowhere

// A token of a launch's input: an id, or (below 0) -1 - the future slot that will hold it.
using TokenInput = std::int64_t;
inline TokenInput from_future(std::uint32_t slot) { return -1 - static_cast<std::int64_t>(slot); }

// One sequence of the batch that gives tokens.
struct SamplingInput {
  std::uint32_t sequence = 0;          // index into the real sequences
  std::uint32_t first_row = 0;         // of its last 1 + drafts rows
  std::uint32_t future_slot = 0;       // gets its last token
  std::vector<trace::TokenId> drafts;  // fed in rows first_row + 1, ...
  std::shared_ptr<const Submission> submission;
  std::uint64_t seed = 0;
  std::uint32_t prompt_count = 0;
  bool greedy = false;  // the largest logit, and nothing else asked for: `output` is not filled
  std::vector<TokenInput> output;  // all outputs before the drafts, placeholders included
};

struct LaunchBuffers {
  trace::LaunchIndex launch;
  std::uint32_t token_count = 0, padded_to = 0;  // rows; real ones first
  std::uint32_t sequence_count = 0;              // real ones; a pad row each follows, empty
  // Rows [padded_to].
  std::vector<TokenInput> tokens;
  std::vector<std::int64_t> positions;
  std::vector<std::vector<std::int64_t>> slots;  // [group][row]; mamba: block, in the last row
  // Sequences, real ones and pad ones.
  std::vector<std::uint32_t> query_start;      // [sequences + 1], in rows
  std::vector<std::uint32_t> sequence_length;  // tokens, this launch's included; pad: 0
  std::vector<std::uint64_t> adapter_weights;  // 0: none
  std::vector<trace::RequestId> requests;      // real ones
  std::vector<trace::RowKind> kinds;           // real ones
  std::vector<std::uint32_t> prompt_counts;    // real ones: tokens of the request\'s prompt
  // [group]: block tables one after the other, table_start[group][sequence] to the next.
  std::vector<std::vector<BlockId>> tables;
  std::vector<std::vector<std::uint32_t>> table_start;
  std::vector<SamplingInput> sampling;
};

// Fills `buffers` for a planned step from the tables and lives that it was planned on.
void fill(LaunchBuffers& buffers, const Step& step, const Schedule& schedule, const KvCache& cache,
          const trace::EngineSettings& settings);

}  // namespace lockstep::engine
