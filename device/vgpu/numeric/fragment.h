// Which lane and register of a warp hold which element of an mma.sync m16n8kK fragment.
//
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k..": with g = lane / 4 and t = lane % 4 all
// shapes of one element size follow one rule. E elements share a 32-bit register (E = 2 of 16 bits,
// 1 of tf32, 4 of 8 bits, 8 of 4 bits); a register covers E neighbours in k starting at E t.
#pragma once

#include <cstdint>

#include "device/vgpu/numeric/mma.h"

namespace lockstep::device::vgpu::numeric {

// Where an element stands: bits [shift, shift + element bits) of `reg`, in `lane`.
struct FragmentPlace {
  std::uint32_t lane, reg, shift;
};

// Bits that one operand element takes in a register: FP6 and FP4 of kind::f8f6f4 take a byte.
inline constexpr std::uint32_t container_bits(MmaFormat format, std::uint32_t k) {
  switch (format) {
    case MmaFormat::F16:
    case MmaFormat::BF16:
      return 16;
    case MmaFormat::TF32:
    case MmaFormat::F32:
    case MmaFormat::S32:
      return 32;
    case MmaFormat::E2M1:
      return k == 64 ? 4 : 8;
    case MmaFormat::E4M3:
    case MmaFormat::E5M2:
    case MmaFormat::E3M2:
    case MmaFormat::E2M3:
    case MmaFormat::UE8M0:
    case MmaFormat::UE4M3:
    case MmaFormat::S8:
    case MmaFormat::U8:
      return 8;
  }
  return 0;
}

// A: 16 x K. Registers: rows g and g + 8 of the first 4 E columns, then of the next 4 E.
inline constexpr FragmentPlace place_a(std::uint32_t row, std::uint32_t k, std::uint32_t bits) {
  const std::uint32_t per_register = 32 / bits;
  const std::uint32_t span = 4 * per_register;  // columns that one register of all lanes covers
  const std::uint32_t inside = k % span;
  return {.lane = row % 8 * 4 + inside / per_register,
          .reg = k / span * 2 + row / 8,
          .shift = inside % per_register * bits};
}

// B: K x 8.
inline constexpr FragmentPlace place_b(std::uint32_t k, std::uint32_t column, std::uint32_t bits) {
  const std::uint32_t per_register = 32 / bits;
  const std::uint32_t span = 4 * per_register;
  const std::uint32_t inside = k % span;
  return {.lane = column * 4 + inside / per_register,
          .reg = k / span,
          .shift = inside % per_register * bits};
}

// C and D: 16 x 8, 32-bit elements: registers 0 and 1 hold columns 2 t and 2 t + 1 of row g,
// registers 2 and 3 of row g + 8. f16: the two columns share a register.
inline constexpr FragmentPlace place_c(std::uint32_t row, std::uint32_t column,
                                       std::uint32_t bits) {
  const std::uint32_t lane = row % 8 * 4 + column / 2;
  if (bits == 16) return {.lane = lane, .reg = row / 8, .shift = column % 2 * 16};
  return {.lane = lane, .reg = row / 8 * 2 + column % 2, .shift = 0};
}

// ldmatrix .m8n8.b16 (one 8 x 8 matrix): lane 4 r + c / 2 holds elements c, c + 1 of row r; .trans
// exchanges row and column. stmatrix and movmatrix use the same layout.
inline constexpr FragmentPlace place_ldmatrix(std::uint32_t row, std::uint32_t column,
                                              bool transposed) {
  const std::uint32_t r = transposed ? column : row;
  const std::uint32_t c = transposed ? row : column;
  return {.lane = r * 4 + c / 2, .reg = 0, .shift = c % 2 * 16};
}

}  // namespace lockstep::device::vgpu::numeric
