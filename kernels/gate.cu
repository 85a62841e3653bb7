// out[i] = activation(gate[i]) * up[i].
//   GELU (tanh form) as g * sigmoid(2 z): z = k0 (g + k1 g^3), k0 = sqrt(2 / pi), k1 = 0.044715
//   (Hendrycks and Gimpel 2016); SiLU: g * sigmoid(g). sigmoid(x) = 1 / (1 + e), e = 2^(-x log2 e),
//   by ex2.approx; g / (1 + e) by div.rn. With sigmoid no digits cancel, as 1 + tanh(z) would.
//   Large g: e = +0 and out = g * up; large -g: e = +Inf and out = -0 * up; g = +-0: +-0.
//
// Layout: gate and up f32 [count], out f32, f16 or bf16 [count]; 16-byte aligned. Grid rule: 256
// threads a block, 4 elements a thread; the last count % 4 elements go one to a thread.
// Limits: count < 2^40. Bound by memory: 8 bytes read, 2 or 4 written an element, the minimum.
#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {
namespace {

struct Gelu {
  // -2 log2(e) k0, rounded once; k0 (g + k1 g^3) = k0 * g * (1 + k1 g^2).
  static constexpr float kExponent =
      static_cast<float>(-2.0 * 1.4426950408889634074 * 0.79788456080286535588);
  __device__ __forceinline__ static float negative_exponent(float g) {
    return g * fmaf(0.044715f, g * g, 1.0f) * kExponent;
  }
};
struct Silu {
  static constexpr float kExponent = static_cast<float>(-1.4426950408889634074);
  __device__ __forceinline__ static float negative_exponent(float g) { return g * kExponent; }
};

template <class Activation>
__device__ __forceinline__ float gated(float g, float up) {
  const float e = exp2_approx(Activation::negative_exponent(g));
  return __fdiv_rn(g, 1.0f + e) * up;
}

template <class Activation>
__device__ __forceinline__ void gate(const float* __restrict__ g, const float* __restrict__ up,
                                     void* __restrict__ out, Format format, std::uint64_t count) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t vectors = count / 4;
  if (thread < vectors) {
    const float4 x = reinterpret_cast<const float4*>(g)[thread];
    const float4 y = reinterpret_cast<const float4*>(up)[thread];
    const float result[4] = {gated<Activation>(x.x, y.x), gated<Activation>(x.y, y.y),
                             gated<Activation>(x.z, y.z), gated<Activation>(x.w, y.w)};
    store(format, out, 4 * thread, result);
  } else if (thread < vectors + count % 4) {
    const std::uint64_t i = vectors * 4 + (thread - vectors);
    const float result[1] = {gated<Activation>(g[i], up[i])};
    store(format, out, i, result);
  }
}

}  // namespace
}  // namespace lockstep::kernels

extern "C" __global__ void __launch_bounds__(256)
    gate_gelu(const float* g, const float* up, void* out, std::uint32_t format,
              std::uint64_t count) {
  using namespace lockstep::kernels;
  gate<Gelu>(g, up, out, static_cast<Format>(format), count);
}
extern "C" __global__ void __launch_bounds__(256)
    gate_silu(const float* g, const float* up, void* out, std::uint32_t format,
              std::uint64_t count) {
  using namespace lockstep::kernels;
  gate<Silu>(g, up, out, static_cast<Format>(format), count);
}
