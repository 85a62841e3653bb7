// PTX instructions that the kernels name themselves: approximate ones with a documented error
// (never tanhf or expf, whose error is documented for one implementation only), conversions with
// an explicit rounding, and stores in one of the three activation formats. Device only.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

// Formats of activations and cells as the launch functions pass them (lib/formats.h).
enum class Format : std::uint32_t { F32 = 0, F16 = 1, BF16 = 2 };

inline constexpr unsigned kFullWarp = 0xffffffffu;
inline constexpr float kNegativeInfinity = -__builtin_huge_valf();

// 2^x: relative error 2^-22; exact at +-0 (1) and -Inf (+0).
__device__ __forceinline__ float exp2_approx(float x) {
  float result;
  asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// x^-1/2: relative error 2^-22.9.
__device__ __forceinline__ float rsqrt_approx(float x) {
  float result;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Two floats rounded to nearest even into one register, `low` in bits 0 to 15.
__device__ __forceinline__ std::uint32_t pack_f16(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
__device__ __forceinline__ std::uint32_t pack(Format format, float low, float high) {
  return format == Format::F16 ? pack_f16(low, high) : pack_bf16(low, high);
}
__device__ __forceinline__ std::uint16_t to_f16(float x) {
  std::uint16_t result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ std::uint16_t to_bf16(float x) {
  std::uint16_t result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
}

// The two numbers of one register, exactly.
__device__ __forceinline__ float2 unpack_f16(std::uint32_t bits) {
  float2 result;
  asm("{\n\t.reg .b16 low, high;\n\tmov.b32 {low, high}, %2;\n\t"
      "cvt.f32.f16 %0, low;\n\tcvt.f32.f16 %1, high;\n\t}"
      : "=f"(result.x), "=f"(result.y)
      : "r"(bits));
  return result;
}
__device__ __forceinline__ float2 unpack_bf16(std::uint32_t bits) {
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}

// kCount consecutive floats to element `index` of an array of `format`; the address is aligned to
// the store (kCount elements).
template <int kCount>
__device__ __forceinline__ void store(Format format, void* array, std::uint64_t index,
                                      const float (&x)[kCount]) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  if (format == Format::F32) {
    float* to = static_cast<float*>(array) + index;
    if constexpr (kCount == 4) {
      *reinterpret_cast<float4*>(to) = {x[0], x[1], x[2], x[3]};
    } else if constexpr (kCount == 2) {
      *reinterpret_cast<float2*>(to) = {x[0], x[1]};
    } else {
      *to = x[0];
    }
    return;
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(array) + index;
  if constexpr (kCount == 4) {
    *reinterpret_cast<uint2*>(to) = {pack(format, x[0], x[1]), pack(format, x[2], x[3])};
  } else if constexpr (kCount == 2) {
    *reinterpret_cast<std::uint32_t*>(to) = pack(format, x[0], x[1]);
  } else {
    *to = format == Format::F16 ? to_f16(x[0]) : to_bf16(x[0]);
  }
}

}  // namespace lockstep::kernels
