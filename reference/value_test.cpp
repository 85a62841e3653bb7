// Each rule of value.h against float arithmetic: whatever floats do, the ball holds it.
#include "reference/value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/prng.h"
#include "reference/ops/gate.h"
#include "reference/ops/rms_norm.h"
#include "reference/ops/rope.h"

namespace lockstep::reference {
namespace {

using model::DType;

bool holds(const Ball& ball, double x) { return std::fabs(x - ball.value) <= ball.radius; }

float draw(base::Prng& prng, int exponents) {
  const int exponent = static_cast<int>(prng.below(2 * exponents + 1)) - exponents;
  return static_cast<float>(std::ldexp(prng.normal(), exponent));
}

// A float somewhere in the ball, and the ball.
struct Sample {
  float x;
  Ball ball;
};
Sample sample(base::Prng& prng, int exponents) {
  const float x = draw(prng, exponents);
  const double radius = prng.below(3) == 0 ? 0 : std::fabs(x) * 0x1p-20 * prng.unit();
  return {x, {static_cast<double>(x) + radius * (2 * prng.unit() - 1), radius}};
}

TEST(Value, PrimitivesHoldWhatFloatsCompute) {
  base::Prng prng(1);
  for (int i = 0; i < 20000; ++i) {
    const Sample a = sample(prng, 12);
    const Sample b = sample(prng, 12);
    const auto check = [&](const Ball& ball, float got, const char* what) {
      ASSERT_TRUE(holds(ball, static_cast<double>(got)))
          << what << " of " << a.x << " and " << b.x << ": " << got << " against " << ball.value
          << " +- " << ball.radius;
    };
    check(add(a.ball, b.ball, kF32Unit), a.x + b.x, "sum");
    check(subtract(a.ball, b.ball, kF32Unit), a.x - b.x, "difference");
    check(multiply(a.ball, b.ball, kF32Unit), a.x * b.x, "product");
    if (b.x != 0) check(divide(a.ball, b.ball, kF32Unit), a.x / b.x, "quotient");
    const Ball size{std::fabs(a.ball.value), a.ball.radius};
    check(square_root(size, kF32Unit), std::sqrt(std::fabs(a.x)), "root");
    const float exponent = std::clamp(b.x, -100.0f, 100.0f);
    const Ball of{exponent, b.ball.radius};
    check(exp2_of(of, kEx2Error), std::exp2(exponent), "power");
  }
}

TEST(Value, SubnormalProductsAndQuotientsStayInside) {
  base::Prng prng(2);
  for (int i = 0; i < 5000; ++i) {
    const float a = std::ldexp(draw(prng, 3), -80);
    const float b = std::ldexp(draw(prng, 3), -60);
    EXPECT_TRUE(holds(multiply(Ball{a, 0}, Ball{b, 0}, kF32Unit), static_cast<double>(a * b)));
    const float c = std::ldexp(draw(prng, 3), 60);
    EXPECT_TRUE(holds(divide(Ball{a, 0}, Ball{c, 0}, kF32Unit), static_cast<double>(a / c)));
  }
}

TEST(Value, RoundingOfAKnownValueIsAnEqualityAndOfABallAnInterval) {
  base::Prng prng(3);
  for (const DType format : {DType::F16, DType::BF16, DType::F32}) {
    for (int i = 0; i < 5000; ++i) {
      const double x = draw(prng, 10);
      const Ball known = round_to(format, Ball{x, 0});
      EXPECT_EQ(known.value, round_to(format, x));
      EXPECT_EQ(known.radius, 0);
      const double radius = std::fabs(x) * 0x1p-12 * prng.unit();
      const Interval interval = round_interval(format, {x, radius});
      const double inside = x + radius * (2 * prng.unit() - 1);
      const double rounded = round_to(format, inside);
      EXPECT_TRUE(interval.low <= rounded && rounded <= interval.high);
      EXPECT_TRUE(holds(round_to(format, Ball{x, radius}), rounded));
    }
  }
}

TEST(RmsNorm, RadiusHoldsFloatChainsOfTheDeclaredDepth) {
  base::Prng prng(4);
  for (int i = 0; i < 300; ++i) {
    const std::size_t n = 1 + prng.below(200);
    const double size = std::ldexp(1.0, static_cast<int>(prng.below(120)) - 80);
    std::vector<float> x(n);
    for (float& element : x) element = static_cast<float>(size * prng.normal());
    const float epsilon = 1e-6f;
    float sum = 0;
    for (const float element : x) sum = sum + element * element;
    const float scale = 1 / std::sqrt(sum / static_cast<float>(n) + epsilon);
    const std::vector<double> exact(x.begin(), x.end());
    const std::vector<double> weight(n, static_cast<double>(1.37f));
    std::vector<Ball> y(n);
    rms_norm<Ball>(exact, weight, epsilon, {static_cast<std::uint32_t>(n) + 1, false}, y);
    for (std::size_t j = 0; j < n; ++j) {
      EXPECT_TRUE(holds(y[j], static_cast<double>(x[j] * scale * 1.37f)));
    }
  }
}

TEST(Gate, RadiusHoldsFloatsOverTheWholeRange) {
  base::Prng prng(5);
  const auto k0 = static_cast<float>(std::sqrt(2 / std::numbers::pi));
  const auto log2e = static_cast<float>(std::numbers::log2e);
  for (int i = 0; i < 40000; ++i) {
    const float g = draw(prng, 8);
    const float up = draw(prng, 8);
    const float z = k0 * (g + 0.044715f * g * g * g);
    const float gelu = g / (1 + std::exp2(-2 * z * log2e)) * up;
    const float silu = g / (1 + std::exp2(-g * log2e)) * up;
    EXPECT_TRUE(holds(gate_element<Ball>(model::Activation::GeluTanh, g, up, {}),
                      static_cast<double>(gelu)))
        << g << " " << up;
    EXPECT_TRUE(
        holds(gate_element<Ball>(model::Activation::Silu, g, up, {}), static_cast<double>(silu)))
        << g << " " << up;
  }
}

TEST(Gate, ZeroAndLargeGatesAreExact) {
  for (const auto activation : {model::Activation::GeluTanh, model::Activation::Silu}) {
    EXPECT_EQ(gate_element<double>(activation, 0, 3, {}), 0);
    EXPECT_EQ(gate_element<double>(activation, 200, 3, {}), 600);
    EXPECT_EQ(gate_element<double>(activation, -2000, 3, {}), 0);
  }
}

TEST(Rope, PositionZeroIsTheIdentityWithNoErrorInTheTable) {
  AttentionFacts facts;
  facts.rope_frequencies = {1.0, 0.1, 0.01};
  facts.frequency_error = 0x1p-50;
  std::vector<Angle<Ball>> angles(3);
  rope_angles<Ball>(facts, 0, angles);
  for (const Angle<Ball>& angle : angles) {
    EXPECT_EQ(angle.cosine.value, 1);
    EXPECT_EQ(angle.cosine.radius, 0);
    EXPECT_EQ(angle.sine.value, 0);
    EXPECT_EQ(angle.sine.radius, 0);
  }
}

TEST(Rope, PairingsRotateTheSamePairsInOtherPlaces) {
  const std::vector<double> x = {1, 2, 3, 4};
  std::vector<Angle<double>> angles = {{0.6, 0.8}, {0.8, 0.6}};
  std::vector<double> half(4), interleaved(4);
  rotate<double>(x, angles, model::RopePairing::Half, half);
  rotate<double>(std::vector<double>{1, 3, 2, 4}, angles, model::RopePairing::Interleaved,
                 interleaved);
  EXPECT_EQ(half[0], interleaved[0]);
  EXPECT_EQ(half[2], interleaved[1]);
  EXPECT_EQ(half[1], interleaved[2]);
  EXPECT_EQ(half[3], interleaved[3]);
  EXPECT_EQ(half[0], 1 * 0.6 - 3 * 0.8);
}

}  // namespace
}  // namespace lockstep::reference
