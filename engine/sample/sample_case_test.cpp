// The plain model, and RapidCheck's seed.
#include "engine/sample/sample_case_test.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace lockstep::engine {
namespace {

using trace::TokenId;

// RapidCheck reads it at its first property; whoever wants other cases sets it outside.
[[maybe_unused]] const int kSeeded = ::setenv("RC_PARAMS", "seed=20240811 max_success=1000", 0);

constexpr double kMasked = -std::numeric_limits<double>::infinity();

bool contains(const std::vector<TokenId>& list, TokenId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

std::vector<double> changed_logits(const SampleCase& c) {
  std::vector<double> logits(c.logits.begin(), c.logits.begin() + c.tokenizer_size);
  for (TokenId id = 0; id < c.tokenizer_size; ++id) {
    double& logit = logits[id];
    const bool ends = contains(c.eos, id) || contains(c.params.stop_token_ids, id);
    if (c.output.size() < c.params.min_tokens && ends) logit = kMasked;
    for (const auto& [biased, bias] : c.params.logit_bias) logit += biased == id ? bias : 0;
    const auto count = std::count(c.output.begin(), c.output.end(), id);
    if (count > 0 || contains(c.prompt, id)) {
      const double r = c.params.repetition_penalty;
      logit = logit > 0 ? logit / r : logit * r;
    }
    if (count > 0) {
      logit = logit - c.params.frequency_penalty * static_cast<double>(count);
      logit = logit - c.params.presence_penalty;
    }
  }
  return logits;
}

}  // namespace

std::vector<TokenId> SampleCase::kept() const {
  SampleCase copy = *this;
  copy.params.processed_logprobs = true;
  copy.params.logprobs = tokenizer_size;
  std::vector<TokenId> ids;
  const auto listed = copy.run().logprobs.entries;
  for (std::size_t i = 1; i < listed.size(); ++i) ids.push_back(listed[i].first);
  return ids;
}

ModelAnswer model_answer(const SampleCase& c, double u) {
  const std::vector<double> logits = changed_logits(c);
  ModelAnswer answer;
  std::vector<TokenId>& kept = answer.kept;
  for (TokenId id = 0; id < c.tokenizer_size; ++id) {
    if (logits[id] > kMasked) kept.push_back(id);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (kept.empty()) return answer;
  const long double temperature = c.params.temperature == 0 ? 1 : c.params.temperature;
  const auto weight = [&](TokenId id) {
    return std::exp((static_cast<long double>(logits[id]) - logits[kept[0]]) / temperature);
  };
  const auto total = [&] {
    long double sum = 0;
    for (const TokenId id : kept) sum += weight(id);
    return sum;
  };
  if (c.params.temperature > 0) {
    std::erase_if(kept, [&](TokenId id) { return weight(id) < c.params.min_p; });
    if (c.params.top_k > 0 && kept.size() > c.params.top_k) kept.resize(c.params.top_k);
    long double reached = 0;
    const long double everything = total();
    std::size_t count = c.params.top_p < 1 ? 0 : kept.size();
    while (count < kept.size() && (count == 0 || reached / everything < c.params.top_p)) {
      reached += weight(kept[count++]);
    }
    kept.resize(count);
  }
  const long double left = total();
  for (const TokenId id : kept) answer.probabilities.push_back(weight(id) / left);
  answer.token = kept[0];
  if (c.params.temperature == 0) return answer;
  std::vector<TokenId> ascending = kept;
  std::sort(ascending.begin(), ascending.end());
  long double reached = 0;
  for (const TokenId id : ascending) {
    reached += weight(id) / left;
    answer.token = id;
    if (reached > u) break;
  }
  return answer;
}

bool same_draw(const SampledDraw& a, const SampledDraw& b) {
  return a.token == b.token && a.drawn == b.drawn && a.draw.address == b.draw.address &&
         a.draw.u == b.draw.u && a.logprobs == b.logprobs;
}

}  // namespace lockstep::engine
