// The sampler, step by step as docs/sampling.md defines it.
#include "engine/sample/sampler.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/sample/math.h"
#include "engine/sample/philox.h"

namespace lockstep::engine {
namespace {

using trace::TokenId;
using Candidate = SampleScratch::Candidate;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// The largest logit's id, the lowest at a tie; 0 if all are masked. NaN never wins.
TokenId argmax(std::span<const double> logits) {
  double best = kMasked;
  std::size_t token = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] > best) {
      best = logits[id];
      token = id;
    }
  }
  return static_cast<TokenId>(token);
}

bool by_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }
// Likeliest first. By logit, which no rounding of the temperature or of exp has made equal.
bool by_rank(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Weights in ascending order of ids, whatever the filters did before.
double total_weight(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

void keep_top_k(std::vector<Candidate>& candidates, std::uint32_t k) {
  if (k == 0 || k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), by_rank);
  candidates.resize(k);
  std::sort(candidates.begin(), candidates.end(), by_id);
}

// The fewest likeliest ids whose share of what is left reaches p.
void keep_top_p(std::vector<Candidate>& candidates, double p) {
  if (p >= 1 || candidates.size() < 2) return;
  const double enough = p * total_weight(candidates);
  std::sort(candidates.begin(), candidates.end(), by_rank);
  std::size_t kept = 0;
  double cumulative = 0;
  do {
    cumulative += candidates[kept++].weight;
  } while (cumulative < enough && kept < candidates.size());
  candidates.resize(kept);
  std::sort(candidates.begin(), candidates.end(), by_id);
}

// The last sum repeats total_weight's roundings and u is at most 1 - 2^-53, so some id is found.
TokenId draw_from(const std::vector<Candidate>& candidates, double u) {
  const double target = u * total_weight(candidates);
  double cumulative = 0;
  for (const Candidate& candidate : candidates) {
    cumulative += candidate.weight;
    if (cumulative > target) return candidate.id;
  }
  LS_CHECK(false, "no candidate has any weight");
  return 0;
}

// log of each one's share: the token's, then the `count` likeliest. Reorders the candidates.
trace::TokenLogprobs list_logprobs(std::vector<Candidate>& candidates, TokenId token,
                                   std::uint32_t count) {
  trace::TokenLogprobs list;
  const double log_total = portable_log(total_weight(candidates));
  const std::size_t listed = std::min<std::size_t>(count, candidates.size());
  list.entries.reserve(listed + 1);
  const auto own =
      std::lower_bound(candidates.begin(), candidates.end(), Candidate{token, 0, 0, 0}, by_id);
  const auto append = [&](const Candidate& candidate) {
    if (candidate.scaled > kMasked) {
      list.entries.emplace_back(candidate.id, candidate.scaled - log_total);
    }
  };
  if (own != candidates.end() && own->id == token) append(*own);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(listed),
                    candidates.end(), by_rank);
  for (std::size_t i = 0; i < listed; ++i) append(candidates[i]);
  return list;
}

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
      if (params_.logprobs && params_.processed_logprobs) rank(logits, 1, 0);
    } else {
      draw(logits, result);
    }
    if (params_.logprobs) {
      if (!params_.processed_logprobs) rank(raw, 1, 0);
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

  // Candidates in ascending order of ids, those below `min_p` of the largest weight left out.
  void rank(std::span<const double> logits, double temperature, double min_p) {
    scratch_.candidates_.clear();
    const double largest = logits[argmax(logits)];
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double logit = logits[id];
      if (!(logit > kMasked)) continue;  // masked, or NaN
      // The difference comes first: at a tiny temperature quotients overflow, differences do not
      // matter then.
      const double scaled = logit == largest ? 0 : (logit - largest) / temperature;
      const double weight = portable_exp(scaled);
      if (weight < min_p) continue;
      scratch_.candidates_.push_back({static_cast<TokenId>(id), logit, scaled, weight});
    }
  }

  void draw(std::span<const double> logits, SampledDraw& result) {
    result.drawn = true;
    result.draw.address = {input_.seed, input_.prompt.size() + output_size(),
                           trace::DrawPurpose::Sample, 0};
    result.draw.u = uniform(result.draw.address);
    std::vector<Candidate>& candidates = scratch_.candidates_;
    rank(logits, params_.temperature, params_.min_p);
    if (candidates.empty()) return;  // all masked: token 0, as greedy
    keep_top_k(candidates, params_.top_k);
    keep_top_p(candidates, params_.top_p);
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
