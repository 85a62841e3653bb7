// What the tests of this folder share: a request's state that owns its parts, and the definition of
// docs/sampling.md written once more, plainly and in long double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sample/sampler.h"

namespace lockstep::engine {

struct SampleCase {
  std::vector<double> logits;  // padding included
  std::uint32_t tokenizer_size = 0;
  trace::SamplingParams params;
  std::vector<trace::TokenId> eos, prompt, output;
  std::uint64_t seed = 0;

  explicit SampleCase(std::vector<double> logits_in)
      : logits(std::move(logits_in)), tokenizer_size(static_cast<std::uint32_t>(logits.size())) {}
  SampleCase() = default;
  SampleInput input() const {
    return {logits, tokenizer_size, &params, eos, prompt, output, seed, {}};
  }
  SampledDraw run() const { return sample(input()); }
  // Ids that a draw can choose from, likeliest first.
  std::vector<trace::TokenId> kept() const;
};

struct ModelAnswer {
  trace::TokenId token = 0;
  std::vector<trace::TokenId> kept;        // likeliest first
  std::vector<long double> probabilities;  // of `kept`
};
// The answer for a draw of `u`.
ModelAnswer model_answer(const SampleCase& sample_case, double u);

bool same_draw(const SampledDraw& a, const SampledDraw& b);

}  // namespace lockstep::engine
