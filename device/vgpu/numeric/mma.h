// Tensor-core arithmetic of each generation, to the bit: the truncated fused dot-product-add
// "block" and its composition into instructions. One output element at a time here; mma_tile has
// the fast whole-instruction forms, equal bit for bit.
// Source: measured data of Khattak and Mikaitis (2025) and mmasim; golden/tensor_core_vectors checks it.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::device::vgpu::numeric {

// Operand formats of a dot product.
enum class MmaFormat : std::uint8_t {
  F16, BF16, TF32, E4M3, E5M2, E3M2, E2M3, E2M1, UE8M0, UE4M3, F32, S8, U8, S32,
};

enum class MmaRounding : std::uint8_t {
  TruncateF32,    // RZ to f32
  TruncateE8M13,  // RZ to 13 fraction bits of f32
  NearestF16,     // RNE to f16
};

// One block: products whose sum is truncated together.
struct MmaBlock {
  std::uint32_t products = 16;       // L
  std::uint32_t fraction_bits = 25;  // F: bits kept below the largest exponent
  std::int32_t exponent_floor = -133;
  MmaRounding rounding = MmaRounding::TruncateF32;
};

}  // namespace lockstep::device::vgpu::numeric
