// Exact distributions and seeded draws: logits -> token, written from docs/scenario.md (requests)
// and the meaning of vLLM's parameters. Shares nothing with engine/.
//
// What is done to logits (bias, penalties) is done in double, in the order below. From the
// processed logits l on everything is real arithmetic: id j has the share e^((l_j - max l) / T),
// in fixed point within 0.51 * 2^-104 (fixed.h), so sums depend on no order and a comparison errs
// only where both sides agree to 30 digits.
//
//   1 min_tokens: before so many outputs, EOS and stop ids are masked (with ignore_eos too).
//   2 logit_bias: added.
//   3 penalties: repetition (ids of prompt or output: l > 0 ? l / r : l * r), then
//     l - frequency * count, then l - presence, both by output.
//   4 temperature T. 0 is greedy: the largest l; min_p, top_k, top_p do nothing (as in vLLM).
//   5 min_p: out if the share is below min_p times the largest.
//   6 top_k: the k largest stay, lower ids first among equals; 0: all.
//   7 top_p: of what is left, sorted like this, the shortest beginning with a cumulative
//     probability of at least top_p, and at least one. Here and in min_p the probability counts as
//     the double nearest to it: of ten equals, top_p 0.1 keeps one, although the double nearest to
//     0.1 is above it.
//   8 draw: the first id, ascending, whose cumulative probability exceeds the uniform.
//
// If everything is masked all ids tie, and the lowest is the token, with no draw.
//
// Log-probabilities y, over the logits before 1 (raw) or what is left after 7 (processed; greedy:
// after 3): the exact value within n * 2^-104 (n ids), rounded to the nearest double. A side that
// works in double differs by less than (n + 80 + 4 |y|) * 2^-53: with x = (l - max l) / T off by
// 2^-52 |x|, shares off by 1 ulp more, added one by one, their sum W is off by n + 1 + 28 times
// 2^-53 of itself (the mean of |x| is at most the entropy, below 14); log W < 14 by an ulp, 16 such
// steps; x, at most |y| + 14, by 28 + 2 |y|; each side rounds y once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trace/draw.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::reference {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);
// trace/draw.h defines it: a multiple of 2^-53 in [0, 1).
double uniform(const trace::DrawAddress& address);

// What penalties look at.
class TokenHistory {
 public:
  TokenHistory(std::uint32_t tokenizer_size, std::span<const trace::TokenId> prompt);
  void add_output(trace::TokenId token);
  bool seen(std::size_t id) const { return in_prompt_[id] != 0 || output_counts_[id] > 0; }
  std::uint32_t output_count(std::size_t id) const { return output_counts_[id]; }

 private:
  std::vector<std::uint8_t> in_prompt_;
  std::vector<std::uint32_t> output_counts_;
};

struct ChoiceInput {
  const trace::SamplingParams* params = nullptr;
  std::span<const trace::TokenId> eos;
  const TokenHistory* history = nullptr;  // null: there are no penalties
  std::uint64_t output_count = 0;         // tokens before this one
  trace::DrawAddress address;             // of the draw, if one is made
};

struct Choice {
  trace::TokenId token = 0;
  std::optional<trace::DrawResult> draw;  // null: greedy
  trace::TokenLogprobs logprobs;          // if params->logprobs; masked ids are left out
};

// `logits`: of ids [0, tokenizer_size), after the script; not NaN. They are processed in place. Ids
// outside are ignored wherever they stand.
Choice choose(const ChoiceInput& input, std::vector<double>& logits);

}  // namespace lockstep::reference
