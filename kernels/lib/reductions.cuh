// Sums and maxima over the lanes of a warp, and over the warps of a block. Every lane gets the
// result, and the tree is fixed: the same lanes' values give the same bits. Device only.
#pragma once

#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {

// Sum over groups of kWidth neighbouring lanes (a power of two): log2(kWidth) roundings.
template <int kWidth = 32>
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int distance = kWidth / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kFullWarp, x, distance);
  }
  return x;
}
template <int kWidth = 32>
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int distance = kWidth / 2; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, distance));
  }
  return x;
}

// Sum over a block of `warps` warps (1 to 32): 5 roundings in each warp, then warps - 1, in
// ascending order. `scratch`: shared, one float a warp, not in use by others until the next
// barrier.
__device__ __forceinline__ float block_sum(float x, float* scratch, int warps) {
  x = warp_sum(x);
  if (warps == 1) return x;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = scratch[0];
  for (int warp = 1; warp < warps; ++warp) sum += scratch[warp];
  return sum;
}

}  // namespace lockstep::kernels
