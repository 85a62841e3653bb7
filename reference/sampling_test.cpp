// Draws against Random123's vectors, and choices against the rules written out in long double.
#include "reference/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/prng.h"

namespace lockstep::reference {
namespace {

using trace::SamplingParams;
using trace::TokenId;

constexpr double kMasked = -std::numeric_limits<double>::infinity();
using Words4 = std::array<std::uint32_t, 4>;

// Random123, kat_vectors, philox4x32 10.
TEST(Sampling, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Sampling, TheUniformIsOfTheWholeAddress) {
  // 0x6627e8d5e169c58d >> 11, over 2^53.
  EXPECT_EQ(uniform({0, 0, trace::DrawPurpose::Sample, 0}),
            static_cast<double>(0x6627e8d5e169c58du >> 11) / 9007199254740992.0);
  const trace::DrawAddress wide{0x299f31d0a4093822u, 0x85a308d3243f6a88u, trace::DrawPurpose::Bonus,
                                0x03707344};
  const Words4 words =
      philox4x32_10({0x243f6a88, 0x85a308d3, 3, 0x03707344}, {0xa4093822, 0x299f31d0});
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
  EXPECT_EQ(uniform(wide), std::ldexp(static_cast<double>(bits), -53));
}

// The rules of sampling.h in long double: ranks are counted, nothing is sorted.
struct Plain {
  std::vector<long double> share;  // 0: out
  long double total = 0;

