// tokens[r] = the lowest i with logits[r, i] = max_j logits[r, j]; the lowest i of a NaN if there
// is one. -0 equals +0. Exact: comparisons only.
//
// Layout: logits f32 [rows, vocab], tokens u32 [rows]. Grid rule: one block of 512 threads a row. A
// thread takes every 512th vector of 4 (element, where vocab % 4 != 0), 4 vectors to a group: it
// takes the group's largest with max.NaN and remembers the first group that holds its largest. The
// block's largest key is then looked for again in those groups only.
// Key: a float's bits as a signed number in the same order, after -0 + 0 = +0; any NaN is the
// canonical one of max.NaN, 0x7fffffff, above all.
// Limits: vocab < 2^31. Bound by memory: 4 bytes a logit, read once (plus 64 for each thread that
// holds the largest key).
#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {
namespace {

inline constexpr unsigned kThreads = 512;
inline constexpr unsigned kGroup = 4;  // vectors

__device__ __forceinline__ float max_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
// `x`: a result of max_nan, so that a NaN is 0x7fffffff.
__device__ __forceinline__ int key_of(float x) {
  const int bits = __float_as_int(x + 0.0f);
  return bits ^ (bits >> 31 & 0x7fffffff);
}

template <class Vector>
struct Elements;
template <>
struct Elements<float4> {
  static constexpr unsigned kCount = 4;
  __device__ static float get(const float4& v, unsigned e) {
    return e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
  }
  __device__ static float largest(const float4& v) {
    return max_nan(max_nan(v.x, v.y), max_nan(v.z, v.w));
  }
};
template <>
struct Elements<float> {
  static constexpr unsigned kCount = 1;
  __device__ static float get(float v, unsigned) { return v; }
  __device__ static float largest(float v) { return max_nan(v, v); }
};

// Largest of a thread's keys, and the vector at which the first group that has it starts.
struct Best {
  int key;
  unsigned start;
};

template <class Vector>
__device__ __forceinline__ Best scan(const Vector* __restrict__ row, unsigned vectors) {
  Best best{static_cast<int>(0x80000000u), 0};
  unsigned v = threadIdx.x;
  const auto take = [&](float largest, unsigned start) {
    const int key = key_of(largest);
    const bool better = key > best.key;
    best.key = better ? key : best.key;
    best.start = better ? start : best.start;
  };
#pragma unroll 1
  for (; v + (kGroup - 1) * kThreads < vectors; v += kGroup * kThreads) {
    Vector group[kGroup];
#pragma unroll
    for (unsigned g = 0; g < kGroup; ++g) group[g] = __ldg(row + v + g * kThreads);
    float largest = Elements<Vector>::largest(group[0]);
#pragma unroll
    for (unsigned g = 1; g < kGroup; ++g) {
      largest = max_nan(largest, Elements<Vector>::largest(group[g]));
    }
    take(largest, v);
  }
#pragma unroll 1
  for (; v < vectors; v += kThreads) take(Elements<Vector>::largest(__ldg(row + v)), v);
  return best;
}

template <class Vector>
__device__ __forceinline__ void argmax(const float* __restrict__ logits,
                                       std::uint32_t* __restrict__ tokens, unsigned vocab) {
  constexpr unsigned kCount = Elements<Vector>::kCount;
  __shared__ int keys[kThreads / 32];
  __shared__ unsigned lowest[kThreads / 32];
  const auto* row = reinterpret_cast<const Vector*>(logits + std::uint64_t{blockIdx.x} * vocab);
  const unsigned vectors = vocab / kCount, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Best best = scan(row, vectors);
  const int of_warp = __reduce_max_sync(kFullWarp, best.key);
  if (lane == 0) keys[warp] = of_warp;
  __syncthreads();
  const int of_block = __reduce_max_sync(kFullWarp, keys[lane % (kThreads / 32)]);
  // The lowest index of the thread's first group with that key.
  unsigned index = 0xffffffffu;
  if (best.key == of_block) {
    for (unsigned g = 0; g < kGroup && index == 0xffffffffu; ++g) {
      const unsigned v = best.start + g * kThreads;
      if (v >= vectors) break;
      const Vector values = __ldg(row + v);
#pragma unroll
      for (unsigned e = kCount; e-- > 0;) {
        const float value = Elements<Vector>::get(values, e);
        if (key_of(max_nan(value, value)) == of_block) index = v * kCount + e;
      }
    }
  }
  __syncwarp();
  index = __reduce_min_sync(kFullWarp, index);
  if (lane == 0) lowest[warp] = index;
  __syncthreads();
  if (warp != 0) return;
  index = __reduce_min_sync(kFullWarp, lowest[lane % (kThreads / 32)]);
  if (lane == 0) tokens[blockIdx.x] = index;
}

}  // namespace
}  // namespace lockstep::kernels

extern "C" __global__ void __launch_bounds__(512)
    argmax_vector4(const float* logits, std::uint32_t* tokens, unsigned vocab) {
  lockstep::kernels::argmax<float4>(logits, tokens, vocab);
}
extern "C" __global__ void __launch_bounds__(512)
    argmax_vector1(const float* logits, std::uint32_t* tokens, unsigned vocab) {
  lockstep::kernels::argmax<float>(logits, tokens, vocab);
}
