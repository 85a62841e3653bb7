#include "reference/drift.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::reference {
namespace {

using Values = std::vector<double>;

TEST(Drift, RelativeRmsIsTheDifferencesSizeOverTheReferences) {
  EXPECT_EQ(relative_rms(Values{3, 5}, Values{3, 4}), 0.2);
  EXPECT_EQ(relative_rms(Values{3, 4}, Values{0, 0}), std::sqrt(12.5));
}

TEST(Drift, KlDivergenceOfTwoCoinsIsTheTextbooks) {
  // p = (1/2, 1/2), q = (1/4, 3/4): (log 2 + log 2/3) / 2; some roundings of numbers below 2.
  const double kl = kl_divergence(Values{0, 0}, Values{0, std::log(3.0)});
  EXPECT_NEAR(kl, std::log(2 / std::sqrt(3.0)), 4e-16);
  EXPECT_EQ(kl_divergence(Values{1, 2, 3}, Values{1, 2, 3}), 0);
  EXPECT_GE(kl_divergence(Values{700, -700}, Values{-700, 700}), 1399);
}

TEST(Drift, TopIdsBreakTiesByTheLowerId) {
  EXPECT_EQ(top_k(Values{1, 3, 2, 3}, 3), (std::vector<std::uint32_t>{1, 3, 2}));
  EXPECT_EQ(top_k(Values{1}, 5), (std::vector<std::uint32_t>{0}));
}

TEST(Drift, LayersAreSummarisedByMedianAndWorstPosition) {
  Drift drift;
  for (const std::uint32_t position : {0u, 1u, 2u}) {
    const Values want = {position == 0 ? 100.0 : 1.0};
    drift.add_residual(4, {{7}, position}, Values{want[0] * (1 + position * 0.5)}, want);
  }
  const LayerDrift layer = drift.layers().at(4);
  EXPECT_EQ(layer.median, 0.5);
  EXPECT_EQ(layer.worst, 1.0);
  EXPECT_EQ(layer.worst_row, (trace::RowId{{7}, 2}));
  EXPECT_EQ(layer.rows, 3u);
}

TEST(Drift, LogitFiguresCountRowsAndAllTheirElements) {
  Drift drift;
  const Values want = {5, 4, 3, 2, 1, 0};
  drift.add_logits(want, want);
  drift.add_logits(Values{4, 5, 3, 2, 1, 0}, want);  // another first, the same five
  drift.add_logits(Values{5, 4, 3, 2, 0, 1}, want);  // another fifth
  const LogitDrift figures = drift.logits();
  EXPECT_EQ(figures.rows, 3u);
  EXPECT_EQ(figures.top1_equal, 2u);
  EXPECT_EQ(figures.top5_equal, 2u);
  EXPECT_EQ(figures.max, 1);
  EXPECT_EQ(figures.rms, std::sqrt(4.0 / 18));
}

}  // namespace
}  // namespace lockstep::reference
