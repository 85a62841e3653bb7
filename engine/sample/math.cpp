// Both functions reduce to a small interval and sum a Taylor series; the leading terms are added
// last, so that the result's error is one rounding and a little.
#include "engine/sample/math.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lockstep::engine {
namespace {

// ln 2 = high + low + an error below 2^-86. `high` ends in 20 zero bits: its product with an
// integer below 2^20 is exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 2^exponent, a normal number: -1022 <= exponent <= 1023.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// 1/2!, 1/3! ... 1/14!, each rounded once (the factorials are exact).
constexpr auto kInverseFactorials = [] {
  std::array<double, 13> values{};
  double factorial = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    factorial *= static_cast<double>(i + 2);
    values[i] = 1 / factorial;
  }
  return values;
}();

// (e^r - 1 - r) / r^2 for |r| <= 0.35. What is cut off is below 0.35^13 / 15! < 2^-59 of it.
// Summed in a tree (Estrin), whose halves do not wait for each other.
double exp_tail(double r) {
  const auto& c = kInverseFactorials;
  const double r2 = r * r, r4 = r2 * r2;
  const double low = (c[0] + c[1] * r) + (c[2] + c[3] * r) * r2;
  const double middle = (c[4] + c[5] * r) + (c[6] + c[7] * r) * r2;
  const double high = (c[8] + c[9] * r) + (c[10] + c[11] * r) * r2 + c[12] * r4;
  return low + (middle + high * r4) * r4;
}

// 2/3, 2/5 ... 2/25.
constexpr auto kLogTerms = [] {
  std::array<double, 12> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 / static_cast<double>(2 * i + 3);
  return values;
}();

}  // namespace

double portable_exp(double x) {
  if (x != x) return x;
  if (x > 710) return kInfinity;
  if (x < -746) return 0;
  // x = n ln 2 + r, |r| <= ln 2 / 2 and a little. Truncation after adding a half rounds.
  const int n = static_cast<int>(x * kInverseLn2 + (x < 0 ? -0.5 : 0.5));
  const double high = x - n * kLn2High;  // exact: the operands are within a factor of two, or n = 0
  const double low = n * kLn2Low;
  const double r = high - low;
  const double error = (high - r) - low;  // r + error = high - low
  const double value = 1 + (r + (error + r * r * exp_tail(r)));
  // In two steps, since 2^n itself may be no normal number; only the last product can round.
  const int half = n / 2;
  return value * power_of_two(half) * power_of_two(n - half);
}

double portable_log(double x) {
  if (x != x || x == kInfinity) return x;
  if (x == 0) return -kInfinity;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  // x = 2^exponent m, with m between sqrt(1/2) and sqrt(2) or so.
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m =
      std::bit_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1023} << 52));
  if (m > 0x1.6a09e667f3bcdp+0) {
    m /= 2;
    ++exponent;
  }
  // With f = m - 1 (exact) and s = f / (2 + f): log m = log((1 + s) / (1 - s)) = 2s + s T, where
  // T = 2 (s^2/3 + s^4/5 + ...). As 2s = f - s f and s f = f^2/2 - s f^2/2, log m = f - (f^2/2 -
  // s (f^2/2 + T)): f is exact, and what is subtracted from it is smaller. Terms after s^24 are
  // below 2^-67.
  const double f = m - 1;
  const double s = f / (2 + f);
  const double square = s * s;
  double tail = 0;
  for (std::size_t i = kLogTerms.size(); i-- > 0;) tail = (tail + kLogTerms[i]) * square;
  const double half_square = 0.5 * f * f;
  const double correction = s * (half_square + tail) + exponent * kLn2Low;
  return exponent * kLn2High - ((half_square - correction) - f);
}

}  // namespace lockstep::engine
