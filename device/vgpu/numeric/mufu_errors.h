// Documented errors of the approximate instructions, each with its source. The model (mufu.h) uses
// these numbers and no others; the interpreter's tests and `lockstep doctor` can print the table.
//
// Source of every row: PTX ISA 9.1, the instruction's page in 9.7.3 (f32) or 9.7.4 (16 bits).
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::device::vgpu::numeric {

// Two places from the correctly rounded result. The model moves by at most two places from the
// exact value, which is also inside the relative 2^-22 that is often quoted for ex2: two places
// from the *rounded* result may be 2.5 places, 1.25 * 2^-22, from the exact one.
inline constexpr double kEx2Ulps = 2;
inline constexpr double kLg2AbsoluteNearOne = 0x1p-22;  // operand in (0.5, 2)
inline constexpr double kLg2Relative = 0x1p-22;
inline constexpr double kRcpUlps = 1;
inline constexpr double kRsqrtRelative = 0x1.125fbee250664p-23;  // 2^-22.9
inline constexpr double kSqrtRelative = 0x1p-23;
inline constexpr double kSinAbsolute = 0x1.6a09e667f3bccp-21;         // 2^-20.5, |x| <= 2 pi
inline constexpr double kSinAbsoluteTo100Pi = 0x1.3b2c47bff8329p-15;  // 2^-14.7, |x| <= 100 pi
inline constexpr double kTanhRelative = 0x1p-11;
inline constexpr double kDivUlps = 2;
inline constexpr double kEx2F16Relative = 0x1.125fbee250664p-10;  // 2^-9.9
inline constexpr double kEx2Bf16Relative = 0x1p-7;
inline constexpr double kTanhF16Absolute = 0x1.0251353756991p-11;  // 2^-10.987
inline constexpr double kTanhBf16Absolute = 0x1p-8;

enum class ErrorKind : std::uint8_t { Ulps, Relative, Absolute };

struct MufuError {
  std::string_view instruction;
  ErrorKind kind;
  double bound;
  std::string_view domain;
  std::string_view exact;   // results that hold whatever the error
  std::string_view source;  // page of PTX ISA 9.1
};

inline constexpr MufuError kMufuErrors[] = {
    {"ex2.approx.f32", ErrorKind::Ulps, kEx2Ulps, "all (from the correctly rounded result)",
     "ex2(+-0) = 1, ex2(-inf) = 0, ex2(+inf) = +inf", "9.7.3.21"},
    {"lg2.approx.f32", ErrorKind::Absolute, kLg2AbsoluteNearOne, "(0.5, 2)",
     "lg2(+-0) = -inf, lg2(+inf) = +inf", "9.7.3.20"},
    {"lg2.approx.f32", ErrorKind::Relative, kLg2Relative, "positive, outside (0.5, 2)",
     "lg2(+-0) = -inf, lg2(+inf) = +inf", "9.7.3.20"},
    {"rcp.approx.f32", ErrorKind::Ulps, kRcpUlps, "all", "rcp(+-0) = +-inf, rcp(+-inf) = +-0",
     "9.7.3.13"},
    {"rsqrt.approx.f32", ErrorKind::Relative, kRsqrtRelative, "positive finite",
     "rsqrt(+-0) = +-inf, rsqrt(+inf) = +0", "9.7.3.16"},
    {"sqrt.approx.f32", ErrorKind::Relative, kSqrtRelative, "positive finite",
     "sqrt(+-0) = +-0, sqrt(+inf) = +inf", "9.7.3.15"},
    {"sin.approx.f32", ErrorKind::Absolute, kSinAbsolute, "[-2 pi, 2 pi]", "sin(+-0) = +-0",
     "9.7.3.18"},
    {"sin.approx.f32", ErrorKind::Absolute, kSinAbsoluteTo100Pi, "[-100 pi, 100 pi]",
     "sin(+-0) = +-0", "9.7.3.18"},
    {"cos.approx.f32", ErrorKind::Absolute, kSinAbsolute, "[-2 pi, 2 pi]", "cos(+-0) = 1",
     "9.7.3.19"},
    {"cos.approx.f32", ErrorKind::Absolute, kSinAbsoluteTo100Pi, "[-100 pi, 100 pi]",
     "cos(+-0) = 1", "9.7.3.19"},
    {"tanh.approx.f32", ErrorKind::Relative, kTanhRelative, "all",
     "tanh(+-0) = +-0, tanh(+-inf) = +-1, subnormals pass through", "9.7.3.22"},
    {"div.approx.f32", ErrorKind::Ulps, kDivUlps, "|b| in [2^-126, 2^126]",
     "|b| > 2^126: zero, NaN where a is infinite", "9.7.3.8"},
    {"div.full.f32", ErrorKind::Ulps, kDivUlps, "all", "", "9.7.3.8"},
    {"ex2.approx.f16", ErrorKind::Relative, kEx2F16Relative, "all",
     "ex2(+-0) = 1, ex2(-inf) = 0, ex2(+inf) = +inf", "9.7.4.10"},
    {"ex2.approx.ftz.bf16", ErrorKind::Relative, kEx2Bf16Relative, "all",
     "ex2(+-0) = 1 (subnormals too), ex2(-inf) = 0, ex2(+inf) = +inf", "9.7.4.10"},
    {"tanh.approx.f16", ErrorKind::Absolute, kTanhF16Absolute, "all",
     "tanh(+-0) = +-0, tanh(+-inf) = +-1", "9.7.4.9"},
    {"tanh.approx.bf16", ErrorKind::Absolute, kTanhBf16Absolute, "all",
     "tanh(+-0) = +-0, tanh(+-inf) = +-1", "9.7.4.9"},
};

}  // namespace lockstep::device::vgpu::numeric
