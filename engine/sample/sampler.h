// Sampler: logits -> token, on the host, the same bits on every machine (own exp and log; no libm).
//
// Order: script (already in the logits), min_tokens, logit_bias, penalties, temperature, min_p,
// top_k, top_p; ties keep the lowest id; a draw takes the first id, ascending, whose cumulative
// probability exceeds its one uniform. Meaning of each as in vLLM.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
};

struct SampledDraw {
  trace::TokenId token = 0;
  bool drawn = false;  // false: greedy, no draw was made
  trace::DrawResult draw;
  trace::TokenLogprobs logprobs;  // if params->logprobs
};

SampledDraw sample(const SampleInput& input);

}  // namespace lockstep::engine
