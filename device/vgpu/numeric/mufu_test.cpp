// The approximate instructions against the host's long double functions: special results, errors
// inside the documented ones in every mode, nominal results nearly always correctly rounded.
#include "device/vgpu/numeric/mufu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/prng.h"

namespace lockstep::device::vgpu::numeric {
namespace {

using Mode = ApproximationMode;
using Function = std::uint32_t (*)(std::uint32_t);

// An exact value in long double: its own error (2^-60 relative at most; glibc states 1 or 2 ulp of
// 2^-63) is 2^-36 of the smallest documented error.
using Exact = long double (*)(long double);

constexpr long double kPi = 3.14159265358979323846264338327950288L;

long double ulp_of(long double exact) {
  if (exact == 0) return 0x1p-149L;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::max(std::ldexp(1.0L, exponent - 24), 0x1p-149L);
}

// The documented error of a function at an exact result and operand; negative: none stated.
long double ex2_error(long double, long double exact) { return 2 * ulp_of(exact); }
long double rcp_error(long double, long double exact) { return ulp_of(exact); }
long double lg2_error(long double x, long double exact) {
  return x > 0.5L && x < 2.0L ? 0x1p-22L : 0x1p-22L * std::abs(exact);
}
long double rsqrt_error(long double, long double exact) { return kRsqrtRelative * exact; }
long double sqrt_error(long double, long double exact) { return 0x1p-23L * exact; }
long double tanh_error(long double, long double exact) { return 0x1p-11L * std::abs(exact); }
long double sin_error(long double x, long double) {
  if (std::abs(x) <= 2 * kPi) return kSinAbsolute;
  if (std::abs(x) <= 100 * kPi) return kSinAbsoluteTo100Pi;
  return -1;
}

struct Instruction {
  const char* name;
  Function mode[4];  // Nominal, Low, High, Hashed
  Exact exact;
  long double (*error)(long double x, long double exact);
  bool flushes;   // .ftz: subnormal operands and results are zero
  bool positive;  // for positive operands only
};

#define MODES(f) \
  { f<Mode::Nominal>, f<Mode::Low>, f<Mode::High>, f<Mode::Hashed> }
#define MODES_FTZ(f, ftz) \
  { f<Mode::Nominal, ftz>, f<Mode::Low, ftz>, f<Mode::High, ftz>, f<Mode::Hashed, ftz> }

const Instruction kInstructions[] = {
    {"ex2", MODES_FTZ(ex2_approx_f32, false), [](long double x) { return std::exp2(x); }, ex2_error,
     false, false},
    {"ex2.ftz", MODES_FTZ(ex2_approx_f32, true), [](long double x) { return std::exp2(x); },
     ex2_error, true, false},
    {"lg2", MODES_FTZ(lg2_approx_f32, false), [](long double x) { return std::log2(x); }, lg2_error,
     false, true},
    {"lg2.ftz", MODES_FTZ(lg2_approx_f32, true), [](long double x) { return std::log2(x); },
     lg2_error, true, true},
    {"rcp", MODES_FTZ(rcp_approx_f32, false), [](long double x) { return 1 / x; }, rcp_error, false,
     false},
    {"rcp.ftz", MODES_FTZ(rcp_approx_f32, true), [](long double x) { return 1 / x; }, rcp_error,
     true, false},
    {"rsqrt", MODES_FTZ(rsqrt_approx_f32, false), [](long double x) { return 1 / std::sqrt(x); },
     rsqrt_error, false, true},
    {"rsqrt.ftz", MODES_FTZ(rsqrt_approx_f32, true), [](long double x) { return 1 / std::sqrt(x); },
     rsqrt_error, true, true},
    {"sqrt", MODES_FTZ(sqrt_approx_f32, false), [](long double x) { return std::sqrt(x); },
     sqrt_error, false, true},
    {"sqrt.ftz", MODES_FTZ(sqrt_approx_f32, true), [](long double x) { return std::sqrt(x); },
     sqrt_error, true, true},
    {"sin", MODES(sin_approx_f32), [](long double x) { return std::sin(x); }, sin_error, false,
     false},
    {"cos", MODES(cos_approx_f32), [](long double x) { return std::cos(x); }, sin_error, false,
     false},
    {"tanh", MODES(tanh_approx_f32), [](long double x) { return std::tanh(x); }, tanh_error, false,
     false},
};

bool is_subnormal(std::uint32_t x) { return (x & 0x7f800000) == 0 && (x & 0x7fffffff) != 0; }

// Whether operand x is one that the documented error speaks of.
bool judged(const Instruction& instruction, std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  if (magnitude == 0 || magnitude >= 0x7f800000) return false;
  if (instruction.positive && (x >> 31) != 0) return false;
  return !(instruction.flushes && is_subnormal(x));
}

// Empty, or what is wrong with instruction(x) in a mode.
std::string judge(const Instruction& instruction, int mode, std::uint32_t x) {
  const auto operand = static_cast<long double>(as_float(x));
  const long double exact = instruction.exact(operand);
  const long double error = instruction.error(operand, exact);
  if (error < 0) return {};
  const std::uint32_t bits = instruction.mode[mode](x);
  const auto result = static_cast<long double>(as_float(bits));
  const long double maximum = std::numeric_limits<float>::max();
  if (std::isinf(result) && std::abs(exact) + error >= maximum) return {};
  // A flushed result may be short of the smallest normal number by all of it.
  if (instruction.flushes && bits << 1 == 0 && std::abs(exact) - error < 0x1p-126L) return {};
  if (std::abs(result - exact) <= error) return {};
  char text[160];
  std::snprintf(text, sizeof text, "%s mode %d of %08x is %08x, %Lg of the allowed error",
                instruction.name, mode, x, bits, std::abs(result - exact) / error);
  return text;
}

// Operands: all exponents, random fractions, and the neighbours of round numbers.
std::vector<std::uint32_t> operands(std::size_t count) {
  base::Prng prng(20);
  std::vector<std::uint32_t> result;
  for (std::uint32_t exponent = 0; exponent < 512; ++exponent) {
    for (int step = -2; step <= 2; ++step) {
      result.push_back((exponent << 23) + static_cast<std::uint32_t>(step));
      result.push_back(as_bits(static_cast<float>(exponent)) + static_cast<std::uint32_t>(step));
      result.push_back(as_bits(-static_cast<float>(exponent)) + static_cast<std::uint32_t>(step));
    }
  }
  while (result.size() < count) {
    result.push_back(static_cast<std::uint32_t>(prng.next()));
    result.push_back(as_bits(static_cast<float>(prng.normal() * 8)));
    result.push_back(as_bits(static_cast<float>(1 + prng.normal() * 0x1p-8)));
  }
  return result;
}

TEST(Mufu, every_mode_stays_inside_the_documented_error) {
  const std::vector<std::uint32_t> values = operands(60000);
  for (const Instruction& instruction : kInstructions) {
    for (int mode = 0; mode < 4; ++mode) {
      for (const std::uint32_t x : values) {
        if (!judged(instruction, x)) continue;
        const std::string problem = judge(instruction, mode, x);
        ASSERT_TRUE(problem.empty()) << problem;
      }
    }
  }
}

// Low and High use what is allowed: their distance from the exact value comes within one place of
// the error (the grid of results) less the 2^-12 part that the model leaves.
TEST(Mufu, low_and_high_reach_to_the_edge_of_the_error) {
  const std::vector<std::uint32_t> values = operands(30000);
  for (const Instruction& instruction : kInstructions) {
    for (const std::uint32_t x : values) {
      if (!judged(instruction, x) || is_subnormal(x) ||
          (x >> 31 != 0 && std::string(instruction.name).substr(0, 3) != "ex2"))
        continue;
      const auto operand = static_cast<long double>(as_float(x));
      const long double exact = instruction.exact(operand);
      const long double error = instruction.error(operand, exact);
      if (error < 0 || std::abs(exact) < 0x1p-120L || std::abs(exact) > 0x1p120L) continue;
      // At a power of two a place below is half of one above; the model takes the smaller.
      int exponent = 0;
      if (std::frexp(static_cast<double>(exact), &exponent) == 0.5) continue;
      const auto low = static_cast<long double>(as_float(instruction.mode[1](x)));
      const auto high = static_cast<long double>(as_float(instruction.mode[2](x)));
      const long double reach = error * (1 - 0x1p-11L) - ulp_of(std::abs(exact) + error);
      const bool unit = std::string(instruction.name) == "sin" ||
                        std::string(instruction.name) == "cos" ||
                        std::string(instruction.name) == "tanh";
      if (!(unit && std::abs(exact) + error > 1)) {
        EXPECT_GE(exact - low, reach) << instruction.name << ' ' << x;
        EXPECT_GE(high - exact, reach) << instruction.name << ' ' << x;
      }
    }
  }
}

// Nominal: at most half a place and the model's own error (2^-37 relative: 2^-13 places) away,
// where the instruction is one unit operation on normal numbers.
TEST(Mufu, nominal_results_are_correctly_rounded_but_for_near_ties) {
  const std::vector<std::uint32_t> values = operands(60000);
  for (const Instruction& instruction : kInstructions) {
    const std::string name = instruction.name;
    if (name == "sin" || name == "cos") continue;  // their range reduction is the instruction's
    for (const std::uint32_t x : values) {
      if (!judged(instruction, x) || is_subnormal(x)) continue;
      const auto operand = static_cast<long double>(as_float(x));
      const long double exact = instruction.exact(operand);
      if (!(std::abs(exact) >= 0x1p-126L && std::abs(exact) < 0x1p127L)) continue;
      const auto result = static_cast<long double>(as_float(instruction.mode[0](x)));
      ASSERT_LE(std::abs(result - exact), ulp_of(exact) * (0.5L + 0x1p-13L)) << name << ' ' << x;
    }
  }
}

struct Special {
  const char* instruction;
  std::uint32_t operand, result;
};
const Special kSpecials[] = {
    {"ex2", 0xff800000, 0},
    {"ex2", 0x80000000, 0x3f800000},
    {"ex2", 0, 0x3f800000},
    {"ex2", 0x00000001, 0x3f800000},
    {"ex2", 0x7f800000, 0x7f800000},
    {"ex2", 0x7fc00001, kNanF32},
    {"ex2", 0xffc00001, kNanF32},
    {"ex2", 0x43000000, 0x7f800000},
    {"ex2.ftz", 0xff800000, 0},
    {"ex2.ftz", 0x80000001, 0x3f800000},
    {"ex2.ftz", 0x7f800000, 0x7f800000},
    {"ex2.ftz", 0xc2fd0000, 0},
    {"lg2", 0xff800000, kNanF32},
    {"lg2", 0xbf800000, kNanF32},
    {"lg2", 0x80000000, 0xff800000},
    {"lg2", 0, 0xff800000},
    {"lg2", 0x7f800000, 0x7f800000},
    {"lg2", 0x7fc00000, kNanF32},
    {"lg2.ftz", 0x00000001, 0xff800000},
    {"lg2.ftz", 0x80000001, 0xff800000},
    {"lg2", 0x80000001, kNanF32},
    {"rcp", 0xff800000, 0x80000000},
    {"rcp", 0x80000000, 0xff800000},
    {"rcp", 0, 0x7f800000},
    {"rcp", 0x7f800000, 0},
    {"rcp", 0xffffffff, kNanF32},
    {"rcp.ftz", 0x80000001, 0xff800000},
    {"rcp.ftz", 0x7f000000, 0},
    {"rsqrt", 0xff800000, kNanF32},
    {"rsqrt", 0xbf800000, kNanF32},
    {"rsqrt", 0x80000000, 0xff800000},
    {"rsqrt", 0, 0x7f800000},
    {"rsqrt", 0x7f800000, 0},
    {"rsqrt", 0x80000001, kNanF32},
    {"rsqrt", 0x7f800001, kNanF32},
    {"rsqrt.ftz", 0x00000001, 0x7f800000},
    {"rsqrt.ftz", 0x80000001, 0xff800000},
    {"sqrt", 0xff800000, kNanF32},
    {"sqrt", 0xbf800000, kNanF32},
    {"sqrt", 0x80000000, 0x80000000},
    {"sqrt", 0, 0},
    {"sqrt", 0x7f800000, 0x7f800000},
    {"sqrt", 0x7fc00000, kNanF32},
    {"sqrt.ftz", 0x80000001, 0x80000000},
    {"sqrt.ftz", 0x00000001, 0},
    {"sin", 0xff800000, kNanF32},
    {"sin", 0x80000000, 0x80000000},
    {"sin", 0, 0},
    {"sin", 0x7f800000, kNanF32},
    {"sin", 0x7fc00000, kNanF32},
    {"cos", 0xff800000, kNanF32},
    {"cos", 0x80000000, 0x3f800000},
    {"cos", 0, 0x3f800000},
    {"cos", 0x7f800000, kNanF32},
    {"cos", 0x7fc00000, kNanF32},
    {"tanh", 0xff800000, 0xbf800000},
    {"tanh", 0x80000000, 0x80000000},
    {"tanh", 0, 0},
    {"tanh", 0x7f800000, 0x3f800000},
    {"tanh", 0xffc00000, kNanF32},
    {"tanh", 0x00000007, 7},
    {"tanh", 0x80000007, 0x80000007},
};

TEST(Mufu, special_results_hold_in_every_mode) {
  for (const Special& special : kSpecials) {
    for (const Instruction& instruction : kInstructions) {
      if (std::string(instruction.name) != special.instruction) continue;
      for (int mode = 0; mode < 4; ++mode) {
        EXPECT_EQ(instruction.mode[mode](special.operand), special.result)
            << special.instruction << " mode " << mode << " of " << std::hex << special.operand;
      }
    }
  }
}

TEST(Mufu, nominal_ex2_of_an_integer_is_exact) {
  for (int k = -149; k < 128; ++k) {
    const auto x = as_bits(static_cast<float>(k));
    EXPECT_EQ((as_float(ex2_approx_f32<Mode::Nominal, false>(x))), std::ldexp(1.0f, k)) << k;
    EXPECT_EQ((as_float(ex2_approx_f32<Mode::Nominal, true>(x))),
              k < -126 ? 0.0f : std::ldexp(1.0f, k));
  }
}

// Below -126 ptxas squares ex2(x / 2).
TEST(Mufu, ex2_of_a_subnormal_result_is_the_square_of_a_rounded_root) {
  base::Prng prng(3);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<float>(-126 - 24 * prng.unit());
    const std::uint32_t half = ex2_approx_f32<Mode::Nominal, true>(as_bits(0.5f * x));
    const float root = as_float(half);
    if (!(x < -126.0f)) continue;
    EXPECT_EQ((ex2_approx_f32<Mode::Nominal, false>(as_bits(x))), as_bits(root * root));
  }
}

TEST(Mufu, division_stays_within_two_places_of_the_quotient) {
  base::Prng prng(4);
  const auto check = [](float a, float b, std::uint32_t bits) {
    const long double exact = static_cast<long double>(a) / static_cast<long double>(b);
    const auto result = static_cast<long double>(as_float(bits));
    if (std::isinf(result)) return std::abs(exact) >= std::numeric_limits<float>::max();
    return std::abs(result - exact) <= 2 * ulp_of(exact);
  };
  for (int i = 0; i < 100000; ++i) {
    const auto a = static_cast<std::uint32_t>(prng.next());
    const auto b = static_cast<std::uint32_t>(prng.next());
    const std::uint32_t size = b & 0x7fffffff;
    if ((a & 0x7fffffff) >= 0x7f800000 || size >= 0x7f800000 || size == 0) continue;
    const float x = as_float(a), y = as_float(b);
    EXPECT_TRUE(check(x, y, (div_approximate_f32<Mode::Nominal, false, true>(a, b)))) << x << y;
    EXPECT_TRUE(check(x, y, (div_approximate_f32<Mode::Low, false, true>(a, b)))) << x << y;
    EXPECT_TRUE(check(x, y, (div_approximate_f32<Mode::High, false, true>(a, b)))) << x << y;
    EXPECT_TRUE(check(x, y, (div_approximate_f32<Mode::Hashed, false, true>(a, b)))) << x << y;
    if (size < 0x00800000 || size > 0x7e800000) continue;
    EXPECT_TRUE(check(x, y, (div_approximate_f32<Mode::Nominal, false, false>(a, b)))) << x << y;
    EXPECT_TRUE(check(x, y, (div_approximate_f32<Mode::High, false, false>(a, b)))) << x << y;
  }
  // Documented for div.approx above 2^126.
  const std::uint32_t large = as_bits(0x1p127f), infinity = 0x7f800000;
  EXPECT_EQ((div_approximate_f32<Mode::Nominal, false, false>(as_bits(1e38f), large)), 0u);
  EXPECT_EQ((div_approximate_f32<Mode::Nominal, false, false>(infinity, large)), kNanF32);
}

TEST(Mufu, hashed_results_depend_on_the_operand_alone_and_spread) {
  int below = 0, above = 0;
  for (std::uint32_t i = 0; i < 4096; ++i) {
    const std::uint32_t x = as_bits(1.0f) + i * 977;
    const std::uint32_t hashed = rsqrt_approx_f32<Mode::Hashed, false>(x);
    const std::uint32_t nominal = rsqrt_approx_f32<Mode::Nominal, false>(x);
    EXPECT_EQ(hashed, (rsqrt_approx_f32<Mode::Hashed, false>(x)));
    below += hashed < nominal;
    above += hashed > nominal;
  }
  EXPECT_GT(below, 512);
  EXPECT_GT(above, 512);
}

// One hash of 2^16 results per instruction and mode: the same for every compiler, optimisation and
// host instruction set that this file is built with.
TEST(Mufu, bits_are_those_of_every_other_host) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const Instruction& instruction : kInstructions) {
    for (const Function& function : instruction.mode) {
      for (std::uint32_t i = 0; i < 0x10000; ++i) {
        hash = (hash ^ function(i * 0x10003u)) * 0x100000001b3;
      }
    }
  }
  EXPECT_EQ(hash, 16319232420683416412u);
}

