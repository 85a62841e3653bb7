// The ledger's other side: one request alone, cold, without blocks, batch, cache or drafts
// (docs/scenario.md, "The ledger model"). Written from the definition; shares nothing with engine/.
//
// The scenario is one that the parser let pass; ids that the tokenizer doesn't have are ignored
// wherever they stand. A prompt of at least max_model_len tokens is refused before it gets here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::reference {

struct LedgerAnswer {
  std::vector<trace::TokenId> tokens;  // inherited, then computed
  std::string text;           // of the tokens' bytes, UTF-8 with U+FFFD for each invalid part
  std::string finish_reason;  // stop length
  // The id of stop_token_ids that ended it; null after EOS (unless ignored, it is looked at first).
  std::optional<trace::TokenId> stop_token;
  std::vector<trace::TokenLogprobs> logprobs;  // a computed token each, if asked for
  std::vector<trace::DrawResult> draws;        // of computed tokens that were drawn
};

// Request `spec` of `scenario`, continued until it ends by itself. `inherited`: output tokens that
// are given, not computed (a fork's child). `seed`: of its draws (the spec's own, or the engine's
// choice for an unseeded request).
LedgerAnswer answer(const trace::Scenario& scenario, const trace::RequestSpec& spec,
                    const std::vector<trace::TokenId>& inherited, std::uint64_t seed);

// Greedy token of the request alone at each output index below `count` (for `match` drafts), with
// its script and sampling rules but no end.
std::vector<trace::TokenId> greedy_continuation(const trace::Scenario& scenario,
                                                const trace::RequestSpec& spec,
                                                std::uint32_t count);

// The same with `inherited` given (a fork's child): element i is output index i, and those below
// inherited.size() are the inherited tokens.
std::vector<trace::TokenId> greedy_continuation(const trace::Scenario& scenario,
                                                const trace::RequestSpec& spec,
                                                const std::vector<trace::TokenId>& inherited,
                                                std::uint32_t count);

}  // namespace lockstep::reference
