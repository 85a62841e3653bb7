// Sampler: logits -> token, on the host, the same bits on every machine (own exp and log; no libm).
//
// docs/sampling.md is the definition. Order: script (already in the logits), min_tokens,
// logit_bias, penalties, temperature, min_p, top_k, top_p; ties keep the lowest id; a draw takes
// the first id, ascending, whose cumulative probability exceeds its one uniform. Meaning of each
// as in vLLM.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/candidates.h"
#include "trace/draw.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::engine {

struct SampleInput {
  std::span<const double> logits;  // [vocab_size]; columns from tokenizer_size on are padding
  std::uint32_t tokenizer_size = 0;
  const trace::SamplingParams* params = nullptr;
  std::span<const trace::TokenId> eos;             // masked with the stop ids before min_tokens
  std::span<const trace::TokenId> prompt, output;  // output: all tokens before this one
  std::uint64_t seed = 0;                          // resolved: params->seed, or a distinct one
  std::span<const trace::TokenId> accepted = {};   // drafts that follow `output`; count as output
};

struct SampledDraw {
  trace::TokenId token = 0;
  bool drawn = false;  // false: greedy, or all ids are masked: no draw was made
  trace::DrawResult draw;
  trace::TokenLogprobs logprobs;  // if params->logprobs
};

// Memory that calls may use again; it carries nothing from one call to the next.
class SampleScratch {
 private:
  friend class Sampling;
  std::vector<double> logits_;
  std::vector<std::uint32_t> output_counts_;
  std::vector<bool> seen_;
  Candidates candidates_;
};

// A pure function of `input`. Parameters are within the ranges of docs/sampling.md (admission has
// checked them); ids that the tokenizer does not have are ignored wherever they stand.
SampledDraw sample(const SampleInput& input, SampleScratch& scratch);
SampledDraw sample(const SampleInput& input);

}  // namespace lockstep::engine