// All 2^16 operands of each 16-bit form, in every mode.
struct Half {
  const char* name;
  std::uint16_t (*mode[4])(std::uint16_t);
  Exact exact;
  std::uint32_t (*widen)(std::uint16_t);
  long double relative, absolute;
  long double least;  // smallest positive result: closer than one of it cannot be asked
  std::uint16_t nan;
};
const Half kHalves[] = {
    {"ex2.f16", MODES(ex2_approx_f16), [](long double x) { return std::exp2(x); },
     [](std::uint16_t x) { return f16_to_f32(x); }, kEx2F16Relative, 0, 0x1p-25L, kNanF16},
    {"ex2.bf16", MODES(ex2_approx_ftz_bf16), [](long double x) { return std::exp2(x); },
     [](std::uint16_t x) { return bf16_to_f32(x); }, kEx2Bf16Relative, 0, 0x1p-126L, kNanBf16},
    {"tanh.f16", MODES(tanh_approx_f16), [](long double x) { return std::tanh(x); },
     [](std::uint16_t x) { return f16_to_f32(x); }, 0, kTanhF16Absolute, 0, kNanF16},
    {"tanh.bf16", MODES(tanh_approx_bf16), [](long double x) { return std::tanh(x); },
     [](std::uint16_t x) { return bf16_to_f32(x); }, 0, kTanhBf16Absolute, 0, kNanBf16},
};

