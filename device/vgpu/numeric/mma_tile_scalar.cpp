// Tensor-core tiles: plain x86-64, 4 lanes a vector.
#include "device/vgpu/numeric/mma_tile.h"

#define LS_MMA_LANES 4

namespace lockstep::device::vgpu::numeric::mma_scalar {
#include "device/vgpu/numeric/mma_tile.inc"
}  // namespace lockstep::device::vgpu::numeric::mma_scalar
