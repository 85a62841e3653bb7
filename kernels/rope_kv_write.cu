// q and k: optional RMSNorm over each head, then rotation of pairs by the position's angles; v as
// it is. K and V go to the row's cell, q to q_out.
//   norm: y = (x * rsqrt(sum x^2 * fl(1 / D) + epsilon)) * w, rsqrt.approx, sum by fmaf
//   pair (x0, x1) at angle a_i: y0 = x0 cos - x1 sin, y1 = x0 sin + x1 cos; the second product of
//   each is rounded, the rest is one fmaf. Pair i is (i, i + D/2) or (2i, 2i + 1).
//
// Layout: q_raw, k_raw, v_raw f32 [rows, heads, D]; cos_sin f32 [positions, D/2, 2]; cells as
// KvLayout (launch.h); q_out [rows, heads, D]. Grid rule: one warp a (row, head), 4 warps a block;
// heads are those of q, then k, then v. A lane holds 1, 2 or 4 neighbouring pairs, so that all
// loads and stores are contiguous over the warp. Limits: D even, 2 to 256; q_out and cells f32, f16
// or bf16. Slot -1 writes no cell. Bound by memory: reads and writes each element once, the
// minimum; the table's row is read once a head, from the cache.
#include "kernels/lib/reductions.cuh"

namespace lockstep::kernels {
namespace {

struct RopeKvWriteParameters {
  const float *q_raw, *k_raw, *v_raw;
  const float *q_norm, *k_norm;
  const float* cos_sin;
  const std::uint32_t* positions;
  const std::int32_t* slots;
  void *q_out, *k_pool, *v_pool;
  Format q_format, cell_format;
  std::uint32_t head_count, kv_head_count, head_size, page_size;
  float inverse_head_size, epsilon;
};

template <int kCount>
__device__ __forceinline__ void load(float (&x)[kCount], const float* from) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(x + i) = *reinterpret_cast<const float4*>(from + i);
    }
  } else if constexpr (kCount == 2) {
    *reinterpret_cast<float2*>(x) = *reinterpret_cast<const float2*>(from);
  } else {
    x[0] = *from;
  }
}

// kVector pairs of a head, from pair `pair` on: first and second elements.
template <int kVector>
struct Pairs {
  alignas(16) float x0[kVector], x1[kVector];
};

template <int kVector, bool kInterleaved>
__device__ __forceinline__ void load_pairs(Pairs<kVector>& pairs, const float* head,
                                           std::uint32_t pair, std::uint32_t half) {
  if constexpr (kInterleaved) {
    alignas(16) float both[2 * kVector];
    load(both, head + 2 * pair);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      pairs.x0[i] = both[2 * i];
      pairs.x1[i] = both[2 * i + 1];
    }
  } else {
    load(pairs.x0, head + pair);
    load(pairs.x1, head + half + pair);
  }
}

template <int kVector, bool kInterleaved>
__device__ __forceinline__ void store_pairs(Format format, void* array, std::uint64_t head,
                                            const Pairs<kVector>& pairs, std::uint32_t pair,
                                            std::uint32_t half) {
  if constexpr (kInterleaved && kVector == 1) {
    const float both[2] = {pairs.x0[0], pairs.x1[0]};
    store(format, array, head + 2 * pair, both);
  } else if constexpr (kInterleaved) {
#pragma unroll
    for (int i = 0; i < kVector; i += 2) {
      const float both[4] = {pairs.x0[i], pairs.x1[i], pairs.x0[i + 1], pairs.x1[i + 1]};
      store(format, array, head + 2 * (pair + i), both);
    }
  } else {
    store(format, array, head + pair, pairs.x0);
    store(format, array, head + half + pair, pairs.x1);
  }
}

template <int kVector, int kIterations, bool kInterleaved>
__device__ __forceinline__ void norm_and_rotate(Pairs<kVector> (&pairs)[kIterations],
                                                const RopeKvWriteParameters& p, const float* norm,
                                                std::uint32_t row, std::uint32_t lane) {
  const std::uint32_t half = p.head_size / 2;
  if (norm != nullptr) {
    float sum = 0;
#pragma unroll
    for (int it = 0; it < kIterations; ++it) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        sum = fmaf(pairs[it].x0[i], pairs[it].x0[i], sum);
        sum = fmaf(pairs[it].x1[i], pairs[it].x1[i], sum);
      }
    }
    const float r = rsqrt_approx(warp_sum(sum) * p.inverse_head_size + p.epsilon);
#pragma unroll
    for (int it = 0; it < kIterations; ++it) {
      const std::uint32_t pair = (it * 32 + lane) * kVector;
      if (pair >= half) continue;
      Pairs<kVector> weights;
      load_pairs<kVector, kInterleaved>(weights, norm, pair, half);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        pairs[it].x0[i] = pairs[it].x0[i] * r * weights.x0[i];
        pairs[it].x1[i] = pairs[it].x1[i] * r * weights.x1[i];
      }
    }
  }
  const float* angles = p.cos_sin + std::uint64_t{p.positions[row]} * p.head_size;
