// Floating-point opcodes against the host's IEEE 754 arithmetic, its directed rounding modes, and
// 128-bit arithmetic for the halves.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "device/vgpu/exec/opcode_testing.h"

namespace lockstep::device::vgpu::exec {
namespace {

using testing::check_opcode;
using testing::edge_bf16;
using testing::edge_floats;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
__extension__ typedef __float128 quad;

float f32(u64 bits) { return std::bit_cast<float>(static_cast<u32>(bits)); }
double f64(u64 bits) { return std::bit_cast<double>(bits); }
u64 bits(float x) { return std::isnan(x) ? 0x7fffffff : std::bit_cast<u32>(x); }
u64 bits(double x) { return std::isnan(x) ? 0xfff8000000000000 : std::bit_cast<u64>(x); }
const std::vector<u64> kF32 = edge_floats('w');
const std::vector<u64> kF64 = edge_floats('x');
const std::vector<u64> kF16 = edge_floats('h');
const std::vector<u64> kBf16 = edge_bf16();

TEST(FloatOpcodes, NearestArithmeticIsThatOfTheHost) {
  check_opcode({"add.rn.f32", "www", [](u64 a, u64 b, u64) { return bits(f32(a) + f32(b)); }},
               {kF32, kF32});
  check_opcode({"add.f32", "www", [](u64 a, u64 b, u64) { return bits(f32(a) + f32(b)); }},
               {kF32, kF32});
  check_opcode({"sub.rn.f32", "www", [](u64 a, u64 b, u64) { return bits(f32(a) - f32(b)); }},
               {kF32, kF32});
  check_opcode({"mul.rn.f32", "www", [](u64 a, u64 b, u64) { return bits(f32(a) * f32(b)); }},
               {kF32, kF32});
  check_opcode({"div.rn.f32", "www", [](u64 a, u64 b, u64) { return bits(f32(a) / f32(b)); }},
               {kF32, kF32});
  check_opcode({"fma.rn.f32", "wwww",
                [](u64 a, u64 b, u64 c) { return bits(std::fma(f32(a), f32(b), f32(c))); }},
               {kF32, kF32, kF32});
  check_opcode({"sqrt.rn.f32", "ww", [](u64 a, u64, u64) { return bits(std::sqrt(f32(a))); }},
               {kF32});
  check_opcode({"rcp.rn.f32", "ww", [](u64 a, u64, u64) { return bits(1.0f / f32(a)); }}, {kF32});
  check_opcode({"add.rn.f64", "xxx", [](u64 a, u64 b, u64) { return bits(f64(a) + f64(b)); }},
               {kF64, kF64});
  check_opcode({"mul.rn.f64", "xxx", [](u64 a, u64 b, u64) { return bits(f64(a) * f64(b)); }},
               {kF64, kF64});
  check_opcode({"div.rn.f64", "xxx", [](u64 a, u64 b, u64) { return bits(f64(a) / f64(b)); }},
               {kF64, kF64});
  check_opcode({"fma.rn.f64", "xxxx",
                [](u64 a, u64 b, u64 c) { return bits(std::fma(f64(a), f64(b), f64(c))); }},
               {kF64, kF64, kF64});
}

// The host's rounding mode, for the time of one operation.
template <class F>
u64 rounded(int mode, F operation) {
  std::fesetround(mode);
  const volatile float result = operation();
  std::fesetround(FE_TONEAREST);
  return bits(static_cast<float>(result));
}
TEST(FloatOpcodes, DirectedRoundingsAreThoseOfTheHost) {
  struct Mode {
    const char* name;
    int mode;
  };
  for (const Mode& m :
       {Mode{"rz", FE_TOWARDZERO}, Mode{"rm", FE_DOWNWARD}, Mode{"rp", FE_UPWARD}}) {
    const std::string suffix = std::string(".") + m.name + ".f32";
    const int mode = m.mode;
    check_opcode({"add" + suffix, "www",
                  [mode](u64 a, u64 b, u64) {
                    volatile float x = f32(a), y = f32(b);
                    return rounded(mode, [&] { return x + y; });
                  }},
                 {kF32, kF32});
    check_opcode({"mul" + suffix, "www",
                  [mode](u64 a, u64 b, u64) {
                    volatile float x = f32(a), y = f32(b);
                    return rounded(mode, [&] { return x * y; });
                  }},
                 {kF32, kF32});
    check_opcode({"div" + suffix, "www",
                  [mode](u64 a, u64 b, u64) {
                    volatile float x = f32(a), y = f32(b);
                    return rounded(mode, [&] { return x / y; });
                  }},
                 {kF32, kF32});
    check_opcode({"sqrt" + suffix, "ww",
                  [mode](u64 a, u64, u64) {
                    volatile float x = f32(a);
                    return rounded(mode, [&] { return std::sqrt(x); });
                  }},
                 {kF32});
    check_opcode({"fma" + suffix, "wwww",
                  [mode](u64 a, u64 b, u64 c) {
                    volatile float x = f32(a), y = f32(b), z = f32(c);
                    return rounded(mode, [&] { return std::fma(x, y, z); });
                  }},
                 {kF32, kF32, kF32});
  }
}

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float saturated(float x) { return std::isnan(x) || x <= 0 ? 0.0f : x > 1 ? 1.0f : x; }
TEST(FloatOpcodes, FlushAndSaturate) {
  check_opcode({"mul.rn.ftz.f32", "www",
                [](u64 a, u64 b, u64) { return bits(flushed(flushed(f32(a)) * flushed(f32(b)))); }},
               {kF32, kF32});
  check_opcode(
      {"add.rn.sat.f32", "www", [](u64 a, u64 b, u64) { return bits(saturated(f32(a) + f32(b))); }},
      {kF32, kF32});
  check_opcode({"fma.rn.ftz.sat.f32", "wwww",
                [](u64 a, u64 b, u64 c) {
                  return bits(saturated(
                      flushed(std::fma(flushed(f32(a)), flushed(f32(b)), flushed(f32(c))))));
                }},
               {kF32, kF32, kF32});
}

u64 extremum(bool is_max, bool nan_wins, u64 a, u64 b) {
  const float x = f32(a), y = f32(b);
  if (std::isnan(x) && std::isnan(y)) return 0x7fffffff;
  if (std::isnan(x)) return nan_wins ? 0x7fffffff : b;
  if (std::isnan(y)) return nan_wins ? 0x7fffffff : a;
  if (x == y) return std::signbit(x) == is_max ? b : a;
  return (x > y) == is_max ? a : b;
}
TEST(FloatOpcodes, MinMaxOrderZerosAndLoseNans) {
  check_opcode({"min.f32", "www", [](u64 a, u64 b, u64) { return extremum(false, false, a, b); }},
               {kF32, kF32});
  check_opcode({"max.f32", "www", [](u64 a, u64 b, u64) { return extremum(true, false, a, b); }},
               {kF32, kF32});
  check_opcode({"max.NaN.f32", "www", [](u64 a, u64 b, u64) { return extremum(true, true, a, b); }},
               {kF32, kF32});
  check_opcode({"abs.f32", "ww", [](u64 a, u64, u64) { return a & 0x7fffffff; }}, {kF32});
  check_opcode({"neg.f32", "ww", [](u64 a, u64, u64) { return a ^ 0x80000000; }}, {kF32});
  check_opcode({"copysign.f32", "www",
                [](u64 a, u64 b, u64) { return (a & 0x80000000) | (b & 0x7fffffff); }},
               {kF32, kF32});
}

TEST(FloatOpcodes, ComparisonsKnowNan) {
  struct Comparison {
    const char* name;
    bool (*holds)(float, float);
    bool unordered;
  };
  const Comparison comparisons[] = {
      {"eq", [](float x, float y) { return x == y; }, false},
      {"ne", [](float x, float y) { return x != y; }, false},
      {"lt", [](float x, float y) { return x < y; }, false},
      {"le", [](float x, float y) { return x <= y; }, false},
      {"gt", [](float x, float y) { return x > y; }, false},
      {"ge", [](float x, float y) { return x >= y; }, false},
      {"equ", [](float x, float y) { return x == y; }, true},
      {"neu", [](float x, float y) { return x != y; }, true},
      {"ltu", [](float x, float y) { return x < y; }, true},
      {"leu", [](float x, float y) { return x <= y; }, true},
      {"gtu", [](float x, float y) { return x > y; }, true},
      {"geu", [](float x, float y) { return x >= y; }, true},
      {"num", [](float, float) { return true; }, false},
      {"nan", [](float, float) { return false; }, true},
  };
  for (const Comparison& c : comparisons) {
    const auto expected = [c](u64 a, u64 b, u64) {
      const float x = f32(a), y = f32(b);
      return u64{std::isnan(x) || std::isnan(y) ? c.unordered : c.holds(x, y)};
    };
    check_opcode({std::string("setp.") + c.name + ".f32", "pww", expected}, {kF32, kF32});
  }
  check_opcode({"testp.subnormal.f32", "pw",
                [](u64 a, u64, u64) { return u64{std::fpclassify(f32(a)) == FP_SUBNORMAL}; }},
               {kF32});
  check_opcode(
      {"testp.finite.f64", "px", [](u64 a, u64, u64) { return u64{std::isfinite(f64(a))}; }},
      {kF64});
}

// --- Halves: value of every code, and the nearest code of any exact value ---------------------
struct Format {
  u32 exponent_bits, fraction_bits;
  u32 infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
};
constexpr Format kHalf = {5, 10}, kBrain = {8, 7};

quad value_of(const Format& format, u64 code) {
  const u64 magnitude = code & 0x7fff;
  const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const u64 fraction = magnitude & ((1u << format.fraction_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const u64 significand = exponent == 0 ? fraction : fraction | (1u << format.fraction_bits);
  const int scale = (exponent == 0 ? 1 : exponent) - bias - static_cast<int>(format.fraction_bits);
  const quad value = static_cast<quad>(std::ldexp(static_cast<double>(significand), scale));
  return (code & 0x8000) != 0 ? -value : value;
}
bool is_nan(const Format& format, u64 code) { return (code & 0x7fff) > format.infinity(); }
bool is_infinite(const Format& format, u64 code) { return (code & 0x7fff) == format.infinity(); }
// Nearest, ties to even, of a finite value; `negative_zero`: the sign of a zero.
u64 nearest(const Format& format, quad value, bool negative_zero) {
  const bool negative = value < 0 || (value == 0 && negative_zero);
  const quad magnitude = negative ? -value : value;
  u64 low = 0, high = format.infinity();
  while (high - low > 1) {
    const u64 middle = (low + high) / 2;
    (value_of(format, middle) <= magnitude ? low : high) = middle;
  }
  // value_of(infinity) is the power of two that would come next: the tie point is right there too.
  const quad below = magnitude - value_of(format, low), above = value_of(format, high) - magnitude;
  const bool up = above < below || (above == below && (low & 1) != 0);
  return (up ? high : low) | (negative ? 0x8000 : 0);
}
float special_value(const Format& format, u64 code) {
  const float sign = (code & 0x8000) != 0 ? -1.0f : 1.0f;
  if (is_nan(format, code)) return NAN;
  if (is_infinite(format, code)) return sign * INFINITY;
  return value_of(format, code) == 0 ? sign * 0.0f : sign;
}
// a * b + c where something is special or zero is as in any IEEE format; else exact, rounded once.
u64 fused(const Format& format, u64 a, u64 b, u64 c) {
  const float special =
      special_value(format, a) * special_value(format, b) + special_value(format, c);
  if (std::isnan(special)) return 0x7fff;
  const bool infinite = is_infinite(format, a) || is_infinite(format, b) || is_infinite(format, c);
  if (infinite) return format.infinity() | (std::signbit(special) ? 0x8000 : 0);
  const quad product = value_of(format, a) * value_of(format, b);
  const quad sum = product + value_of(format, c);
  const bool product_negative = ((a ^ b) & 0x8000) != 0, c_negative = (c & 0x8000) != 0;
  return nearest(format, sum, product_negative && c_negative);
}
TEST(HalfOpcodes, EveryResultIsRoundedOnce) {
  struct Kind {
    const char* name;
    Format format;
    u64 one;
    std::vector<u64> values;
  };
  for (const Kind& kind : {Kind{"f16", kHalf, 0x3c00, kF16}, Kind{"bf16", kBrain, 0x3f80, kBf16}}) {
    const std::string type = std::string(".rn.") + kind.name;
    const Format format = kind.format;
    const u64 one = kind.one;
    check_opcode(
        {"fma" + type, "hhhh", [format](u64 a, u64 b, u64 c) { return fused(format, a, b, c); }},
        {kind.values, kind.values, kind.values});
    check_opcode({"add" + type, "hhh",
                  [format, one](u64 a, u64 b, u64) { return fused(format, a, one, b); }},
                 {kind.values, kind.values});
    check_opcode({"sub" + type, "hhh",
                  [format, one](u64 a, u64 b, u64) { return fused(format, b, one | 0x8000, a); }},
                 {kind.values, kind.values});
    check_opcode({"mul" + type, "hhh",
                  [format](u64 a, u64 b, u64) {
                    // + a zero of the product's sign: the product itself.
                    return fused(format, a, b, (a ^ b) & 0x8000);
                  }},
                 {kind.values, kind.values});
    std::vector<u64> pairs;
    for (std::size_t k = 0; k < kind.values.size(); ++k) {
      pairs.push_back(kind.values[k] << 16 | kind.values[kind.values.size() - 1 - k]);
    }
    check_opcode({"fma" + type + "x2", "wwww",
                  [format](u64 a, u64 b, u64 c) {
                    return fused(format, a >> 16, b >> 16, c >> 16) << 16 |
                           fused(format, a & 0xffff, b & 0xffff, c & 0xffff);
                  }},
                 {pairs, pairs, pairs});
  }
}

TEST(HalfOpcodes, MinMaxAndComparisons) {
  const auto extremum16 = [](bool is_max, u64 a, u64 b) -> u64 {
    if (is_nan(kHalf, a)) return is_nan(kHalf, b) ? 0x7fff : b;
    if (is_nan(kHalf, b)) return a;
    const quad x = is_infinite(kHalf, a) ? ((a & 0x8000) != 0 ? -1e6 : 1e6) : value_of(kHalf, a);
    const quad y = is_infinite(kHalf, b) ? ((b & 0x8000) != 0 ? -1e6 : 1e6) : value_of(kHalf, b);
    if (x == y) return ((a & 0x8000) != 0) == is_max ? b : a;
    return (x > y) == is_max ? a : b;
  };
  check_opcode({"min.f16", "hhh", [&](u64 a, u64 b, u64) { return extremum16(false, a, b); }},
               {kF16, kF16});
  check_opcode({"max.f16", "hhh", [&](u64 a, u64 b, u64) { return extremum16(true, a, b); }},
               {kF16, kF16});
  check_opcode({"setp.lt.f16", "phh",
                [](u64 a, u64 b, u64) {
                  if (is_nan(kHalf, a) || is_nan(kHalf, b)) return u64{0};
                  const auto number = [](u64 code) {
                    return is_infinite(kHalf, code) ? ((code & 0x8000) != 0 ? -1e6 : 1e6)
                                                    : static_cast<double>(value_of(kHalf, code));
                  };
                  return u64{number(a) < number(b)};
                }},
               {kF16, kF16});
}

TEST(FloatOpcodes, ConversionsBetweenFormats) {
  const auto to_half = [](const Format& format, u64 a) -> u64 {
    const float x = f32(a);
    if (std::isnan(x)) return 0x7fff;
    if (std::isinf(x)) return format.infinity() | (x < 0 ? 0x8000 : 0);
    // Above twice the largest value all is infinite: the search needs no larger one.
    const quad bound = value_of(format, format.infinity() - 1) * 2;
    quad value = x;
    if (value > bound) value = bound;
    if (value < -bound) value = -bound;
    return nearest(format, value, std::signbit(x));
  };
  check_opcode({"cvt.rn.f16.f32", "hw", [&](u64 a, u64, u64) { return to_half(kHalf, a); }},
               {kF32});
  check_opcode({"cvt.rn.bf16.f32", "hw", [&](u64 a, u64, u64) { return to_half(kBrain, a); }},
               {kF32});
  check_opcode({"cvt.rn.f16x2.f32", "www",
                [&](u64 a, u64 b, u64) { return to_half(kHalf, a) << 16 | to_half(kHalf, b); }},
               {kF32, kF32});
  check_opcode({"cvt.rn.bf16x2.f32", "www",
                [&](u64 a, u64 b, u64) { return to_half(kBrain, a) << 16 | to_half(kBrain, b); }},
               {kF32, kF32});
  const auto from_half = [](const Format& format, u64 a) {
    if (is_nan(format, a)) return u64{0x7fffffff};
    if (is_infinite(format, a)) return bits((a & 0x8000) != 0 ? -INFINITY : INFINITY);
    return bits(
        std::copysign(static_cast<float>(value_of(format, a)), (a & 0x8000) != 0 ? -1.f : 1.f));
  };
  std::vector<u64> all;
  for (u64 code = 0; code < 0x10000; ++code) all.push_back(code);
  check_opcode({"cvt.f32.f16", "wh", [&](u64 a, u64, u64) { return from_half(kHalf, a); }}, {all});
  check_opcode({"cvt.f32.bf16", "wh", [&](u64 a, u64, u64) { return from_half(kBrain, a); }},
               {all});
  check_opcode(
      {"cvt.rn.f32.f64", "wx", [](u64 a, u64, u64) { return bits(static_cast<float>(f64(a))); }},
      {kF64});
  check_opcode(
      {"cvt.f64.f32", "xw", [](u64 a, u64, u64) { return bits(static_cast<double>(f32(a))); }},
      {kF32});
}

TEST(FloatOpcodes, ConversionsFromAndToIntegers) {
  check_opcode({"cvt.rn.f32.s32", "ww",
                [](u64 a, u64, u64) { return bits(static_cast<float>(static_cast<s32>(a))); }});
  check_opcode({"cvt.rn.f32.u32", "ww",
                [](u64 a, u64, u64) { return bits(static_cast<float>(static_cast<u32>(a))); }});
  check_opcode({"cvt.rn.f32.s64", "wx",
                [](u64 a, u64, u64) { return bits(static_cast<float>(static_cast<s64>(a))); }});
  check_opcode(
      {"cvt.rn.f32.u64", "wx", [](u64 a, u64, u64) { return bits(static_cast<float>(a)); }});
  check_opcode(
      {"cvt.rn.f64.u64", "xx", [](u64 a, u64, u64) { return bits(static_cast<double>(a)); }});
  check_opcode({"cvt.rz.f32.u64", "wx", [](u64 a, u64, u64) {
                  volatile u64 x = a;
                  return rounded(FE_TOWARDZERO, [&] { return static_cast<float>(x); });
                }});
  check_opcode({"cvt.rp.f32.s32", "ww", [](u64 a, u64, u64) {
                  volatile s32 x = static_cast<s32>(a);
                  return rounded(FE_UPWARD, [&] { return static_cast<float>(x); });
                }});
  const auto clamped = [](double x, double low, double high) {
    return std::isnan(x) ? 0.0 : x < low ? low : x > high ? high : x;
  };
  check_opcode({"cvt.rni.s32.f32", "ww",
                [&](u64 a, u64, u64) {
                  return static_cast<u64>(static_cast<s64>(
                      clamped(std::nearbyint(double{f32(a)}), -0x1p31, 0x1p31 - 1)));
                }},
               {kF32});
  check_opcode({"cvt.rzi.s32.f32", "ww",
                [&](u64 a, u64, u64) {
                  return static_cast<u64>(
                      static_cast<s64>(clamped(std::trunc(double{f32(a)}), -0x1p31, 0x1p31 - 1)));
                }},
               {kF32});
  check_opcode({"cvt.rzi.u32.f32", "ww",
                [&](u64 a, u64, u64) {
                  return static_cast<u64>(clamped(std::trunc(double{f32(a)}), 0, 0x1p32 - 1));
                }},
               {kF32});
  check_opcode({"cvt.rmi.s32.f64", "wx",
                [&](u64 a, u64, u64) {
                  return static_cast<u64>(
                      static_cast<s64>(clamped(std::floor(f64(a)), -0x1p31, 0x1p31 - 1)));
                }},
               {kF64});
  check_opcode({"cvt.rzi.s64.f32", "xw",
                [](u64 a, u64, u64) {
                  const float x = f32(a);
                  if (std::isnan(x)) return u64{0};
                  if (x >= 0x1p63f) return u64{0x7fffffffffffffff};
                  if (x < -0x1p63f) return u64{0x8000000000000000};
                  return static_cast<u64>(static_cast<s64>(x));
                }},
               {kF32});
  check_opcode({"cvt.rpi.f32.f32", "ww", [](u64 a, u64, u64) { return bits(std::ceil(f32(a))); }},
               {kF32});
  check_opcode(
      {"cvt.rni.f32.f32", "ww", [](u64 a, u64, u64) { return bits(std::nearbyint(f32(a))); }},
      {kF32});
  check_opcode({"cvt.sat.f32.f32", "ww", [](u64 a, u64, u64) { return bits(saturated(f32(a))); }},
               {kF32});
}

}  // namespace
}  // namespace lockstep::device::vgpu::exec
