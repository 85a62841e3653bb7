// The scan over ids against the formula, id by id.
#include "reference/ledger_logits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "reference/ledger_mix.h"

namespace lockstep::reference {
namespace {

using Ids = std::vector<trace::TokenId>;

std::uint64_t steps_of(std::uint64_t row, std::uint64_t id) {
  return mix(std::uint64_t{7}, row, id) >> 40;
}

std::optional<trace::TokenId> literal(std::uint64_t row, std::uint32_t size, const Ids& excluded) {
  std::optional<trace::TokenId> best;
  for (trace::TokenId id = 0; id < size; ++id) {
    if (std::find(excluded.begin(), excluded.end(), id) != excluded.end()) continue;
    if (!best || steps_of(row, id) > steps_of(row, *best)) best = id;
  }
  return best;
}

TEST(LedgerLogits, TheScanFindsTheLargestThatIsNotExcluded) {
  base::Prng prng(5);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t row = prng.next();
    const auto size = static_cast<std::uint32_t>(2 + prng.below(600));
    Ids excluded;
    // Half of the time the largest themselves.
    while (prng.below(3) != 0) {
      const bool best = prng.below(2) == 0;
      std::sort(excluded.begin(), excluded.end());
      const auto id = best ? largest_logit(row, size, excluded).value_or(0)
                           : static_cast<trace::TokenId>(prng.below(size + 5));
      if (std::find(excluded.begin(), excluded.end(), id) == excluded.end()) {
        excluded.push_back(id);
      }
    }
    std::sort(excluded.begin(), excluded.end());
    EXPECT_EQ(largest_logit(row, size, excluded), literal(row, size, excluded)) << i;
  }
  EXPECT_EQ(largest_logit(1, 2, Ids{0, 1}), std::nullopt);
}

// 24 bits and 2^20 ids: one row in about 32 has its largest value twice.
TEST(LedgerLogits, EqualLogitsGoToTheLowestId) {
  constexpr std::uint32_t kSize = 1u << 20;
  int ties = 0;
  for (std::uint64_t row = 0; row < 40; ++row) {
    const trace::TokenId best = *largest_logit(row, kSize, {});
    const trace::TokenId next = *largest_logit(row, kSize, Ids{best});
    if (steps_of(row, best) != steps_of(row, next)) continue;
    ++ties;
    EXPECT_LT(best, next);
  }
  EXPECT_GT(ties, 0);
}

TEST(LedgerLogits, FilledLogitsAreTheFormula) {
  std::vector<double> logits(1003);
  for (std::uint64_t row = 0; row < 20; ++row) {
    fill_logits(row, logits);
    for (std::size_t id = 0; id < logits.size(); ++id) {
      EXPECT_EQ(logits[id], static_cast<double>(steps_of(row, id)) / 1048576);
    }
  }
}

}  // namespace
}  // namespace lockstep::reference
