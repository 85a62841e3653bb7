// The parts of mma_tile.h that every host runs: forms without vector code, through the scalar
// model.
#include "device/vgpu/numeric/mma_tile.h"

#include "base/check.h"
#include "device/vgpu/numeric/fragment.h"

namespace lockstep::device::vgpu::numeric {

namespace {

constexpr std::uint32_t kRows = 16, kColumns = 8, kMaximumK = 64;

bool is_integer(MmaFormat format) { return format == MmaFormat::S8 || format == MmaFormat::U8; }

// FP4 in a byte container stands in bits 5:2.
std::uint32_t from_container(MmaFormat format, std::uint32_t bits, std::uint32_t value) {
  if (format == MmaFormat::E2M1 && bits == 8) return (value >> 2) & 0xf;
  if (format == MmaFormat::E3M2 || format == MmaFormat::E2M3) return value & 0x3f;
  return value;
}

std::uint32_t read(const std::uint32_t* const* registers, const FragmentPlace& place,
                   std::uint32_t bits) {
  const std::uint32_t word = registers[place.reg][place.lane] >> place.shift;
  return bits == 32 ? word : word & ((1u << bits) - 1);
}

}  // namespace

bool has_vector_form(const MmaForm& form) {
  const bool operands = form.a == form.b && (form.a == MmaFormat::F16 || form.a == MmaFormat::BF16);
  const bool result =
      (form.c == MmaFormat::F32 && form.block.rounding == MmaRounding::TruncateF32) ||
      (form.c == MmaFormat::F16 && form.a == MmaFormat::F16 &&
       form.block.rounding == MmaRounding::NearestF16);
  const std::uint32_t products = form.block.products;
  return operands && result && form.scheme == MmaScheme::Blocks && !form.scaled &&
         (form.k == 8 || form.k == 16) && (products == 4 || products == 8 || products == 16) &&
         form.block.fraction_bits <= 25 && form.block.fraction_bits >= 20;
}

void mma_registers_any(const MmaForm& form, const MmaRegisters& registers) {
  LS_CHECK(form.k <= kMaximumK);
  const std::uint32_t a_bits = container_bits(form.a, form.k);
  const std::uint32_t b_bits = container_bits(form.b, form.k);
  const std::uint32_t c_bits = container_bits(form.c, form.k);
  const std::uint32_t scales = form.scaled ? form.k / form.scale_block : 0;
  std::uint32_t a[kRows][kMaximumK], b[kColumns][kMaximumK], d[kRows][kColumns];
  for (std::uint32_t k = 0; k < form.k; ++k) {
    for (std::uint32_t row = 0; row < kRows; ++row) {
      a[row][k] =
          from_container(form.a, a_bits, read(registers.a, place_a(row, k, a_bits), a_bits));
    }
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      b[column][k] =
          from_container(form.b, b_bits, read(registers.b, place_b(k, column, b_bits), b_bits));
    }
  }
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      std::uint32_t scale_a[4] = {}, scale_b[4] = {};
      for (std::uint32_t i = 0; i < scales; ++i) {
        scale_a[i] = registers.scale_a[row * scales + i];
        scale_b[i] = registers.scale_b[column * scales + i];
      }
      const std::uint32_t c = read(registers.c, place_c(row, column, c_bits), c_bits);
      d[row][column] = mma_element(form, {a[row], form.k}, {b[column], form.k}, c,
                                   {scale_a, scales}, {scale_b, scales});
    }
  }
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      const FragmentPlace place = place_c(row, column, c_bits);
      std::uint32_t& word = registers.d[place.reg][place.lane];
      word = c_bits == 32       ? d[row][column]
             : place.shift == 0 ? d[row][column]
                                : (word & 0xffff) | d[row][column] << 16;
    }
  }
}

void detail::mma_tile_fallback(const MmaForm& form, const std::uint32_t* a_pairs,
                               const std::uint32_t* b_pairs, const std::uint32_t* c,
                               std::uint32_t* d) {
  LS_CHECK(form.k <= 16 && !is_integer(form.a));
  const std::uint32_t pairs = form.k / 2;
  for (std::uint32_t column = 0; column < kColumns; ++column) {
    std::uint32_t b[16];
    for (std::uint32_t k = 0; k < form.k; ++k) {
      b[k] = (b_pairs[column * pairs + k / 2] >> (k % 2 * 16)) & 0xffff;
    }
    for (std::uint32_t row = 0; row < kRows; ++row) {
      std::uint32_t a[16];
      for (std::uint32_t k = 0; k < form.k; ++k) {
        a[k] = (a_pairs[k / 2 * kRows + row] >> (k % 2 * 16)) & 0xffff;
      }
      d[column * kRows + row] =
          mma_element(form, {a, form.k}, {b, form.k}, c[column * kRows + row]);
    }
  }
}

}  // namespace lockstep::device::vgpu::numeric
