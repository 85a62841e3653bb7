// Double-double arithmetic, and an exponential by repeated squaring.
#include "engine/sample/precise.h"

#include <array>
#include <cstddef>

namespace lockstep::engine {
namespace {

// The exact sum; |a| >= |b| or a = 0.
Precise fast_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// The exact sum.
Precise exact_sum(double a, double b) {
  const double sum = a + b;
  const double shadow = sum - a;
  return {sum, (a - (sum - shadow)) + (b - shadow)};
}

// The exact product, by halves of 26 bits. Operands between 2^-450 and 2^450 or 0.
Precise exact_product(double a, double b) {
  const auto high_half = [](double x) {
    const double scaled = x * 0x1.0000002p27;  // 2^27 + 1
    return scaled - (scaled - x);
  };
  const double product = a * b;
  const double a_high = high_half(a), b_high = high_half(b);
  const double a_low = a - a_high, b_low = b - b_high;
  const double error =
      ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return {product, error};
}

constexpr Precise kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// 1/1!, 1/2! ... 1/10!: the nearest double and what is missing. A quotient's remainder is exact
// where the factorial, here below 2^22, times the quotient is.
constexpr std::size_t kTerms = 10;
constexpr auto kInverseFactorials = [] {
  std::array<Precise, kTerms> values{};
  double factorial = 1;
  for (std::size_t i = 0; i < kTerms; ++i) {
    factorial *= static_cast<double>(i + 1);
    const double nearest = 1 / factorial;
    // The upper 26 bits and the rest, each exactly times the factorial.
    const double scaled = nearest * 0x1.0000002p27;
    const double upper = scaled - (scaled - nearest);
    const double remainder = (1 - upper * factorial) - (nearest - upper) * factorial;
    values[i] = {nearest, remainder / factorial};
  }
  return values;
}();

// e^x for -600 < x <= 0.
Precise precise_exp(Precise x) {
  // x = n ln 2 + 2^10 s, |s| < 2^-11. y = e^s - 1 by its series, then ten times (1 + y)^2 - 1 =
  // y (2 + y): this way y, which is small, keeps bits that 1 + y has no room for.
  constexpr int kSquarings = 10;
  const int n = static_cast<int>(x.high / kLn2.high - 0.5);
  Precise s = x + Precise{static_cast<double>(-n), 0} * kLn2;
  s = {s.high * 0x1p-10, s.low * 0x1p-10};
  Precise y;
  for (std::size_t i = kTerms; i-- > 0;) y = (y + kInverseFactorials[i]) * s;
  for (int i = 0; i < kSquarings; ++i) y = y * (y + Precise{2, 0});
  Precise result = y + Precise{1, 0};
  for (int i = n; i < 0; ++i) result = {result.high / 2, result.low / 2};
  return result;
}

}  // namespace

Precise operator+(Precise a, Precise b) {
  const Precise high = exact_sum(a.high, b.high);
  const Precise low = exact_sum(a.low, b.low);
  const Precise middle = fast_sum(high.high, high.low + low.high);
  return fast_sum(middle.high, middle.low + low.low);
}

Precise operator*(Precise a, Precise b) {
  const Precise product = exact_product(a.high, b.high);
  return fast_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

Precise operator/(Precise a, Precise b) {
  // Long division, a double's worth of digits at a time.
  const double first = a.high / b.high;
  const Precise rest = a + b * Precise{-first, 0};
  return fast_sum(first, rest.high / b.high);
}

bool operator<(Precise a, Precise b) { return a.high != b.high ? a.high < b.high : a.low < b.low; }

Precise precise_weight(double logit, double largest, double temperature) {
  if (logit == largest) return {1, 0};
  if (!((logit - largest) / temperature > -576)) return {};
  Precise difference = exact_sum(logit, -largest);
  // Products must neither overflow nor lose their last bits.
  if (temperature > 0x1p300 || temperature < 0x1p-300) {
    const double scale = temperature > 1 ? 0x1p-600 : 0x1p600;
    difference = {difference.high * scale, difference.low * scale};
    temperature *= scale;
  }
  return precise_exp(difference / Precise{temperature, 0});
}

}  // namespace lockstep::engine
