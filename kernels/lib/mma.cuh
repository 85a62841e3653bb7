// Tensor-core products and the loads that feed them: mma.sync m16n8k16 with f16 or bf16 operands
// and f32 accumulators, ldmatrix. Fragment layouts are those of the PTX ISA. Device only.
//
// Lane `lane` of a warp holds, of
//   A (16 x 16): rows lane/4 and lane/4 + 8, columns 2 (lane%4) + {0, 1} and those + 8:
//                a0 (row, col), a1 (row + 8, col), a2 (row, col + 8), a3 (row + 8, col + 8)
//   B (16 x 8):  column lane/4, rows 2 (lane%4) + {0, 1} in b0 and those + 8 in b1
//   C (16 x 8):  columns 2 (lane%4) + {0, 1} of row lane/4 in c0, c1 and of row lane/4 + 8 in c2,
//   c3
#pragma once

#include <cstdint>

#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {

// Four 8 x 8 matrices of 16-bit numbers; lanes 8 i .. 8 i + 7 give the addresses of the rows of
// matrix i. Lane `lane` gets row lane/4, columns 2 (lane%4) + {0, 1} of each.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
// The same with each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4],
                                                         std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}

// c += A B.
template <Format kFormat>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  static_assert(kFormat == Format::F16 || kFormat == Format::BF16);
  if constexpr (kFormat == Format::F16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

}  // namespace lockstep::kernels
