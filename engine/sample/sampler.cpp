// The sampler, step by step as docs/sampling.md defines it.
#include "engine/sample/sampler.h"

#include <limits>

#include "base/check.h"
#include "engine/sample/philox.h"

namespace lockstep::engine {
namespace {

using trace::TokenId;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

}  // namespace

// One call's view of its input and of the scratch memory.
class Sampling {
 public:
  Sampling(const SampleInput& input, SampleScratch& scratch)
      : input_(input), params_(*input.params), scratch_(scratch) {}

  SampledDraw run() {
    const std::span<const double> raw = input_.logits.first(input_.tokenizer_size);
    const std::span<const double> logits = changes_logits() ? changed(raw) : raw;
    SampledDraw result;
    if (params_.temperature == 0) {
      result.token = argmax(logits);
      if (params_.logprobs && params_.processed_logprobs) weigh(logits, 1, 0, scratch_.candidates_);
    } else {
      draw(logits, result);
    }
    if (params_.logprobs) {
      if (!params_.processed_logprobs) weigh(raw, 1, 0, scratch_.candidates_);
      result.logprobs = list_logprobs(scratch_.candidates_, result.token, *params_.logprobs);
    }
    return result;
  }

 private:
  std::size_t output_size() const { return input_.output.size() + input_.accepted.size(); }
  bool below_min_tokens() const { return output_size() < params_.min_tokens; }

  bool changes_logits() const {
    return below_min_tokens() || !params_.logit_bias.empty() || params_.has_penalties();
  }

  std::span<const double> changed(std::span<const double> raw) {
    std::vector<double>& logits = scratch_.logits_;
    logits.assign(raw.begin(), raw.end());
    if (below_min_tokens()) {
      mask(input_.eos);
      mask(params_.stop_token_ids);
    }
    for (const auto& [id, bias] : params_.logit_bias) {
      if (id < logits.size()) logits[id] += bias;
    }
    if (params_.has_penalties()) penalize();
    return logits;
  }

  void mask(std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
      if (id < scratch_.logits_.size()) scratch_.logits_[id] = kMasked;
    }
  }

  void penalize() {
    std::vector<double>& logits = scratch_.logits_;
    scratch_.output_counts_.assign(logits.size(), 0);
    scratch_.seen_.assign(logits.size(), false);
    for (const TokenId id : input_.prompt) {
      if (id < logits.size()) scratch_.seen_[id] = true;
    }
    for (const std::span<const TokenId> part : {input_.output, input_.accepted}) {
      for (const TokenId id : part) {
        if (id >= logits.size()) continue;
        scratch_.seen_[id] = true;
        ++scratch_.output_counts_[id];
      }
    }
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (!scratch_.seen_[id]) continue;
      double& logit = logits[id];
      logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
      if (scratch_.output_counts_[id] == 0) continue;
      logit -= params_.frequency_penalty * scratch_.output_counts_[id];
      logit -= params_.presence_penalty;
    }
  }

  void draw(std::span<const double> logits, SampledDraw& result) {
    Candidates& candidates = scratch_.candidates_;
    weigh(logits, params_.temperature, params_.min_p, candidates);
    if (candidates.list.empty()) return;  // all masked: token 0 without a draw
    keep_top_k(candidates, params_.top_k);
    keep_top_p(candidates, params_.top_p);
    result.drawn = true;
    result.draw.address = {input_.seed, input_.prompt.size() + output_size(),
                           trace::DrawPurpose::Sample, 0};
    result.draw.u = uniform(result.draw.address);
    result.token = draw_from(candidates, result.draw.u);
  }

  const SampleInput& input_;
  const trace::SamplingParams& params_;
  SampleScratch& scratch_;
};

SampledDraw sample(const SampleInput& input, SampleScratch& scratch) {
  LS_CHECK(input.params != nullptr && input.tokenizer_size > 0 &&
           input.logits.size() >= input.tokenizer_size);
  return Sampling(input, scratch).run();
}

SampledDraw sample(const SampleInput& input) {
  SampleScratch scratch;
  return sample(input, scratch);
}

}  // namespace lockstep::engine
