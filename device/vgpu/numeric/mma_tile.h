// Whole warp-level mma.sync instructions, m16n8kK: operands in registers as PTX lays them out over
// 32 lanes (fragment.h), or as plain matrices.
//
// f16 and bf16 operands with blocks of at most 16 products and 25 fraction bits run in vectors, one
// copy for each host instruction set; every other form runs through the scalar model (mma.h). All
// copies give the same bits as mma_element().
//
// Vector algorithm: products a*b of f16 or bf16 values are exact in f32; times 2^(F - largest
// exponent) they are exact again, so a conversion to integer is the block's cut toward zero. Sums
// are int32. Special values, f32 overflow of a bf16 product, and largest exponents below -100
// (where that power leaves f32) go to the scalar model: the whole tile then.
#pragma once

#include <cstdint>

#include "device/vgpu/numeric/mma.h"

namespace lockstep::device::vgpu::numeric {

// 32-bit registers of a warp: element [lane] of each. How many of each are used is the form's:
// 16-bit operands: A k/4, B k/8; f32 and s32: C and D 4; f16: C and D 2. See fragment.h.
// D may be C.
struct MmaRegisters {
  const std::uint32_t* a[4];
  const std::uint32_t* b[2];
  const std::uint32_t* c[4];
  std::uint32_t* d[4];
  // Codes of the scales, one for each scale block, by row of A and column of B (if form.scaled).
  const std::uint8_t* scale_a = nullptr;  // [16][k / scale_block]
  const std::uint8_t* scale_b = nullptr;  // [8][k / scale_block]
};

// Whether the vector code runs this form.
bool has_vector_form(const MmaForm& form);

// Any form, through the scalar model.
void mma_registers_any(const MmaForm& form, const MmaRegisters& registers);

// a: [16][k] row-major, b: [8][k] (a column of B is contiguous in k), c, d: [16][8] row-major, f32
// bits or f16 codes in the low half. 16-bit operands, k of 8 or 16, vector forms only.
struct MmaMatrices {
  const std::uint16_t* a;
  const std::uint16_t* b;
  const std::uint32_t* c;
  std::uint32_t* d;
};

namespace mma_scalar {
void mma_registers(const MmaForm& form, const MmaRegisters& registers);
void mma_matrices(const MmaForm& form, const MmaMatrices& matrices);
}  // namespace mma_scalar
// Only on hosts with AVX2.
namespace mma_avx2 {
void mma_registers(const MmaForm& form, const MmaRegisters& registers);
void mma_matrices(const MmaForm& form, const MmaMatrices& matrices);
}  // namespace mma_avx2
// Only on hosts with AVX-512 F, BW, DQ, VL.
namespace mma_avx512 {
void mma_registers(const MmaForm& form, const MmaRegisters& registers);
void mma_matrices(const MmaForm& form, const MmaMatrices& matrices);
}  // namespace mma_avx512

namespace detail {
// A tile in the vector code's own order: a_pairs[k / 2][row] and b_pairs[column][k / 2] hold two
// 16-bit codes (even k low), c and d [column][row].
void mma_tile_fallback(const MmaForm& form, const std::uint32_t* a_pairs,
                       const std::uint32_t* b_pairs, const std::uint32_t* c, std::uint32_t* d);
}  // namespace detail

}  // namespace lockstep::device::vgpu::numeric
