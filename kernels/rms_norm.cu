// out[r, i] = x[s(r), i] * weight[i] / sqrt(mean(x[s(r), :]^2) + epsilon), rounded to out's format.
//   sum = sum x^2 by fmaf chains and a tree; t = sum * fl(1 / n) + epsilon; y = (x * rsqrt(t)) * w
//   with rsqrt.approx.
//
// Layout: x f32 [*, hidden], weight f32 [hidden], out [rows, hidden] f32, f16 or bf16; s(r) from
// source_rows, or r. Grid rule: one block a row; the warps of a block depend on hidden alone
// (rms_norm.cpp), so a row's bits do not depend on the batch. Vectors of 4 where hidden % 4 == 0
// (then every row starts on 16 bytes), single elements otherwise.
// Limits: hidden < 2^31. Bound by memory: 4 bytes an element read from DRAM (the second reading
// hits the cache), 2 or 4 written, the minimum; weight stays in the cache.
#include "kernels/lib/reductions.cuh"

namespace lockstep::kernels {
namespace {

template <int kVector>
struct Vector;
template <>
struct Vector<1> {
  using type = float;
};
template <>
struct Vector<4> {
  using type = float4;
};

template <int kVector>
__device__ __forceinline__ void load(float (&x)[kVector], const float* from) {
  *reinterpret_cast<typename Vector<kVector>::type*>(x) =
      *reinterpret_cast<const typename Vector<kVector>::type*>(from);
}

template <int kVector>
__device__ __forceinline__ void rms_norm(const float* __restrict__ x,
                                         const float* __restrict__ weight,
                                         const std::uint32_t* __restrict__ source_rows,
                                         void* __restrict__ out, Format format,
                                         std::uint32_t hidden, float inverse_hidden,
                                         float epsilon) {
  __shared__ float scratch[32];
  const std::uint32_t row = blockIdx.x;
  const std::uint32_t source = source_rows != nullptr ? source_rows[row] : row;
  const float* from = x + std::uint64_t{source} * hidden;
  const std::uint32_t first = threadIdx.x * kVector, step = blockDim.x * kVector;
  float sums[kVector] = {};
  for (std::uint32_t i = first; i < hidden; i += step) {
    alignas(16) float values[kVector];
    load(values, from + i);
#pragma unroll
    for (int e = 0; e < kVector; ++e) sums[e] = fmaf(values[e], values[e], sums[e]);
  }
  float sum = sums[0];
  if constexpr (kVector == 4) sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  __syncwarp();
  sum = block_sum(sum, scratch, static_cast<int>(blockDim.x / 32));
  const float r = rsqrt_approx(sum * inverse_hidden + epsilon);
  const std::uint64_t to = std::uint64_t{row} * hidden;
  for (std::uint32_t i = first; i < hidden; i += step) {
    alignas(16) float values[kVector], weights[kVector];
    load(values, from + i);
    load(weights, weight + i);
#pragma unroll
    for (int e = 0; e < kVector; ++e) values[e] = values[e] * r * weights[e];
    store(format, out, to + i, values);
  }
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_RMS_NORM(name, vector)                                                       \
  extern "C" __global__ void __launch_bounds__(512)                                           \
      name(const float* x, const float* weight, const std::uint32_t* source_rows, void* out,  \
           std::uint32_t format, std::uint32_t hidden, float inverse_hidden, float epsilon) { \
    using namespace lockstep::kernels;                                                        \
    rms_norm<vector>(x, weight, source_rows, out, static_cast<Format>(format), hidden,        \
                     inverse_hidden, epsilon);                                                \
  }
LOCKSTEP_RMS_NORM(rms_norm_vector4, 4)
LOCKSTEP_RMS_NORM(rms_norm_vector1, 1)
