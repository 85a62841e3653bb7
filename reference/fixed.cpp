// Inside, numbers in [0, 2) are words of 128 bits with 127 below the point ("units" of 2^-127).
//
// Errors. product() drops less than 8 units. A table entry of e^-x is a Taylor sum of 33 products
// by a number below ln 2, each error shrunk by the next product: less than 8 / (1 - ln 2) + 33 < 60
// units. The series for x < 2^-16 is off by less than 10: what it leaves out is below 2^-124, and
// its inner terms have an error of 3 * 2^-64, times x^4. So the product of the three is off by less
// than 2^8 units; its argument by at most 105 * 2^-120 < 2^-113 (ln 2 in 120 bits, 105 times). In
// all e^x is off by less than 2^-112, and by half a step of 2^-104 from rounding: below
// 0.51 * 2^-104. A logarithm: table entry (256 additions of sums cut below 64 units each: 2^14
// units), series (10 units), ln 2 in 120 bits up to 22 times (22 * 2^7 < 2^12 units): below 2^-112.
#include "reference/fixed.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"

namespace lockstep::reference {
namespace {

using Word = UnsignedFixed;
constexpr int kWordBits = 127;
constexpr Word kOne = Word{1} << kWordBits;

// floor(ln 2 * 2^120); fixed_test.cpp holds it against log_fixed's own series.
constexpr int kLn2Bits = 120;
constexpr Word kLn2 = (Word{0xb17217f7d1cf79} << 64) | 0xabc9e3b39803f2f6;
// floor(2^60 / ln 2)
constexpr std::uint64_t kInverseLn2 = 0x171547652b82fe17;
// e^-73 < 2^-105: from here on the result is its least value.
constexpr int kLowestArgument = 73;

constexpr std::uint64_t low(Word x) { return static_cast<std::uint64_t>(x); }
constexpr std::uint64_t high(Word x) { return static_cast<std::uint64_t>(x >> 64); }

constexpr Word product(Word a, Word b) {
  const Word crossed = (Word{high(a)} * low(b) >> 64) + (Word{low(a)} * high(b) >> 64);
  return (Word{high(a)} * high(b) + crossed) << 1;
}

constexpr int kFactorials = 34;  // 2^127 / 34! < 1
constexpr std::array<Word, kFactorials> inverse_factorials() {
  std::array<Word, kFactorials> inverse{};
  Word factorial = 1;
  for (unsigned n = 0; n < kFactorials; ++n) {
    if (n > 1) factorial *= n;
    inverse[n] = kOne / factorial;
  }
  return inverse;
}
constexpr std::array<Word, kFactorials> kInverseFactorials = inverse_factorials();

// e^-x by its Taylor series, x < 1.
constexpr Word exp_series(Word x) {
  Word sum = kInverseFactorials[kFactorials - 1];
  for (unsigned n = kFactorials - 1; n-- > 0;) sum = kInverseFactorials[n] - product(x, sum);
  return sum;
}

constexpr int kTableBits = 8;
template <std::size_t kSize>
constexpr std::array<Word, kSize> exp_table(int fraction_bits) {  // e^-(j / 2^fraction_bits)
  std::array<Word, kSize> table{};
  for (std::size_t j = 0; j < kSize; ++j)
    table[j] = exp_series(Word{j} << (kWordBits - fraction_bits));
  return table;
}
// 256 ln 2 = 177.4, and one to spare.
constexpr std::array<Word, 179> kExpTable = exp_table<179>(kTableBits);
constexpr std::array<Word, 256> kFineExpTable = exp_table<256>(2 * kTableBits);

// e^-x for x < 2^-16. From x^4 on words of 64 bits do.
Word exp_small(Word x) {
  const auto coefficient = [](unsigned n) {
    return static_cast<std::uint64_t>(kInverseFactorials[n] >> (kWordBits - 64));
  };
  const auto short_x = static_cast<std::uint64_t>(x >> (kWordBits - 64));
  const std::uint64_t fifth = coefficient(5) - high(Word{short_x} * coefficient(6));
  const std::uint64_t fourth = coefficient(4) - high(Word{short_x} * fifth);
  Word sum = Word{fourth} << (kWordBits - 64);
  for (unsigned n = 4; n-- > 0;) sum = kInverseFactorials[n] - product(x, sum);
  return sum;
}

// ln(1 + j / 256): each is the one before plus ln((256 + j) / (255 + j)) = 2 atanh(1 / (511 + 2
// j)).
constexpr std::array<Word, 256> log_table() {
  std::array<Word, 256> table{};
  for (unsigned j = 1; j < table.size(); ++j) {
    const unsigned q = 511 + 2 * j;
    Word sum = 0;
    Word power = kOne / q * 2;
    for (unsigned n = 1; power > 0; n += 2) {
      sum += power / n;
      power = power / q / q;
    }
    table[j] = table[j - 1] + sum;
  }
  return table;
}
constexpr std::array<Word, 256> kLogTable = log_table();

// ln(1 + x) for x < 2^-8: x (1 - x / 2 + x^2 / 3 - ...), terms below 2^-128 left out.
Word log_series(Word x) {
  constexpr unsigned kTerms = 15;
  static const std::array<Word, kTerms + 1> inverse = [] {
    std::array<Word, kTerms + 1> values{};
    for (unsigned n = 1; n <= kTerms; ++n) values[n] = kOne / n;
    return values;
  }();
  Word sum = inverse[kTerms];
  for (unsigned n = kTerms - 1; n > 0; --n) sum = inverse[n] - product(x, sum);
  return product(x, sum);
}

Word round_shift(Word x, int shift) { return ((x >> (shift - 1)) + 1) >> 1; }

}  // namespace

Fixed to_fixed(double x) {
  LS_CHECK(x < 0x1p22 && x > -0x1p22);
  return static_cast<Fixed>(x * 0x1p104);
}

double to_double(Fixed x) { return static_cast<double>(x) * 0x1p-104; }

UnsignedFixed exp_fixed(Fixed x) {
  LS_CHECK(x <= 0);
  // Negated without overflow, whatever x is.
  const UnsignedFixed below = -static_cast<UnsignedFixed>(x);
  if (below >= kFixedOne * kLowestArgument) return 1;
  // -x = n ln 2 + j / 2^8 + k / 2^16 + rest. Rounded down, n is right or one too small.
  const auto n = static_cast<int>(Word{low(below >> 56)} * kInverseLn2 >> (48 + 60));
  const Word remainder = (below << (kLn2Bits - kFixedBits)) - kLn2 * static_cast<unsigned>(n);
  const std::uint64_t head = low(remainder >> (kLn2Bits - 2 * kTableBits));
  const Word rest = (remainder - (Word{head} << (kLn2Bits - 2 * kTableBits)))
                    << (kWordBits - kLn2Bits);
  const Word table = product(kExpTable[head >> kTableBits], kFineExpTable[head % 256]);
  const Word fraction = product(table, exp_small(rest));
  const int shift = kWordBits - kFixedBits + n;
  if (shift >= 128) return 1;
  return std::max<UnsignedFixed>(1, round_shift(fraction, shift));
}

Fixed log_fixed(UnsignedFixed x) {
  LS_CHECK(x >= kFixedOne && x >> (kFixedBits + 22) == 0);
  // x = 2^exponent * (1 + j / 256) * (1 + rest)
  const int exponent = 127 - std::countl_zero(high(x)) - kFixedBits;
  const Word mantissa = x << (kWordBits - kFixedBits - exponent);
  const auto divisor = static_cast<unsigned>(mantissa >> (kWordBits - kTableBits));  // 256 + j
  const Word quotient = mantissa / divisor;
  const Word ratio = (quotient << kTableBits) + ((mantissa % divisor) << kTableBits) / divisor;
  const Word fraction = kLogTable[divisor - 256] + log_series(ratio - kOne);
  const Word sum = kLn2 * static_cast<unsigned>(exponent) + (fraction >> (kWordBits - kLn2Bits));
  return static_cast<Fixed>(round_shift(sum, kLn2Bits - kFixedBits));
}

Scaled multiply_shift(UnsignedFixed x, std::uint64_t factor, int shift) {
  LS_CHECK(shift > 0);
  const UnsignedFixed bottom = UnsignedFixed{low(x)} * factor;
  const UnsignedFixed top = UnsignedFixed{high(x)} * factor + high(bottom);  // times 2^64
  const std::uint64_t tail = low(bottom);
  if (shift < 64) {
    LS_CHECK(top >> (64 + shift) == 0);
    return {(top << (64 - shift)) | (tail >> shift), tail << (64 - shift) != 0};
  }
  if (shift == 64) return {top, tail != 0};
  if (shift >= 192) return {0, top != 0 || tail != 0};
  return {top >> (shift - 64), tail != 0 || top << (192 - shift) != 0};
}

}  // namespace lockstep::reference
