// Sums, products and exponentials against quadruple precision (113 bits).
#include "engine/sample/precise.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/prng.h"

namespace lockstep::engine {
namespace {

__extension__ typedef __float128 Quad;

Quad value_of(Precise x) { return static_cast<Quad>(x.high) + x.low; }

// |got - want| / |want| in units of 2^-100.
double error_of(Precise got, Quad want) {
  const Quad error = (value_of(got) - want) / want;
  return static_cast<double>(error < 0 ? -error : error) * 0x1p100;
}

Precise some_precise(base::Prng& prng) {
  const double high = prng.unit() + 0.5;
  return {high, (prng.unit() - 0.5) * 0x1p-54 * high};
}

Quad quad_exp(Quad x) {
  x /= 4096;
  Quad sum = 1;
  for (int i = 25; i >= 1; --i) sum = 1 + x / i * sum;
  for (int i = 0; i < 12; ++i) sum *= sum;
  return sum;
}

TEST(Precise, ArithmeticHas100Bits) {
  base::Prng prng(5);
  for (int i = 0; i < 100'000; ++i) {
    const Precise a = some_precise(prng), b = some_precise(prng);
    ASSERT_LT(error_of(a + b, value_of(a) + value_of(b)), 1);
    ASSERT_LT(error_of(a * b, value_of(a) * value_of(b)), 1);
    ASSERT_LT(error_of(a / b, value_of(a) / value_of(b)), 1);
    for (const Precise x : {a + b, a * b, a / b}) ASSERT_EQ(x.high + x.low, x.high);
    ASSERT_EQ(a < b, value_of(a) < value_of(b));
    ASSERT_TRUE(a < (Precise{a.high, a.low + 0x1p-90}));
  }
}

TEST(Precise, WeightsHave90Bits) {
  base::Prng prng(6);
  for (const double temperature : {1.0, 0.7, 3.1, 1e-150, 1e200, 1e-300, 1e305}) {
    for (int i = 0; i < 5000; ++i) {
      const double largest = prng.unit() * 16 * temperature;
      const double logit = largest - prng.unit() *
                                         (i % 3 == 0   ? 1
                                          : i % 3 == 1 ? 16
                                                       : 575) *
                                         temperature;
      const Precise got = precise_weight(logit, largest, temperature);
      const Quad x = (static_cast<Quad>(logit) - largest) / temperature;
      ASSERT_LT(error_of(got, quad_exp(x)), 1024) << logit << " " << temperature;
      ASSERT_EQ(got.high + got.low, got.high);
    }
  }
}

TEST(Precise, WeightsAtTheEnds) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(precise_weight(3, 3, 1e-300).high, 1);
  EXPECT_EQ(precise_weight(infinity, infinity, 1).high, 1);
  EXPECT_EQ(precise_weight(3, infinity, 1).high, 0);
  EXPECT_EQ(precise_weight(-1e308, 1e308, 1).high, 0);
  EXPECT_EQ(precise_weight(0, 1e300, 5e-324).high, 0);
  EXPECT_EQ(precise_weight(0, 1e-300, 1e300).high, 1);
  EXPECT_EQ(precise_weight(0, 0x1p-80, 1).low, -0x1p-80);
}

}  // namespace
}  // namespace lockstep::engine
