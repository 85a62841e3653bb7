// exp and log against long double: the error in units of the result's last place.
#include "engine/sample/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/prng.h"

namespace lockstep::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// |got - want| in units of double's last place at `want`.
double ulps(double got, long double want) {
  const int exponent = std::max(std::ilogb(want), -1022);
  const long double unit = std::ldexp(1.0L, exponent - 52);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / unit);
}

double worst_exp(double from, double to, int steps) {
  double worst = 0;
  for (int i = 0; i <= steps; ++i) {
    const double x = from + (to - from) * i / steps;
    worst = std::max(worst, ulps(portable_exp(x), std::exp(static_cast<long double>(x))));
  }
  return worst;
}

double worst_log(double from, double to, int steps) {
  double worst = 0;
  for (int i = 0; i <= steps; ++i) {
    const double x = from + (to - from) * i / steps;
    worst = std::max(worst, ulps(portable_log(x), std::log(static_cast<long double>(x))));
  }
  return worst;
}

TEST(PortableExp, IsWithinOneUlp) {
  double worst = 0;
  for (const auto& [from, to] :
       {std::pair{-708.0, 709.7}, {-16.0, 0.0}, {-1.0, 1.0}, {-1e-8, 1e-8}}) {
    worst = std::max(worst, worst_exp(from, to, 200'000));
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0.45);  // the yardstick measures
}

TEST(PortableExp, IsWithinOneUnitWhereItsResultIsSubnormal) {
  EXPECT_LE(worst_exp(-745.2, -708, 100'000), 1);
}

TEST(PortableExp, HasExactEndsAndNoSurprises) {
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(-kInfinity), 0);
  EXPECT_EQ(portable_exp(kInfinity), kInfinity);
  EXPECT_EQ(portable_exp(-1e300), 0);
  EXPECT_EQ(portable_exp(-746.5), 0);
  EXPECT_EQ(portable_exp(-745.2), 0);
  EXPECT_EQ(portable_exp(-745.1), 0x1p-1074);
  EXPECT_EQ(portable_exp(709.8), kInfinity);
  EXPECT_TRUE(std::isnan(portable_exp(std::nan(""))));
  EXPECT_EQ(portable_exp(-0x1p-60), 1);
}

// What makes the worst error less than 1 ulp suffice for ranking: a larger logit never weighs less.
TEST(PortableExp, NeverFallsFromOneNumberToTheNext) {
  base::Prng prng(11);
  for (int i = 0; i < 20'000; ++i) {
    double x = -40 * (prng.unit());
    if (i % 4 == 0) x = (i / 4 % 58 - 57.5) * 0.6931471805599453;  // where n changes
    for (int j = 0; j < 8; ++j) {
      const double next = std::nextafter(x, kInfinity);
      ASSERT_LE(portable_exp(x), portable_exp(next)) << x;
      x = next;
    }
  }
}

TEST(PortableLog, IsWithinOneUlp) {
  double worst = 0;
  for (const auto& [from, to] :
       {std::pair{0.5, 2.0}, {0.99, 1.01}, {1.0, 1e6}, {1e-300, 1e-290}, {1e300, 1.7e308}}) {
    worst = std::max(worst, worst_log(from, to, 200'000));
  }
  base::Prng prng(12);
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::bit_cast<double>(prng.next() >> 1);
    if (!std::isfinite(x) || x == 0) continue;
    worst = std::max(worst, ulps(portable_log(x), std::log(static_cast<long double>(x))));
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0.45);
}

TEST(PortableLog, HasExactEndsAndTakesSubnormals) {
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_log(0), -kInfinity);
  EXPECT_EQ(portable_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(portable_log(-1)));
  EXPECT_TRUE(std::isnan(portable_log(std::nan(""))));
  EXPECT_LT(ulps(portable_log(0x1p-1074), std::log(0x1p-1074L)), 1);
  EXPECT_LT(ulps(portable_log(0x1.8p-1060), std::log(0x1.8p-1060L)), 1);
}

// Bits that every machine and compiler must give.
TEST(PortableMath, GivesTheseBits) {
  std::uint64_t folded = 0;
  const auto fold = [&](double value) {
    folded = std::rotl(folded, 5) ^ std::bit_cast<std::uint64_t>(value);
    folded *= 0x9e3779b97f4a7c15;
  };
  for (int i = 0; i < 20'000; ++i) {
    fold(portable_exp(-0.03721 * i));
    fold(portable_log(1 + 0.7391 * i));
  }
  EXPECT_EQ(folded, 5468589451524778799u);
}

}  // namespace
}  // namespace lockstep::engine