  Plain(const std::vector<double>& logits, double temperature) {
    double largest = kMasked;
    for (const double l : logits) largest = std::max(largest, l);
    for (const double l : logits) {
      const long double x = (static_cast<long double>(l) - largest) / temperature;
      share.push_back(l == kMasked ? 0 : std::exp(x));
    }
    sum();
  }
  void sum() {
    total = 0;
    for (const long double s : share) total += s;
  }
  void restrict_to_likely(const std::vector<double>& logits, const SamplingParams& params) {
    for (long double& s : share) {
      if (static_cast<double>(s) < params.min_p) s = 0;
    }
    const auto is_before = [&](std::size_t a, std::size_t b) {
      return share[a] > 0 && (logits[a] > logits[b] || (logits[a] == logits[b] && a < b));
    };
    const auto keep = [&](const auto& is_kept) {
      std::vector<long double> kept(share.size(), 0);
      for (std::size_t id = 0; id < share.size(); ++id) {
        std::uint32_t rank = 0;
        long double mass = 0;
        for (std::size_t other = 0; other < share.size(); ++other) {
          if (!is_before(other, id)) continue;
          ++rank;
          mass += share[other];
        }
        if (is_kept(rank, static_cast<double>(mass / total))) kept[id] = share[id];
      }
      share = kept;
      sum();
    };
    sum();
    if (params.top_k > 0) keep([&](std::uint32_t rank, double) { return rank < params.top_k; });
    if (params.top_p < 1) {
      keep([&](std::uint32_t rank, double mass) { return rank == 0 || mass < params.top_p; });
    }
  }
  TokenId draw(double u) const {
    long double cumulative = 0;
    for (std::size_t id = 0; id < share.size(); ++id) {
      cumulative += share[id];
      if (cumulative / total > u) return static_cast<TokenId>(id);
    }
    return 0xffffffff;
  }
};

struct Setting {
  SamplingParams params;
  std::vector<double> logits;
  std::vector<TokenId> prompt, output, eos = {1};
};

Setting any_setting(base::Prng& prng) {
  Setting setting;
  const std::size_t size = 2 + prng.below(60);
  const bool coarse = prng.below(2) == 0;  // with equals
  for (std::size_t id = 0; id < size; ++id) {
    const auto steps = static_cast<double>(prng.below(1u << 24));
    setting.logits.push_back(coarse ? static_cast<double>(prng.below(5)) : steps * 0x1p-20);
  }
  setting.logits[0] = prng.below(2) == 0 ? -16 : 64;
  SamplingParams& params = setting.params;
  const double temperatures[] = {1, 0.7, 0.01, 3, 100};
  params.temperature = temperatures[prng.below(5)];
  if (prng.below(2) == 0) params.top_k = static_cast<std::uint32_t>(1 + prng.below(size + 3));
  if (prng.below(2) == 0) params.top_p = 1 - prng.unit();
  if (prng.below(3) == 0) params.min_p = std::pow(prng.unit(), 3);
  if (prng.below(3) == 0) params.min_tokens = static_cast<std::uint32_t>(prng.below(4));
  if (prng.below(3) == 0) params.stop_token_ids = {static_cast<TokenId>(prng.below(size))};
  if (prng.below(3) == 0) params.repetition_penalty = 0.5 + prng.unit() * 1.5;
  if (prng.below(3) == 0) params.presence_penalty = 2 * prng.unit() - 1;
  if (prng.below(3) == 0) params.frequency_penalty = 2 * prng.unit() - 1;
  if (prng.below(3) == 0) params.logit_bias = {{0, -2.5}, {1, 1.25}};
  params.logprobs = static_cast<std::uint32_t>(prng.below(5));
  params.processed_logprobs = prng.below(2) == 0;
  for (std::uint64_t i = prng.below(6); i > 0; --i) {
    setting.prompt.push_back(static_cast<TokenId>(prng.below(size + 2)));
  }
  for (std::uint64_t i = prng.below(6); i > 0; --i) {
    setting.output.push_back(static_cast<TokenId>(prng.below(size)));
  }
  return setting;
}

Choice choice_of(const Setting& setting, const trace::DrawAddress& address) {
  TokenHistory history(static_cast<std::uint32_t>(setting.logits.size()), setting.prompt);
  for (const TokenId token : setting.output) history.add_output(token);
  std::vector<double> logits = setting.logits;
  return choose({&setting.params, setting.eos, &history, setting.output.size(), address}, logits);
}

std::vector<double> processed(const Setting& setting) {
  std::vector<double> logits = setting.logits;
  const SamplingParams& params = setting.params;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    bool stops = id == 1;
    for (const TokenId stop : params.stop_token_ids) stops = stops || stop == id;
    if (stops && setting.output.size() < params.min_tokens) logits[id] = kMasked;
    for (const auto& [biased, bias] : params.logit_bias) {
      if (biased == id) logits[id] += bias;
    }
    double in_output = 0;
    for (const TokenId token : setting.output) in_output += token == id;
    bool seen = in_output > 0;
    for (const TokenId token : setting.prompt) seen = seen || token == id;
    const double r = params.repetition_penalty;
    if (seen) logits[id] = logits[id] > 0 ? logits[id] / r : logits[id] * r;
    logits[id] -= in_output * params.frequency_penalty;
    logits[id] -= in_output > 0 ? params.presence_penalty : 0;
  }
  return logits;
}

// Of at most 62 shares in long double each is off by less than 2^-62 of itself and each sum by
// 2^-64 of the total, so its logarithm by less than 2^-57; ours rounds to 2^-53.
void expect_logprobs(const trace::TokenLogprobs& got, const Plain& plain,
                     const std::vector<double>& logits, TokenId token, std::uint32_t count,
                     double temperature) {
  double largest = kMasked;
  for (const double l : logits) largest = std::max(largest, l);
  std::vector<TokenId> ids;
  if (plain.share[token] > 0) ids.push_back(token);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    for (std::size_t id = 0; id < logits.size(); ++id) {
      std::uint32_t others = 0;
      for (std::size_t other = 0; other < logits.size(); ++other) {
        others += plain.share[other] > 0 &&
                  (logits[other] > logits[id] || (logits[other] == logits[id] && other < id));
      }
      if (plain.share[id] > 0 && others == rank) ids.push_back(static_cast<TokenId>(id));
    }
  }
  ASSERT_EQ(got.entries.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(got.entries[i].first, ids[i]);
    const long double want =
        (static_cast<long double>(logits[ids[i]]) - largest) / temperature - std::log(plain.total);
    EXPECT_LE(std::abs(got.entries[i].second - want), std::abs(want) * 0x1p-53L + 0x1p-57L);
  }
}

TEST(Sampling, ChoicesAreTheRulesWrittenOut) {
  base::Prng prng(23);
  for (std::uint64_t run = 0; run < 20000; ++run) {
    const Setting setting = any_setting(prng);
    const trace::DrawAddress address{run, 9, trace::DrawPurpose::Sample, 0};
    const Choice choice = choice_of(setting, address);
    const std::vector<double> logits = processed(setting);
    Plain plain(logits, setting.params.temperature);
    if (plain.total == 0) continue;
    plain.restrict_to_likely(logits, setting.params);
    ASSERT_EQ(choice.token, plain.draw(uniform(address))) << "run " << run;
    ASSERT_TRUE(choice.draw.has_value());
    EXPECT_EQ(choice.draw->address, address);
    EXPECT_EQ(choice.draw->u, uniform(address));
    if (setting.params.processed_logprobs) {
      expect_logprobs(choice.logprobs, plain, logits, choice.token, *setting.params.logprobs,
                      setting.params.temperature);
    } else {
      expect_logprobs(choice.logprobs, Plain(setting.logits, 1), setting.logits, choice.token,
                      *setting.params.logprobs, 1);
    }
    if (HasFailure()) FAIL() << "run " << run;
  }
}

