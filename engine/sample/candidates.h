// Candidates: the ids that may still be drawn, with their weights, and what is done with them
// (docs/sampling.md): filters, the draw, lists of log-probabilities.
//
// Weights are doubles, but whatever is decided by comparing weights or their sums is decided as if
// these were exact: where double's roundings could turn it, precise.h has the last word.
//
// Candidates are in ascending order of ids between all calls; weights are summed in that order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/ids.h"
#include "trace/run_result.h"

namespace lockstep::engine {

// An id that is not masked (its logit is above -inf).
struct Candidate {
  trace::TokenId id = 0;
  double logit = 0;   // before temperature: what ranks
  double scaled = 0;  // (logit - largest) / temperature, at most 0
  double weight = 0;  // e^scaled: the probability times a constant; the largest is 1
};
struct Candidates {
  std::vector<Candidate> list;
  double largest = 0, temperature = 1;  // of `scaled`
};

// The id of the largest logit, the lowest at a tie; 0 if all are -inf. NaN never wins.
trace::TokenId argmax(std::span<const double> logits);

// Fills `candidates` from logits, less masked ids, NaN and those whose weight is below min_p
// (0..1). temperature > 0.
void weigh(std::span<const double> logits, double temperature, double min_p,
           Candidates& candidates);
// The k likeliest (0: all); the lowest ids of a tie.
void keep_top_k(Candidates& candidates, std::uint32_t k);
// The fewest likeliest, at least one, whose share of the candidates' weight reaches p; the lowest
// ids of a tie. p >= 1: all.
void keep_top_p(Candidates& candidates, double p);
// The first id whose cumulative share exceeds u, in [0, 1). There must be one with weight.
trace::TokenId draw_from(const Candidates& candidates, double u);
// Logarithm of shares: of `token`, then of the `count` likeliest, `token` again if it is one of
// these. Ids that are no candidates, or whose share is 0 to the last exponent, are left out.
// Leaves the candidates in another order.
trace::TokenLogprobs list_logprobs(Candidates& candidates, trace::TokenId token,
                                   std::uint32_t count);

}  // namespace lockstep::engine
