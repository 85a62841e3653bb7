// Each rule of docs/sampling.md by example.
#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/prng.h"
#include "engine/sample/math.h"
#include "engine/sample/philox.h"
#include "engine/sample/sample_case_test.h"

namespace lockstep::engine {
namespace {

using Ids = std::vector<trace::TokenId>;

constexpr double kMasked = -std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Logits whose probabilities these are.
SampleCase of_probabilities(std::vector<double> probabilities) {
  for (double& value : probabilities) value = value > 0 ? std::log(value) : kMasked;
  SampleCase c(std::move(probabilities));
  c.params.temperature = 1;
  return c;
}

// --- Greedy ---

TEST(Sampler, GreedyTakesTheLowestIdOfATieAndMakesNoDraw) {
  const SampledDraw got = SampleCase({1, 3, -2, 3}).run();
  EXPECT_EQ(got.token, 1u);
  EXPECT_FALSE(got.drawn);
  EXPECT_TRUE(got.logprobs.entries.empty());
}

TEST(Sampler, GreedyFindsTheFirstMaximumInRowsOfAnyLength) {
  base::Prng prng(3);
  for (std::size_t size = 1; size < 60; ++size) {
    for (int repeat = 0; repeat < 40; ++repeat) {
      std::vector<double> logits;
      while (logits.size() < size) {
        const std::uint64_t pick = prng.below(size + 2);
        logits.push_back(pick == 0 ? kNan : pick == 1 ? kMasked : -static_cast<double>(pick));
      }
      double best = kMasked;
      trace::TokenId token = 0;
      for (trace::TokenId id = 0; id < size; ++id) {
        if (logits[id] > best) {
          best = logits[id];
          token = id;
        }
      }
      ASSERT_EQ(SampleCase(logits).run().token, token);
    }
  }
}

TEST(Sampler, GreedyIgnoresFilters) {
  SampleCase c({1, 3, 2});
  c.params.top_k = 1;
  c.params.top_p = 0.1;
  c.params.min_p = 1;
  EXPECT_EQ(c.run().token, 1u);
  EXPECT_EQ(c.kept(), (Ids{1, 2, 0}));
}

TEST(Sampler, MaskedAndNotANumberAreNeverChosen) {
  EXPECT_EQ(SampleCase({kMasked, kNan, -1e300, kNan}).run().token, 2u);
  SampleCase c({kMasked, kNan, -1e300, kNan});
  c.params.temperature = 1;
  EXPECT_EQ(c.run().token, 2u);
  EXPECT_EQ(c.kept(), Ids{2});
}

TEST(Sampler, AllMaskedGivesTokenZeroAndListsNothing) {
  SampleCase c({kMasked, kMasked, kMasked});
  c.params.logprobs = 2;
  for (const double temperature : {0.0, 1.0}) {
    for (const bool processed : {false, true}) {
      c.params.temperature = temperature;
      c.params.processed_logprobs = processed;
      const SampledDraw got = c.run();
      EXPECT_EQ(got.token, 0u);
      EXPECT_FALSE(got.drawn);
      EXPECT_TRUE(got.logprobs.entries.empty());
    }
  }
}

// X36: rows of the head are padded with zeros, and all real logits are negative.
TEST(Sampler, PaddingColumnsAreNeverLookedAt) {
  SampleCase c({-3, -1, -2, 0, 32, kNan, std::numeric_limits<double>::infinity()});
  c.tokenizer_size = 3;
  SampleCase bare({-3, -1, -2});
  c.params.logprobs = bare.params.logprobs = 9;
  for (const double temperature : {0.0, 1.0, 100.0}) {
    c.params.temperature = bare.params.temperature = temperature;
    for (c.seed = 0; c.seed < 200; ++c.seed) {
      bare.seed = c.seed;
      ASSERT_TRUE(same_draw(c.run(), bare.run()));
    }
  }
}

// --- min_tokens, logit_bias, penalties ---

TEST(Sampler, MinTokensMasksEosAndStopIdsUntilTheOutputIsThatLong) {
  SampleCase c({1, 9, 8, 7, 0});
  c.eos = {1};
  c.params.stop_token_ids = {2, 4, 99};
  c.params.min_tokens = 2;
  for (const bool ignore_eos : {false, true}) {
    c.params.ignore_eos = ignore_eos;
    c.output = {};
    EXPECT_EQ(c.run().token, 3u);
    EXPECT_EQ(c.kept(), (Ids{3, 0}));
    c.output = {3};
    EXPECT_EQ(c.run().token, 3u);
    c.output = {3, 3};
    EXPECT_EQ(c.run().token, 1u);
  }
}

TEST(Sampler, MinTokensCountsAcceptedDraftsAsOutput) {
  SampleCase c({1, 9});
  c.eos = {1};
  c.output = {0};
  c.params.min_tokens = 3;
  const Ids accepted = {0, 0};
  SampleInput input = c.input();
  input.accepted = std::span(accepted).first(1);
  EXPECT_EQ(sample(input).token, 0u);
  input.accepted = accepted;
  EXPECT_EQ(sample(input).token, 1u);
}

TEST(Sampler, BiasIsAddedAndLiftsNoMask) {
  SampleCase c({1, 2, 3});
  c.params.logit_bias = {{0, 2.5}, {7, 100}};
  EXPECT_EQ(c.run().token, 0u);
  c.params.logit_bias = {{0, 2}};
  EXPECT_EQ(c.run().token, 0u);  // a tie with id 2
  c.params.logit_bias = {{0, 1.5}};
  EXPECT_EQ(c.run().token, 2u);
  c.params.logit_bias = {{2, 100}};
  c.params.min_tokens = 1;
  c.eos = {2};
  EXPECT_EQ(c.run().token, 1u);
}

// The logit of id 0 that greedy choice sees. A far larger one beside it takes all the weight, to
// the last bit, so its log-probability is exactly its distance from that one.
double changed_logit(SampleCase c) {
  constexpr double kAnchor = 1024;
  c.logits.push_back(kAnchor);
  c.tokenizer_size = static_cast<std::uint32_t>(c.logits.size());
  c.params.processed_logprobs = true;
  c.params.logprobs = c.tokenizer_size;
  for (const auto& [id, value] : c.run().logprobs.entries) {
    if (id == 0) return value + kAnchor;
  }
  return kMasked;
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogitsOnce) {
  SampleCase c({3, 0});
  c.params.repetition_penalty = 2;
  EXPECT_EQ(changed_logit(c), 3);
  c.prompt = {0, 0};
  EXPECT_EQ(changed_logit(c), 1.5);
  c.output = {0, 0, 0};
  EXPECT_EQ(changed_logit(c), 1.5);
  c.prompt = {};
  EXPECT_EQ(changed_logit(c), 1.5);
  c.logits[0] = -3;
  EXPECT_EQ(changed_logit(c), -6);
  c.logits[0] = 0;
  EXPECT_EQ(changed_logit(c), 0);
  c.prompt = c.output = {1, 77};
  c.logits[0] = 3;
  EXPECT_EQ(changed_logit(c), 3);
}

TEST(Sampler, FrequencyCountsAndPresenceMarksTheOutputOnly) {
  SampleCase c({3, 0});
  c.params.frequency_penalty = 0.5;
  c.prompt = {0, 0};
  EXPECT_EQ(changed_logit(c), 3);
  c.output = {0, 1, 0};
  EXPECT_EQ(changed_logit(c), 2);
  c.params.presence_penalty = 0.25;
  EXPECT_EQ(changed_logit(c), 1.75);
  c.params.frequency_penalty = 0;
  EXPECT_EQ(changed_logit(c), 2.75);
  c.output = {1};
  EXPECT_EQ(changed_logit(c), 3);
}

TEST(Sampler, BiasComesBeforePenaltiesAndRepetitionBeforeTheOthers) {
  SampleCase c({-1, 0});
  c.output = {0};
  c.params.logit_bias = {{0, 2}};
  c.params.repetition_penalty = 4;
  EXPECT_EQ(changed_logit(c), 0.25);
  c.params.presence_penalty = 2;
  EXPECT_EQ(changed_logit(c), -1.75);
}

// --- Filters ---

// X32: ties with the k-th.
TEST(Sampler, TopKKeepsExactlyKTheLowestIdsOfATie) {
  SampleCase c = of_probabilities({0.4, 0.3, 0.3, 0});
  c.params.top_k = 2;
  EXPECT_EQ(c.kept(), (Ids{0, 1}));
  c.params.top_k = 1;
  EXPECT_EQ(c.kept(), (Ids{0}));
  c.params.top_k = 0;
  EXPECT_EQ(c.kept(), (Ids{0, 1, 2}));
  c.params.top_k = 1000;
  EXPECT_EQ(c.kept(), (Ids{0, 1, 2}));
  SampleCase tied({1, 1, 1, 1, 1});
  tied.params.temperature = 1;
  tied.params.top_k = 3;
  EXPECT_EQ(tied.kept(), (Ids{0, 1, 2}));
}

TEST(Sampler, TopPKeepsTheFewestThatReachItTheLowestIdsOfATie) {
  SampleCase c({1, 1, 1, 1});
  c.params.temperature = 1;
  c.params.top_p = 0.5;  // reached exactly by two
  EXPECT_EQ(c.kept(), (Ids{0, 1}));
  c.params.top_p = std::nextafter(0.5, 1);
  EXPECT_EQ(c.kept(), (Ids{0, 1, 2}));
  c.params.top_p = 0.25;
  EXPECT_EQ(c.kept(), (Ids{0}));
  c.params.top_p = 1e-300;
  EXPECT_EQ(c.kept(), (Ids{0}));
  c.params.top_p = 1;
  EXPECT_EQ(c.kept(), (Ids{0, 1, 2, 3}));
}

// A share counts as the double nearest to it.
TEST(Sampler, ALimitThatLiesOnAProbabilityIsReached) {
  SampleCase c;
  c.params.temperature = 1;
  for (std::uint32_t size = 2; size <= 60; ++size) {
    c.logits.assign(size, -0.1);
    c.tokenizer_size = size;
    for (std::uint32_t count = 1; count < size; ++count) {
      c.params.top_p = static_cast<double>(count) / size;
      ASSERT_EQ(c.kept().size(), count) << size;
      c.params.top_p = std::nextafter(c.params.top_p, 1);
      ASSERT_EQ(c.kept().size(), count + 1) << size;
    }
  }
  c.params.top_p = 1;
  c.tokenizer_size = 2;
  for (const double temperature : {0.3, 1.0, 7.0, 1e-200, 1e300}) {
    c.params.temperature = temperature;
    for (int i = 1; i < 200; ++i) {
      c.logits = {0, -0.01 * i * temperature};
      const long double x = static_cast<long double>(c.logits[1]) / temperature;
      c.params.min_p = static_cast<double>(std::exp(x));
      ASSERT_EQ(c.kept().size(), 2u) << i;
      c.params.min_p = std::nextafter(c.params.min_p, 1);
      ASSERT_EQ(c.kept().size(), 1u) << i;
    }
  }
}

// X33: probabilities after top_k are those of what is left.
TEST(Sampler, TopPAfterTopKIsOfWhatTopKLeft) {
  SampleCase c = of_probabilities({0.5, 0.25, 0.125, 0.125});
  c.params.top_k = 1;
  c.params.top_p = 0.8;
  EXPECT_EQ(c.kept(), (Ids{0}));
  c.params.top_k = 2;
  c.params.top_p = 0.6;  // of [2/3, 1/3]; of [0.5, 0.25] two would stay
  EXPECT_EQ(c.kept(), (Ids{0}));
  c.params.top_p = 0.7;
  EXPECT_EQ(c.kept(), (Ids{0, 1}));
}

TEST(Sampler, MinPIsRelativeToTheLargestProbabilityAndComesFirst) {
  SampleCase c = of_probabilities({0.125, 0.5, 0.25, 0.125});
  c.params.min_p = 0.3;
  EXPECT_EQ(c.kept(), (Ids{1, 2}));
  c.params.top_p = 0.6;  // of [2/3, 1/3]
  EXPECT_EQ(c.kept(), (Ids{1}));
  c.params.top_p = 1;
  c.params.min_p = 1;  // ties with the largest stay
  EXPECT_EQ(c.kept(), (Ids{1}));
  c.logits[3] = c.logits[1];
  EXPECT_EQ(c.kept(), (Ids{1, 3}));
  c.params.min_p = 0.3;
  c.params.temperature = 4;  // flatter: min_p is judged after the temperature
  EXPECT_EQ(c.kept(), (Ids{1, 3, 2, 0}));
}

// --- The draw ---

TEST(Sampler, DrawsAtThePositionOfTheNewToken) {
  SampleCase c({1, 1});
  c.params.temperature = 1;
  c.seed = 7 + (std::uint64_t{1} << 40);
  c.prompt = {0, 1, 0};
  c.output = {1};
  const Ids accepted = {0, 0};
  SampleInput input = c.input();
  input.accepted = accepted;
  const SampledDraw got = sample(input);
  EXPECT_TRUE(got.drawn);
  EXPECT_EQ(got.draw.address, (trace::DrawAddress{c.seed, 6, trace::DrawPurpose::Sample, 0}));
  EXPECT_EQ(got.draw.u, uniform(got.draw.address));
  EXPECT_EQ(got.token, got.draw.u < 0.5 ? 0u : 1u);
}

// Candidates with ids from 10 on whose weights are e^x; one x is 0.
Candidates with_exponents(std::vector<double> exponents) {
  Candidates candidates;
  for (const double x : exponents) {
    const auto id = static_cast<trace::TokenId>(10 + candidates.list.size());
    candidates.list.push_back({id, x, x, portable_exp(x)});
  }
  return candidates;
}

TEST(Sampler, TheFirstIdWhoseCumulativeShareExceedsUIsDrawn) {
  EXPECT_EQ(draw_from(with_exponents({0, 0}), 0), 10u);
  EXPECT_EQ(draw_from(with_exponents({0, 0}), std::nextafter(0.5, 0)), 10u);
  EXPECT_EQ(draw_from(with_exponents({0, 0}), 0.5), 11u);
  EXPECT_EQ(draw_from(with_exponents({kMasked, 0}), 0), 11u);
  EXPECT_EQ(draw_from(with_exponents({0, kMasked, 0}), 0.5), 12u);
  EXPECT_EQ(draw_from(with_exponents({0, 0, 0}), 1 - 0x1p-53), 12u);
  // A grid of u gives each id its share, to the step.
  std::vector<int> counts(4, 0);
  for (int i = 0; i < 64; ++i) ++counts[draw_from(with_exponents({0, 0, 0, 0}), i / 64.0) - 10];
  EXPECT_EQ(counts, (std::vector<int>{16, 16, 16, 16}));
  counts.assign(3, 0);
  for (int i = 0; i < 1000; ++i) ++counts[draw_from(with_exponents({-1, 0, -2}), i / 1000.0) - 10];
  EXPECT_EQ(counts, (std::vector<int>{245, 665, 90}));  // shares 0.24473, 0.66524, 0.09003
}

// u on a cumulative share, to the last bit of double.
TEST(Sampler, ChoicesRestOnExactSums) {
  base::Prng prng(8);
  int turned = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double x = -prng.unit() * 3, y = -prng.unit() * 3;
    const long double first = std::exp(static_cast<long double>(x));
    const long double total = first + 1 + std::exp(static_cast<long double>(y));
    double u = static_cast<double>(first / total);
    if (i % 2 == 0) u = std::nextafter(u, 1);
    const long double exact = u * total - first;
    if (std::fabs(exact) < 1e-18L) continue;  // too close for long double
    const double rounded = u * ((portable_exp(x) + 1) + portable_exp(y)) - portable_exp(x);
    if ((rounded < 0) != (exact < 0)) ++turned;
    ASSERT_EQ(draw_from(with_exponents({x, 0, y}), u), exact < 0 ? 10u : 11u);
  }
  EXPECT_GT(turned, 1000);
}

// X35: 11.0625 / 1e-4 overflows in half precision, and at other temperatures in any.
TEST(Sampler, TinyTemperaturesAreFiniteAndGreedy) {
  for (const double temperature : {1e-4, 1e-5, 1e-100, 1e-300, 5e-324}) {
    SampleCase c({2.875, 2.955, 11.0625, -1e308, 1e-300});
    c.params.temperature = temperature;
    c.params.logprobs = 5;
    c.params.processed_logprobs = true;
    for (c.seed = 0; c.seed < 20; ++c.seed) {
      const SampledDraw got = c.run();
      ASSERT_EQ(got.token, 2u);
      ASSERT_EQ(got.logprobs.entries[0].second, 0);
      for (const auto& [id, value] : got.logprobs.entries) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Sampler, HugeLogitsAndTemperaturesStayFinite) {
  SampleCase c({1.7e308, -1.7e308, 1.7e308});
  c.params.temperature = 1;
  EXPECT_EQ(c.kept(), (Ids{0, 2}));
  c.logits = {0, 5, -5};
  c.params.temperature = 1.7e308;
  EXPECT_EQ(c.kept(), (Ids{1, 0, 2}));
  c.logits = {5, std::numeric_limits<double>::infinity(), -5};
  c.params.logprobs = 3;
  c.params.processed_logprobs = true;
  const SampledDraw got = c.run();
  EXPECT_EQ(got.token, 1u);
  EXPECT_EQ(got.logprobs.entries[0], (std::pair<trace::TokenId, double>{1, 0}));
  EXPECT_EQ(got.logprobs.entries.size(), 2u);
}

// --- Log-probabilities ---

TEST(Logprobs, RawOnesAreOfTheRowAsItCame) {
  SampleCase c = of_probabilities({0.125, 0.5, 0.25, 0.125, 0});
  c.params.temperature = 0;
  c.params.logit_bias = {{0, 50}};
  c.params.logprobs = 3;
  const auto entries = c.run().logprobs.entries;
  ASSERT_EQ(entries.size(), 4u);
  const Ids ids = {0, 1, 2, 0};  // the token's first; then the likeliest, lowest id of a tie
  const double expected[] = {0.125, 0.5, 0.25, 0.125};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(entries[i].first, ids[i]);
    EXPECT_DOUBLE_EQ(entries[i].second, std::log(expected[i]));
  }
  c.params.logprobs = 0;
  EXPECT_EQ(c.run().logprobs.entries.size(), 1u);
  c.params.logprobs = 100;
  EXPECT_EQ(c.run().logprobs.entries.size(), 5u);  // the masked id is left out
}

TEST(Logprobs, RawOnesDependOnNoParameter) {
  SampleCase c = of_probabilities({0.125, 0.5, 0.25, 0.125});
  c.params.logprobs = 4;
  c.params.temperature = 0;
  auto expected = c.run().logprobs.entries;
  c.params.temperature = 3;
  c.params.top_k = 2;
  c.params.min_tokens = 4;
  c.params.presence_penalty = 1;
  c.eos = {3};
  c.output = {1};
  auto got = c.run().logprobs.entries;
  expected.erase(expected.begin());
  got.erase(got.begin());
  EXPECT_EQ(got, expected);
}

TEST(Logprobs, ATokenThatTheRowMaskedIsLeftOut) {
  SampleCase c({kMasked, 1, 1});  // the only ids with a logit are masked by min_tokens: token 0
  c.eos = {1, 2};
  c.params.min_tokens = 1;
  c.params.logprobs = 1;
  const SampledDraw got = c.run();
  EXPECT_EQ(got.token, 0u);
  ASSERT_EQ(got.logprobs.entries.size(), 1u);
  EXPECT_EQ(got.logprobs.entries[0].first, 1u);
}

TEST(Logprobs, ProcessedOnesAreOfWhatTheDrawChoosesFrom) {
  SampleCase c({4, 2, 2, 0});
  c.params.temperature = 2;
  c.params.top_k = 2;
  c.params.logprobs = 4;
  c.params.processed_logprobs = true;
  const auto entries = c.run().logprobs.entries;
  ASSERT_EQ(entries.size(), 3u);
  const double log_total = std::log(1 + std::exp(-1.0));
  EXPECT_EQ(entries[1].first, 0u);
  EXPECT_DOUBLE_EQ(entries[1].second, -log_total);
  EXPECT_EQ(entries[2].first, 1u);
  EXPECT_DOUBLE_EQ(entries[2].second, -1 - log_total);
  EXPECT_EQ(entries[0], entries[1 + (entries[0].first == 1)]);
}

TEST(Logprobs, ProcessedOnesOfGreedyComeAfterPenaltiesWithoutTemperature) {
  SampleCase c({4, 2, 1});
  c.output = {0};
  c.params.presence_penalty = 3;
  c.params.logprobs = 1;
  c.params.processed_logprobs = true;
  const auto entries = c.run().logprobs.entries;
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].first, 1u);
  EXPECT_EQ(entries[0], entries[1]);
  EXPECT_DOUBLE_EQ(entries[0].second, -std::log(1 + 2 * std::exp(-1.0)));
}

}  // namespace
}  // namespace lockstep::engine
