// out[i] = fl32(a[i] + b[i]).
//
// Layout: three f32 arrays of `count`, 16-byte aligned. Grid rule: 256 threads a block, 4 elements
// a thread; the last count % 4 elements go one to a thread.
// Limits: count < 2^40. Bound by memory: 12 bytes an element, the minimum.
#include "kernels/lib/primitives.cuh"

extern "C" __global__ void __launch_bounds__(256)
    residual_add(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                 std::uint64_t count) {
  const std::uint64_t thread = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::uint64_t vectors = count / 4;
  if (thread < vectors) {
    const float4 x = reinterpret_cast<const float4*>(a)[thread];
    const float4 y = reinterpret_cast<const float4*>(b)[thread];
    reinterpret_cast<float4*>(out)[thread] = {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
  } else if (thread < vectors + count % 4) {
    const std::uint64_t i = vectors * 4 + (thread - vectors);
    out[i] = a[i] + b[i];
  }
}
