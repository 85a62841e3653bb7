// Tensor-core tiles: AVX-512, 16 lanes a vector.
#include "device/vgpu/numeric/mma_tile.h"

#define LS_MMA_LANES 16

namespace lockstep::device::vgpu::numeric::mma_avx512 {
#include "device/vgpu/numeric/mma_tile.inc"
}  // namespace lockstep::device::vgpu::numeric::mma_avx512
