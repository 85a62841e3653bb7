// Exponential and logarithm against 80-digit values and the host's long double.
#include "reference/fixed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/prng.h"

namespace lockstep::reference {
namespace {

constexpr UnsignedFixed words(std::uint64_t high, std::uint64_t low) {
  return (UnsignedFixed{high} << 64) | low;
}
struct Known {
  double x;
  std::uint64_t high, low;  // of the result times 2^104, rounded
};
std::uint64_t apart(UnsignedFixed a, UnsignedFixed b) {
  return static_cast<std::uint64_t>(a > b ? a - b : b - a);
}
long double wide(UnsignedFixed x) {
  return std::ldexp(static_cast<long double>(static_cast<std::uint64_t>(x >> 64)), 64 - 104) +
         std::ldexp(static_cast<long double>(static_cast<std::uint64_t>(x)), -104);
}

// From Python's decimal with 80 digits. Within one step: 0.51 of ours and 0.5 of theirs.
TEST(Fixed, ExpIsWithinOneStepOfEightyDigits) {
  const Known known[] = {
      {-0x1p-60, 0xffffffffff, 0xfffff00000000000},
      {-1e-09, 0xfffffffbb4, 0x7d05ff8389a8dbed},
      {-0.001, 0xffbe7f2b78, 0xd4edd1cc0de9ed5c},
      {-0.3, 0xbda6434e1b, 0xe027deb19f8da1e5},
      {-0.5, 0x9b4597e37c, 0xb04ff3d675a35531},
      {-0.6931471805599453, 0x8000000000, 0xd5e4f1d9cc02},
      {-1.0, 0x5e2d58d8b3, 0xbcdf1abadec78290},
      {-3.25, 0x9ed1b4290, 0xc8169517478690bd},
      {-15.999, 0x1e3d1, 0x875cb38d509bacf1},
      {-31.0, 0x0, 0x9b090f1269ddcc5},
      {-50.125, 0x0, 0xcdc5ee75},
      {-72.0, 0x0, 0x1},
  };
  for (const Known& k : known) {
    EXPECT_LE(apart(exp_fixed(to_fixed(k.x)), words(k.high, k.low)), 1u) << k.x;
  }
  EXPECT_TRUE(exp_fixed(0) == kFixedOne);
  EXPECT_TRUE(exp_fixed(to_fixed(-74)) == 1);
  EXPECT_TRUE(exp_fixed(to_fixed(-4e6)) == 1);
}

TEST(Fixed, LogIsWithinOneStepOfEightyDigits) {
  const Known known[] = {
      {1.0, 0x0, 0x0},
      {1.0000000000000002, 0x0, 0x10000000000000},
      {1.25, 0x391fef8f35, 0x3443584bb03de5ff},
      {1.999, 0xb15151431f, 0x238cd47b5e8450aa},
      {2.0, 0xb17217f7d1, 0xcf79abc9e3b39804},
      {3.0, 0x1193ea7aad0, 0x30a976a4198d5505},
      {10.0, 0x24d763776aa, 0xa2b05ba95b58ae0b},
      {257.0, 0x58c904013a4, 0x42b609f60f774fa},
      {1048575.5, 0xddce9d75c64, 0x15816b1b1f5935a4},
      {1048576.0, 0xddce9df5c64, 0x35816bc5ca07e04f},
      {4194303.0, 0xf3fce0b4c07, 0xcc74c3443c197b02},
  };
  for (const Known& k : known) {
    const Fixed got = log_fixed(static_cast<UnsignedFixed>(to_fixed(k.x)));
    EXPECT_LE(apart(static_cast<UnsignedFixed>(got), words(k.high, k.low)), 1u) << k.x;
  }
  EXPECT_TRUE(log_fixed(kFixedOne) == 0);
}

// Every argument, not only chosen ones: x86 long double has 64 bits, and glibc's expl and logl err
// by less than 2 units of them (glibc manual, "Known Maximum Errors in Math Functions").
TEST(Fixed, AgreesWithLongDouble) {
  base::Prng prng(41);
  for (int i = 0; i < 200000; ++i) {
    const double x = -std::ldexp(static_cast<double>(prng.below(1u << 30)), -24);  // [-64, 0]
    const long double want = std::exp(static_cast<long double>(x));
    EXPECT_LE(std::abs(wide(exp_fixed(to_fixed(x))) - want), want * 0x1p-62L + 0x1p-104L) << x;
    const double y = 1 + std::ldexp(static_cast<double>(prng.below(1u << 30)),
                                    -static_cast<int>(prng.below(31)) - 8);
    const long double log_want = std::log(static_cast<long double>(y));
    const Fixed log_got = log_fixed(static_cast<UnsignedFixed>(to_fixed(y)));
    EXPECT_LE(std::abs(wide(static_cast<UnsignedFixed>(log_got)) - log_want),
              log_want * 0x1p-62L + 0x1p-104L)
        << y;
  }
}

// ln e^-x = -x: the two have separate tables and series. e^-x is off by 0.51 steps, which the
// logarithm of its multiple shows e^x times over.
TEST(Fixed, LogUndoesExp) {
  base::Prng prng(42);
  for (int i = 0; i < 20000; ++i) {
    const double x = std::ldexp(static_cast<double>(prng.below(1u << 30)), -28);  // [0, 4)
    const UnsignedFixed share = exp_fixed(to_fixed(-x));
    constexpr int kScale = 6;  // 2^6 > e^4
    const Fixed log_scale = log_fixed(kFixedOne << kScale);
    const Fixed back = log_fixed(share << kScale) - log_scale;
    const Fixed off = back + to_fixed(x);
    EXPECT_LE(off < 0 ? -off : off, static_cast<Fixed>(std::ceil(0.51 * std::exp(x) + 1.02))) << x;
  }
}

TEST(Fixed, ExpGrows) {
  base::Prng prng(43);
  for (int i = 0; i < 20000; ++i) {
    const Fixed x = -to_fixed(std::ldexp(static_cast<double>(prng.below(1u << 30)), -25));
    const Fixed gap = Fixed{1} << prng.below(80);
    EXPECT_LE(exp_fixed(x - gap), exp_fixed(x));
  }
}

TEST(Fixed, MultiplyShiftIsTheProductCutOff) {
  base::Prng prng(44);
  for (int i = 0; i < 20000; ++i) {
    // The product in limbs of 32 bits, divided by two again and again.
    const UnsignedFixed x = words(prng.next() >> 3, prng.next());
    const std::uint64_t factor = prng.next() >> 9 >> prng.below(30);
    const int shift = 53 + static_cast<int>(prng.below(150));
    std::uint32_t limbs[8] = {};
    for (int a = 0; a < 4; ++a) {
      std::uint64_t carry = 0;
      for (int b = 0; b < 2; ++b) {
        const auto left = static_cast<std::uint32_t>(x >> (32 * a));
        const auto right = static_cast<std::uint32_t>(factor >> (32 * b));
        carry += std::uint64_t{left} * right + limbs[a + b];
        limbs[a + b] = static_cast<std::uint32_t>(carry);
        carry >>= 32;
      }
      limbs[a + 2] += static_cast<std::uint32_t>(carry);
    }
    bool inexact = false;
    for (int s = 0; s < shift; ++s) {
      inexact = inexact || (limbs[0] & 1) != 0;
      for (int l = 0; l < 8; ++l) limbs[l] = (limbs[l] >> 1) | (l < 7 ? limbs[l + 1] << 31 : 0);
    }
    const UnsignedFixed want = words((std::uint64_t{limbs[3]} << 32) | limbs[2],
                                     (std::uint64_t{limbs[1]} << 32) | limbs[0]);
    const Scaled got = multiply_shift(x, factor, shift);
    EXPECT_TRUE(got.floor == want) << i;
    EXPECT_EQ(got.inexact, inexact) << i;
  }
}

TEST(Fixed, DoublesComeBack) {
  for (const double x : {0.0, 1.0, -1.0, 0.1, -1e-15, 4194303.75, -4e6}) {
    EXPECT_EQ(to_double(to_fixed(x)), x);
  }
  // Half-way cases go to the even one.
  EXPECT_EQ(to_double((Fixed{1} << 104) + (Fixed{1} << 51)), 1.0);
  EXPECT_EQ(to_double((Fixed{1} << 104) + (Fixed{3} << 51)), 1.0 + 0x1p-51);
  EXPECT_EQ(to_double((Fixed{1} << 104) + (Fixed{1} << 51) + 1), 1.0 + 0x1p-52);
}

}  // namespace
}  // namespace lockstep::reference