TEST(Sampling, GreedyIsTheLargestProcessedLogitLowestIdFirst) {
  base::Prng prng(24);
  for (std::uint64_t run = 0; run < 5000; ++run) {
    Setting setting = any_setting(prng);
    setting.params.temperature = 0;
    const Choice choice = choice_of(setting, {});
    const std::vector<double> logits = processed(setting);
    TokenId best = 0;
    for (TokenId id = 0; id < logits.size(); ++id) best = logits[id] > logits[best] ? id : best;
    ASSERT_EQ(choice.token, best);
    EXPECT_FALSE(choice.draw.has_value());
    const std::vector<double>& shown = setting.params.processed_logprobs ? logits : setting.logits;
    if (Plain(shown, 1).total > 0) {
      expect_logprobs(choice.logprobs, Plain(shown, 1), shown, choice.token,
                      *setting.params.logprobs, 1);
    }
    if (HasFailure()) FAIL() << "run " << run;
  }
}

SamplingParams drawn(std::uint32_t top_k, double top_p, double min_p) {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

std::vector<int> counts_of(const SamplingParams& params, const std::vector<double>& logits) {
  std::vector<int> counts(logits.size());
  for (std::uint64_t position = 0; position < 4000; ++position) {
    Setting setting{.params = params, .logits = logits, .prompt = {}, .output = {}};
    ++counts[choice_of(setting, {7, position, trace::DrawPurpose::Sample, 0}).token];
  }
  return counts;
}

// bug_museum X32: by value all three would pass.
TEST(Sampling, TopKKeepsKAndAmongEqualsTheLowestIds) {
  const std::vector<int> counts = counts_of(drawn(2, 1, 0), {0, 1, 1, 1});
  EXPECT_EQ(counts[0] + counts[3], 0);
  EXPECT_GT(counts[1], 1800);
  EXPECT_GT(counts[2], 1800);
}

// bug_museum X33: on what top_k left, one id has all of the probability.
TEST(Sampling, TopPIsOfWhatTopKLeft) {
  const std::vector<int> counts = counts_of(drawn(1, 0.8, 0), {0.5, 0, 0, 0});
  EXPECT_EQ(counts[0], 4000);
}

TEST(Sampling, TopPOfEqualsKeepsTheShareThatItSays) {
  for (std::size_t kept = 1; kept <= 10; ++kept) {
    const std::vector<int> counts =
        counts_of(drawn(0, static_cast<double>(kept) / 10, 0), std::vector<double>(10, 3));
    for (std::size_t id = 0; id < 10; ++id)
      EXPECT_EQ(counts[id] > 0, id < kept) << kept << " " << id;
  }
}

TEST(Sampling, MinPIsRelativeToTheLargest) {
  // Shares 1, 1/2, 1/4: ln 2 and ln 4, rounded.
  const std::vector<double> logits = {0, -0.6931471805599453, -1.3862943611198906};
  const std::vector<int> counts = counts_of(drawn(0, 1, 0.5), logits);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2], 0);
}

TEST(Sampling, IfAllIsMaskedTheLowestIdIsTheTokenWithoutADraw) {
  Setting setting{.params = {}, .logits = {kMasked, 3, kMasked}, .prompt = {}, .output = {}};
  setting.params.temperature = 1;
  setting.params.min_tokens = 1;
  setting.params.logprobs = 2;
  setting.params.processed_logprobs = true;
  const Choice choice = choice_of(setting, {});
  EXPECT_EQ(choice.token, 0u);
  EXPECT_FALSE(choice.draw.has_value());
  EXPECT_TRUE(choice.logprobs.entries.empty());
}

// Shares below 2^-104 and distances beyond any exponential are still exact log-probabilities.
TEST(Sampling, FarLogitsHaveFiniteLogprobs) {
  Setting setting{
      .params = {}, .logits = {0, 1e9, -1e300, 999999000, 1e9 - 2000}, .prompt = {}, .output = {}};
  setting.eos = {};
  setting.params.logprobs = 5;
  const Choice choice = choice_of(setting, {});
  const std::vector<std::pair<TokenId, double>> want = {{1, 0},     {1, 0},    {3, -1000},
                                                        {4, -2000}, {0, -1e9}, {2, -1e300}};
  ASSERT_EQ(choice.logprobs.entries.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(choice.logprobs.entries[i].first, want[i].first);
    EXPECT_NEAR(choice.logprobs.entries[i].second, want[i].second, 5 * 0x1p-104);
  }
}

}  // namespace
}  // namespace lockstep::reference