#pragma unroll
  for (int it = 0; it < kIterations; ++it) {
    const std::uint32_t pair = (it * 32 + lane) * kVector;
    if (pair >= half) continue;
    alignas(16) float cos_sin[2 * kVector];
    load(cos_sin, angles + 2 * pair);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float x0 = pairs[it].x0[i], x1 = pairs[it].x1[i];
      const float cosine = cos_sin[2 * i], sine = cos_sin[2 * i + 1];
      pairs[it].x0[i] = fmaf(x0, cosine, -(x1 * sine));
      pairs[it].x1[i] = fmaf(x0, sine, x1 * cosine);
    }
  }
}

template <int kVector, int kIterations, bool kInterleaved>
__device__ __forceinline__ void rope_kv_write(const RopeKvWriteParameters& p) {
  const std::uint32_t lane = threadIdx.x % 32, half = p.head_size / 2;
  const std::uint32_t job = blockIdx.y * 4 + threadIdx.x / 32;  // q heads, k heads, v heads
  const std::uint32_t k_end = p.head_count + p.kv_head_count;
  if (job >= k_end + p.kv_head_count) return;
  const std::uint32_t row = blockIdx.x;
  const bool is_q = job < p.head_count, is_v = job >= k_end;
  const float* raw = is_q ? p.q_raw : is_v ? p.v_raw : p.k_raw;
  const std::uint32_t head = is_q ? job : is_v ? job - k_end : job - p.head_count;
  const std::uint32_t heads = is_q ? p.head_count : p.kv_head_count;
  const std::uint64_t source = (std::uint64_t{row} * heads + head) * p.head_size;
  std::uint64_t target = source;
  if (!is_q) {
    const std::int32_t slot = p.slots[row];
    if (slot < 0) return;
    const std::uint32_t page = static_cast<std::uint32_t>(slot) / p.page_size;
    const std::uint32_t offset = static_cast<std::uint32_t>(slot) % p.page_size;
    target = ((std::uint64_t{page} * p.kv_head_count + head) * p.page_size + offset) * p.head_size;
  }
  Pairs<kVector> pairs[kIterations] = {};
#pragma unroll
  for (int it = 0; it < kIterations; ++it) {
    const std::uint32_t pair = (it * 32 + lane) * kVector;
    if (pair < half) load_pairs<kVector, kInterleaved>(pairs[it], raw + source, pair, half);
  }
  __syncwarp();
  if (!is_v) {
    norm_and_rotate<kVector, kIterations, kInterleaved>(pairs, p, is_q ? p.q_norm : p.k_norm, row,
                                                        lane);
  }
  void* array = is_q ? p.q_out : is_v ? p.v_pool : p.k_pool;
  const Format format = is_q ? p.q_format : p.cell_format;
#pragma unroll
  for (int it = 0; it < kIterations; ++it) {
    const std::uint32_t pair = (it * 32 + lane) * kVector;
    if (pair < half) {
      store_pairs<kVector, kInterleaved>(format, array, target, pairs[it], pair, half);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels

// Parameters one by one: a struct of them would be read through a pointer chosen at run time.
#define LOCKSTEP_ROPE(name, vector, iterations, interleaved)                                      \
  extern "C" __global__ void __launch_bounds__(128) name(                                         \
      const float* q_raw, const float* k_raw, const float* v_raw, const float* q_norm,            \
      const float* k_norm, const float* cos_sin, const std::uint32_t* positions,                  \
      const std::int32_t* slots, void* q_out, void* k_pool, void* v_pool, std::uint32_t q_format, \
      std::uint32_t cell_format, std::uint32_t head_count, std::uint32_t kv_head_count,           \
      std::uint32_t head_size, std::uint32_t page_size, float inverse_head_size, float epsilon) { \
    using namespace lockstep::kernels;                                                            \
    rope_kv_write<vector, iterations, interleaved>(                                               \
        {q_raw, k_raw, v_raw, q_norm, k_norm, cos_sin, positions, slots, q_out, k_pool, v_pool,   \
         static_cast<Format>(q_format), static_cast<Format>(cell_format), head_count,             \
         kv_head_count, head_size, page_size, inverse_head_size, epsilon});                       \
  }
LOCKSTEP_ROPE(rope_kv_write_half_1x1, 1, 1, false)
LOCKSTEP_ROPE(rope_kv_write_half_2x1, 2, 1, false)
LOCKSTEP_ROPE(rope_kv_write_half_4x1, 4, 1, false)
LOCKSTEP_ROPE(rope_kv_write_half_1x4, 1, 4, false)
LOCKSTEP_ROPE(rope_kv_write_interleaved_1x1, 1, 1, true)
LOCKSTEP_ROPE(rope_kv_write_interleaved_2x1, 2, 1, true)
LOCKSTEP_ROPE(rope_kv_write_interleaved_4x1, 4, 1, true)
LOCKSTEP_ROPE(rope_kv_write_interleaved_1x4, 1, 4, true)
