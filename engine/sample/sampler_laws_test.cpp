// Laws of the sampler and of verification over generated cases, against the plain model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/prng.h"
#include "engine/sample/philox.h"
#include "engine/sample/sample_case_test.h"
#include "engine/sample/verify.h"

namespace lockstep::engine {
namespace {

using Ids = std::vector<trace::TokenId>;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

template <class T>
rc::Gen<T> one_of(std::vector<T> values) {
  return rc::gen::elementOf(std::move(values));
}

Ids some_ids(std::uint32_t tokenizer_size, std::size_t most) {
  // Now and then one that the tokenizer does not have.
  return *rc::gen::resize(
      static_cast<int>(most),
      rc::gen::container<Ids>(rc::gen::inRange<trace::TokenId>(0, tokenizer_size + 2)));
}

trace::SamplingParams some_params(std::uint32_t tokenizer_size) {
  trace::SamplingParams params;
  params.temperature = *one_of<double>({0, 1, 0.5, 2, 0.1, 8, 1e-9});
  params.top_k = *one_of<std::uint32_t>({0, 0, 1, 2, 3, 50});
  params.top_p = *one_of<double>({1, 1, 0.5, 0.9, 0.3, 0.01});
  params.min_p = *one_of<double>({0, 0, 0.1, 0.5, 1});
  params.repetition_penalty = *one_of<double>({1, 1, 2, 0.5, 1.3});
  params.presence_penalty = *one_of<double>({0, 0, 0.5, -1});
  params.frequency_penalty = *one_of<double>({0, 0, 0.25, -0.5});
  params.min_tokens = *rc::gen::inRange<std::uint32_t>(0, 7);
  for (trace::TokenId id = 0; id < tokenizer_size; ++id) {
    const double bias = *one_of<double>({0, 0, 0, 0, 1.5, -2});
    if (bias != 0) params.logit_bias.emplace_back(id, bias);
  }
  params.stop_token_ids = some_ids(tokenizer_size, 2);
  if (*rc::gen::arbitrary<bool>()) params.logprobs = *rc::gen::inRange<std::uint32_t>(0, 4);
  params.processed_logprobs = *rc::gen::arbitrary<bool>();
  return params;
}

// Logits on a coarse grid, so that ties are common.
SampleCase some_case() {
  SampleCase c;
  c.tokenizer_size = *rc::gen::inRange<std::uint32_t>(1, 12);
  for (std::uint32_t id = 0; id < c.tokenizer_size; ++id) {
    c.logits.push_back(*rc::gen::inRange(0, 8) == 0 ? kMasked : *rc::gen::inRange(-8, 9) / 4.0);
  }
  const auto padding = *rc::gen::inRange<std::size_t>(0, 4);
  c.logits.insert(c.logits.end(), padding, 32);
  c.params = some_params(c.tokenizer_size);
  c.eos = some_ids(c.tokenizer_size, 2);
  c.prompt = some_ids(c.tokenizer_size, 6);
  c.output = some_ids(c.tokenizer_size, 6);
  c.seed = *rc::gen::arbitrary<std::uint64_t>();
  return c;
}

RC_GTEST_PROP(SamplerLaw, TheTokenAndTheKeptIdsAreTheModels, ()) {
  SampleCase c = some_case();
  const SampledDraw got = c.run();
  const ModelAnswer want = model_answer(c, got.draw.u);
  RC_ASSERT(got.drawn == (c.params.temperature > 0 && !want.kept.empty()));
  RC_ASSERT(got.token == want.token);
  RC_ASSERT(c.kept() == want.kept);
}

RC_GTEST_PROP(SamplerLaw, FiltersKeepAtLeastOneTokenAndTheDrawnOneIsAmongThem, ()) {
  SampleCase c = some_case();
  c.params.min_tokens = 0;
  c.logits[*rc::gen::inRange<std::size_t>(0, c.tokenizer_size)] = 1;  // not all are masked
  const Ids kept = c.kept();
  RC_ASSERT(!kept.empty());
  RC_ASSERT(std::find(kept.begin(), kept.end(), c.run().token) != kept.end());
}

RC_GTEST_PROP(SamplerLaw, NoPaddingColumnIsDrawn, ()) {
  SampleCase c = some_case();
  const SampledDraw got = c.run();
  RC_ASSERT(got.token < c.tokenizer_size);
  for (const auto& entry : got.logprobs.entries) RC_ASSERT(entry.first < c.tokenizer_size);
  c.logits.resize(c.tokenizer_size);
  RC_ASSERT(same_draw(c.run(), got));
}

RC_GTEST_PROP(SamplerLaw, TemperatureToZeroIsGreedyUpToTies, ()) {
  SampleCase c = some_case();
  c.params.temperature = *one_of<double>({1e-6, 1e-30, 1e-307});
  c.params.logit_bias = {};
  const trace::TokenId drawn = c.run().token;
  c.params.temperature = 0;
  const trace::TokenId greedy = c.run().token;
  if (drawn != greedy) {
    // Equal logits: biasing the drawn one by a little makes it the greedy choice.
    c.params.logit_bias = {{drawn, 1e-9}};
    RC_ASSERT(c.run().token == drawn);
  }
}

RC_GTEST_PROP(SamplerLaw, LogprobsAreTheModelsAndSumToOne, ()) {
  SampleCase c = some_case();
  c.params.logprobs = c.tokenizer_size;
  if (!c.params.processed_logprobs) {  // raw: as the plain row at temperature 1
    SampleCase plain = c;
    plain.params = {};
    const ModelAnswer want = model_answer(plain, 0);
    const auto entries = c.run().logprobs.entries;
    long double sum = 0;
    for (std::size_t i = 0; i < want.kept.size(); ++i) {
      const auto& [id, value] = entries[entries.size() - want.kept.size() + i];
      RC_ASSERT(id == want.kept[i]);
      RC_ASSERT(std::fabs(std::exp(static_cast<long double>(value)) - want.probabilities[i]) <
                1e-15L);
      sum += std::exp(static_cast<long double>(value));
    }
    RC_ASSERT(want.kept.empty() || std::fabs(sum - 1) < 1e-14L);
    return;
  }
  const ModelAnswer want = model_answer(c, c.run().draw.u);
  const auto entries = c.run().logprobs.entries;
  if (want.kept.empty()) {
    RC_ASSERT(entries.empty());
    return;
  }
  RC_ASSERT(entries.size() == want.kept.size() + 1);
  RC_ASSERT(entries[0].first == want.token);
  for (std::size_t i = 0; i < want.kept.size(); ++i) {
    RC_ASSERT(entries[i + 1].first == want.kept[i]);
    RC_ASSERT(std::fabs(std::exp(static_cast<long double>(entries[i + 1].second)) -
                        want.probabilities[i]) < 1e-15L);
  }
}

// X31: a seeded request beside unseeded ones, in any order, in memory that others have used.
RC_GTEST_PROP(SamplerLaw, ADrawDependsOnNoNeighbour, ()) {
  std::vector<SampleCase> cases;
  const auto count = *rc::gen::inRange<std::size_t>(2, 5);
  for (std::size_t i = 0; i < count; ++i) cases.push_back(some_case());
  std::vector<SampledDraw> alone;
  for (const SampleCase& c : cases) alone.push_back(c.run());
  SampleScratch shared;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = count; i-- > 0;) {
      RC_ASSERT(same_draw(sample(cases[i].input(), shared), alone[i]));
    }
  }
}

