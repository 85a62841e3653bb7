// Tensor-core tiles: AVX2, 8 lanes a vector.
#include "device/vgpu/numeric/mma_tile.h"

#define LS_MMA_LANES 8

namespace lockstep::device::vgpu::numeric::mma_avx2 {
#include "device/vgpu/numeric/mma_tile.inc"
}  // namespace lockstep::device::vgpu::numeric::mma_avx2
