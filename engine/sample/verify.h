// Chain verification: which drafts of a request the target would have chosen itself.
//
// Greedy, and at a temperature `same_draw`: the target draws at each position's own address as it
// would without drafts, and a draft is kept while it equals that token. So the tokens are the
// same for any drafts; drafts only change how many come at once. (docs/sampling.md)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/sampler.h"

namespace lockstep::engine {

struct VerifyInput {
  SampleInput request;  // state before the first row; `logits` and `accepted` are not read
  // k + 1 rows of logits: row 0 follows `request.output`, row i follows drafts[i - 1].
  std::span<const std::span<const double>> rows;
  std::span<const trace::TokenId> drafts;  // k, may be none
};

struct Verified {
  // Accepted drafts, then one token of the target's own: accepted + 1 draws, before any stop or
  // cap.
  std::vector<SampledDraw> emitted;
  std::uint32_t accepted = 0;
};

Verified verify_chain(const VerifyInput& input, SampleScratch& scratch);
Verified verify_chain(const VerifyInput& input);

}  // namespace lockstep::engine