// --- Sequences: logits of each row are a function of the tokens before it ---

std::vector<double> row_after(const SampleCase& c, const Ids& output) {
  std::uint64_t hash = 1;
  for (const Ids* part : {&c.prompt, &output}) {
    for (const trace::TokenId id : *part) hash = base::Prng(hash ^ id).next();
  }
  base::Prng prng(hash);
  std::vector<double> logits;
  for (std::uint32_t id = 0; id < c.tokenizer_size; ++id) {
    logits.push_back(static_cast<double>(prng.below(9)) / 4 - 1);
  }
  logits.push_back(32);
  return logits;
}

std::vector<SampledDraw> step_by_step(SampleCase c, std::size_t count) {
  std::vector<SampledDraw> draws;
  while (draws.size() < count) {
    c.logits = row_after(c, c.output);
    draws.push_back(c.run());
    c.output.push_back(draws.back().token);
  }
  return draws;
}

Verified verify_drafts(const SampleCase& c, const Ids& drafts) {
  std::vector<std::vector<double>> rows;
  Ids output = c.output;
  for (std::size_t i = 0; i <= drafts.size(); ++i) {
    rows.push_back(row_after(c, output));
    if (i < drafts.size()) output.push_back(drafts[i]);
  }
  const std::vector<std::span<const double>> spans(rows.begin(), rows.end());
  SampleInput request = c.input();
  request.logits = {};
  return verify_chain({request, spans, drafts});
}

RC_GTEST_PROP(VerifyLaw, AnyDraftsGiveTheTokensOfStepByStepSampling, ()) {
  SampleCase c = some_case();
  const std::vector<SampledDraw> want = step_by_step(c, 24);
  std::size_t done = 0;
  while (done + 5 < want.size()) {
    Ids drafts;
    const auto length = *rc::gen::inRange<std::size_t>(0, 5);
    std::size_t good = 0;
    while (drafts.size() < length) {
      const bool right = *rc::gen::inRange(0, 4) > 0;
      const trace::TokenId next = want[done + drafts.size()].token;
      drafts.push_back(right ? next : *rc::gen::inRange<trace::TokenId>(0, c.tokenizer_size + 2));
      if (good + 1 == drafts.size() && drafts.back() == next) ++good;
    }
    const Verified got = verify_drafts(c, drafts);
    RC_ASSERT(got.accepted == good);
    RC_ASSERT(got.emitted.size() == good + 1);
    for (const SampledDraw& draw : got.emitted) {
      RC_ASSERT(same_draw(draw, want[done]));
      ++done;
      c.output.push_back(draw.token);
    }
  }
}

RC_GTEST_PROP(SamplerLaw, ContinuationFromOnesOwnOutputGivesTheSameTokens, ()) {
  SampleCase c = some_case();
  c.output = {};
  c.params.min_tokens = 0;
  c.params.presence_penalty = c.params.frequency_penalty = 0;
  const std::vector<SampledDraw> want = step_by_step(c, 12);
  const auto cut = *rc::gen::inRange<std::size_t>(1, 12);
  for (std::size_t i = 0; i < cut; ++i) c.prompt.push_back(want[i].token);
  const std::vector<SampledDraw> rest = step_by_step(c, want.size() - cut);
  for (std::size_t i = 0; i < rest.size(); ++i) RC_ASSERT(same_draw(rest[i], want[cut + i]));
}

}  // namespace
}  // namespace lockstep::engine
