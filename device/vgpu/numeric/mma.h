// Tensor-core arithmetic of each generation, to the bit: the truncated fused dot-product-add
// "block" and its composition into instructions. One output element at a time here; mma_tile.h has
// whole m16n8 instructions, equal bit for bit.
//
// One block adds up to L products a*b and an accumulator c. Significands and exponents are those of
// the formats: products are not normalised, subnormals neither. Every term is aligned to the
// largest exponent of a non-zero term (at least `exponent_floor`), cut toward zero to
// `fraction_bits` below it, summed exactly, and rounded once. Zero results are +0. Any NaN, 0 *
// Inf, or Inf - Inf gives 0x7fffffff (f16: 0x7fff); else an infinite term gives that infinity.
// Overflow of a result is infinity.
//
// Sources: measured rows of eight GPUs by Khattak and Mikaitis (arXiv 2512.07004) and the models of
// Xie et al. (arXiv 2511.10909); golden/tensor_core_vectors checks every parameter set.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::device::vgpu::numeric {

// Scoped names, yet g++ 12 warns that they shadow the types of formats.h.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
// Operand and result formats. Codes travel in the low bits of a std::uint32_t.
enum class MmaFormat : std::uint8_t {
  F16,
  BF16,
  TF32,
  E4M3,
  E5M2,
  E3M2,
  E2M3,
  E2M1,
  UE8M0,
  UE4M3,
  F32,
  S8,
  U8,
  S32,
};
#pragma GCC diagnostic pop
// Bits of one code: 16, 32 (TF32, F32, S32), 8, 6 or 4.
std::uint32_t code_bits(MmaFormat format);

enum class MmaRounding : std::uint8_t {
  TruncateF32,    // toward zero to f32
  TruncateE8M13,  // toward zero to 13 fraction bits of f32
  NearestF16,     // to nearest even f16
};

struct MmaBlock {
  std::uint32_t products = 16;       // L, at most 32
  std::uint32_t fraction_bits = 25;  // F: bits kept below the largest exponent
  std::int32_t exponent_floor = -133;
  MmaRounding rounding = MmaRounding::TruncateF32;
  friend bool operator==(const MmaBlock&, const MmaBlock&) = default;
};

// How an instruction is made of blocks.
enum class MmaScheme : std::uint8_t {
  Blocks,  // blocks of L products in increasing k; each result is the next block's c
  // FP8 where the hardware has none (ptxas unpacks to f16): a block over products with k mod 4 in
  // {0, 1} and c = 0, one over the others on top of it, then an IEEE addition of c.
  EmulatedFp8,
  // FP4 with block scales, K = 64: products are summed exactly in groups of 16; the four group
  // sums, times their scales, and c are the terms of one block. A group takes part in the largest
  // exponent (that of its scales) unless all of its products or its scale are zero, even if it
  // cancels.
  GroupedFp4,
  IntegerWrap,      // exact sum modulo 2^32
  IntegerSaturate,  // exact sum clamped to 32 bits (.satfinite)
};

// One instruction's arithmetic for one output element.
struct MmaForm {
  MmaFormat a = MmaFormat::F16, b = MmaFormat::F16;
  MmaFormat c = MmaFormat::F32;  // of C and D
  std::uint32_t k = 16;          // products of one instruction
  MmaScheme scheme = MmaScheme::Blocks;
  MmaBlock block = {};
  bool scaled = false;                 // .block_scale
  MmaFormat scale = MmaFormat::UE8M0;  // of the scales
  std::uint32_t scale_block = 32;      // products that share one scale
  friend bool operator==(const MmaForm&, const MmaForm&) = default;
};

// One output of one instruction. `a`, `b`: form.k codes each (fewer: the rest is zero, which takes
// no part); `c`: code of form.c; `scale_a`, `scale_b`: form.k / form.scale_block codes if scaled.
// Returns the code of form.c.
std::uint32_t mma_element(const MmaForm& form, std::span<const std::uint32_t> a,
                          std::span<const std::uint32_t> b, std::uint32_t c,
                          std::span<const std::uint32_t> scale_a = {},
                          std::span<const std::uint32_t> scale_b = {});

// A longer dot product: instructions of form.k products in increasing k, D fed back as C.
std::uint32_t mma_chain(const MmaForm& form, std::span<const std::uint32_t> a,
                        std::span<const std::uint32_t> b, std::uint32_t c,
                        std::span<const std::uint32_t> scale_a = {},
                        std::span<const std::uint32_t> scale_b = {});

// The exact sum c + sum of a*b (times scales), rounded once to nearest even in form.c; no
// generation does this. Special values as above. For tests and reports.
std::uint32_t exact_dot(const MmaForm& form, std::span<const std::uint32_t> a,
                        std::span<const std::uint32_t> b, std::uint32_t c,
                        std::span<const std::uint32_t> scale_a = {},
                        std::span<const std::uint32_t> scale_b = {});

}  // namespace lockstep::device::vgpu::numeric