TEST(Mufu, sixteen_bit_forms_stay_inside_their_error_for_every_operand) {
  for (const Half& half : kHalves) {
    for (int mode = 0; mode < 4; ++mode) {
      for (std::uint32_t code = 0; code < 0x10000; ++code) {
        const auto x = static_cast<std::uint16_t>(code);
        const float operand = as_float(half.widen(x));
        const std::uint16_t bits = half.mode[mode](x);
        if (std::isnan(operand)) {
          ASSERT_EQ(bits, half.nan);
          continue;
        }
        const long double exact = half.exact(static_cast<long double>(operand));
        const auto result = static_cast<long double>(as_float(half.widen(bits)));
        const long double error = std::max(half.relative * exact + half.absolute, half.least);
        if (std::isinf(result)) {
          const long double maximum =
              half.nan == kNanF16 && half.least == 0x1p-25L ? 65504.0L : 0x1p128L - 0x1p119L;
          ASSERT_GE(exact + error, maximum) << half.name << ' ' << operand;
          continue;
        }
        ASSERT_LE(std::abs(result - exact), error)
            << half.name << " mode " << mode << " of " << std::hex << code << " is " << bits;
      }
    }
  }
}

// About a minute.
TEST(SlowMufu, ex2_is_inside_the_error_and_monotone_over_all_operands) {
  const Instruction& instruction = kInstructions[0];
  std::uint32_t previous = ex2_approx_f32<Mode::Nominal, false>(0);
  for (std::uint32_t x = 0; x <= 0x7f800000; ++x) {
    const std::uint32_t result = ex2_approx_f32<Mode::Nominal, false>(x);
    ASSERT_GE(result, previous) << std::hex << x;
    previous = result;
  }
  previous = ex2_approx_f32<Mode::Nominal, false>(0x80000000);
  for (std::uint32_t x = 0x80000000; x <= 0xff800000; ++x) {
    const std::uint32_t result = ex2_approx_f32<Mode::Nominal, false>(x);
    ASSERT_LE(result, previous) << std::hex << x;
    previous = result;
  }
  for (std::uint64_t x = 0; x < (std::uint64_t{1} << 32); x += 61) {
    const auto operand = static_cast<std::uint32_t>(x);
    if (!judged(instruction, operand)) continue;
    ASSERT_EQ(judge(instruction, static_cast<int>(x / 61 % 4), operand), "");
  }
}

}  // namespace
}  // namespace lockstep::device::vgpu::numeric
