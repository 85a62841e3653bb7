// Tensor-core instructions as a whole: fragment layouts, and the vector copies against the scalar
// model. The model itself is checked by golden/tensor_core_vectors in the harness.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/prng.h"
#include "device/vgpu/numeric/formats.h"
#include "device/vgpu/numeric/fragment.h"
#include "device/vgpu/numeric/mma_tile.h"

namespace lockstep::device::vgpu::numeric {
namespace {

constexpr std::uint32_t kRows = 16, kColumns = 8;

TEST(Fragment, every_bit_of_the_registers_holds_one_element) {
  for (const std::uint32_t bits : {4u, 8u, 16u, 32u}) {
    for (const std::uint32_t k : {128 / bits, 256 / bits}) {
      std::set<std::uint32_t> a, b;
      for (std::uint32_t element = 0; element < k; ++element) {
        for (std::uint32_t row = 0; row < kRows; ++row) {
          const FragmentPlace place = place_a(row, element, bits);
          EXPECT_LT(place.lane, 32u);
          EXPECT_LT(place.reg, k * bits / 64);
          a.insert((place.reg * 32 + place.lane) * 32 + place.shift);
        }
        for (std::uint32_t column = 0; column < kColumns; ++column) {
          const FragmentPlace place = place_b(element, column, bits);
          EXPECT_LT(place.lane, 32u);
          EXPECT_LT(place.reg, k * bits / 128);
          b.insert((place.reg * 32 + place.lane) * 32 + place.shift);
        }
      }
      EXPECT_EQ(a.size(), k * kRows);
      EXPECT_EQ(b.size(), k * kColumns);
    }
  }
  for (const std::uint32_t bits : {16u, 32u}) {
    std::set<std::uint32_t> c;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      for (std::uint32_t column = 0; column < kColumns; ++column) {
        const FragmentPlace place = place_c(row, column, bits);
        EXPECT_LT(place.lane, 32u);
        c.insert((place.reg * 32 + place.lane) * 32 + place.shift);
      }
    }
    EXPECT_EQ(c.size(), std::size_t{kRows} * kColumns);
  }
}

void expect_place(const FragmentPlace& place, std::uint32_t lane, std::uint32_t reg,
                  std::uint32_t shift) {
  EXPECT_EQ(place.lane, lane);
  EXPECT_EQ(place.reg, reg);
  EXPECT_EQ(place.shift, shift);
}

// Formulas of the PTX ISA at chosen elements.
TEST(Fragment, places_are_those_of_the_ptx_isa) {
  // m16n8k16, 16 bits: a2 is row g, a3 row g + 8 of columns 8 + 2 t.
  expect_place(place_a(3, 0, 16), 12, 0, 0);
  expect_place(place_a(11, 5, 16), 14, 1, 16);
  expect_place(place_a(3, 14, 16), 15, 2, 0);
  expect_place(place_a(15, 15, 16), 31, 3, 16);
  expect_place(place_b(9, 2, 16), 8, 1, 16);
  // m16n8k8 tf32: a1 is row g + 8, a2 column t + 4.
  expect_place(place_a(8, 3, 32), 3, 1, 0);
  expect_place(place_a(0, 6, 32), 2, 2, 0);
  expect_place(place_b(7, 1, 32), 7, 1, 0);
  // m16n8k32, 8 bits: four columns a register.
  expect_place(place_a(1, 5, 8), 5, 0, 8);
  expect_place(place_a(9, 31, 8), 7, 3, 24);
  expect_place(place_b(18, 7, 8), 28, 1, 16);
  // C: c0 c1 of row g, c2 c3 of row g + 8.
  expect_place(place_c(2, 5, 32), 10, 1, 0);
  expect_place(place_c(10, 4, 32), 10, 2, 0);
  expect_place(place_c(10, 5, 16), 10, 1, 16);
  expect_place(place_ldmatrix(5, 3, false), 21, 0, 16);
  expect_place(place_ldmatrix(5, 3, true), 14, 0, 16);
}

struct Path {
  const char* name;
  void (*registers)(const MmaForm&, const MmaRegisters&);
  void (*matrices)(const MmaForm&, const MmaMatrices&);
};
std::vector<Path> paths() {
  std::vector<Path> result = {{"scalar", mma_scalar::mma_registers, mma_scalar::mma_matrices}};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) {
    result.push_back({"avx2", mma_avx2::mma_registers, mma_avx2::mma_matrices});
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    result.push_back({"avx512", mma_avx512::mma_registers, mma_avx512::mma_matrices});
  }
  return result;
}

std::vector<MmaForm> vector_forms() {
  std::vector<MmaForm> forms;
  for (const std::uint32_t k : {8u, 16u}) {
    // Volta, Ampere, Hopper: products, fraction bits, floor less f16's.
    const MmaBlock blocks[] = {{4, 23, -131, MmaRounding::TruncateF32},
                               {8, 24, -132, MmaRounding::TruncateF32},
                               {16, 25, -133, MmaRounding::TruncateF32}};
    for (MmaBlock block : blocks) {
      MmaForm form;
      form.k = k;
      form.block = block;
      forms.push_back(form);
      form.a = form.b = MmaFormat::BF16;
      forms.push_back(form);
      form.a = form.b = form.c = MmaFormat::F16;
      form.block.rounding = MmaRounding::NearestF16;
      form.block.exponent_floor += 112;
      forms.push_back(form);
    }
  }
  return forms;
}

// What a tile's operands look like.
enum class Style { Normal, Raw, RawFinite, Wide, Sparse, Tiny, Cancelling };
constexpr Style kStyles[] = {Style::Normal, Style::Raw,  Style::RawFinite, Style::Wide,
                             Style::Sparse, Style::Tiny, Style::Cancelling};

class Operands {
 public:
  Operands(base::Prng& prng, const MmaForm& form, Style style) : prng_(prng), style_(style) {
    const bool bf16 = form.a == MmaFormat::BF16;
    for (std::uint16_t& code : a) code = operand(bf16);
    for (std::uint16_t& code : b) code = operand(bf16);
    for (std::uint32_t& code : c) {
      if (form.c == MmaFormat::F16) {
        code = operand(false);
      } else {
        code = style == Style::Raw ? static_cast<std::uint32_t>(prng.next())
                                   : as_bits(static_cast<float>(prng.normal()) * scale(true));
        if (style == Style::Sparse) code = prng.below(2) == 0 ? 0 : code;
      }
    }
    if (style == Style::Cancelling) {
      for (std::uint32_t k = 0; k + 1 < form.k; k += 2) {
        for (std::uint32_t row = 0; row < kRows; ++row) {
          a[row * form.k + k + 1] = a[row * form.k + k] ^ 0x8000;
        }
        for (std::uint32_t column = 0; column < kColumns; ++column) {
          b[column * form.k + k + 1] = b[column * form.k + k];
        }
      }
    }
  }
  std::uint16_t a[kRows * 16] = {}, b[kColumns * 16] = {};
  std::uint32_t c[kRows * kColumns] = {};

 private:
  float scale(bool wide) {
    switch (style_) {
      case Style::Normal:
      case Style::Raw:
      case Style::RawFinite:
      case Style::Sparse:
      case Style::Cancelling:
        return 1;
      case Style::Wide:
        return std::ldexp(1.0f, static_cast<int>(prng_.below(24)) - 12);
      case Style::Tiny:
        return wide ? 0x1p-130f : 0x1p-20f;
    }
    return 1;
  }
  std::uint16_t operand(bool bf16) {
    if (style_ == Style::Raw || style_ == Style::RawFinite) {
      const auto code = static_cast<std::uint16_t>(prng_.next());
      const std::uint16_t field = bf16 ? 0x7f80 : 0x7c00;
      return style_ == Style::RawFinite && (code & field) == field ? code & 0x8fff : code;
    }
    if (style_ == Style::Sparse && prng_.below(4) != 0) return prng_.below(2) == 0 ? 0 : 0x8000;
    const std::uint32_t value = as_bits(static_cast<float>(prng_.normal()) * scale(bf16));
    return bf16 ? f32_to_bf16(value) : f32_to_f16(value);
  }
  base::Prng& prng_;
  Style style_;
};

std::vector<std::uint32_t> expected(const MmaForm& form, const Operands& operands) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      std::uint32_t a[16], b[16];
      for (std::uint32_t k = 0; k < form.k; ++k) {
        a[k] = operands.a[row * form.k + k];
        b[k] = operands.b[column * form.k + k];
      }
      result.push_back(
          mma_element(form, {a, form.k}, {b, form.k}, operands.c[row * kColumns + column]));
    }
  }
  return result;
}

TEST(MmaTile, every_host_path_equals_the_scalar_model_bit_for_bit) {
  base::Prng prng(6);
  for (const MmaForm& form : vector_forms()) {
    ASSERT_TRUE(has_vector_form(form));
    for (const Style style : kStyles) {
      for (int repeat = 0; repeat < 12; ++repeat) {
        const Operands operands(prng, form, style);
        const std::vector<std::uint32_t> want = expected(form, operands);
        for (const Path& path : paths()) {
          std::vector<std::uint32_t> got(want.size());
          path.matrices(form, {operands.a, operands.b, operands.c, got.data()});
          ASSERT_EQ(got, want) << path.name << " k " << form.k << " L " << form.block.products
                               << " style " << static_cast<int>(style);
        }
      }
    }
  }
}

// Random registers of any form; D written over C.
struct RegisterFile {
  std::uint32_t a[4][32], b[2][32], c[4][32];
  explicit RegisterFile(base::Prng& prng) {
    for (auto& reg : a) fill(prng, reg);
    for (auto& reg : b) fill(prng, reg);
    for (auto& reg : c) fill(prng, reg);
  }
  static void fill(base::Prng& prng, std::uint32_t (&reg)[32]) {
    for (std::uint32_t& word : reg) word = static_cast<std::uint32_t>(prng.next()) & 0x3fff3fff;
  }
  MmaRegisters pointers() {
    return {
        {a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {c[0], c[1], c[2], c[3]}, {c[0], c[1], c[2], c[3]}};
  }
};

TEST(MmaTile, registers_are_read_and_written_where_the_fragments_say) {
  base::Prng prng(7);
  for (const MmaForm& form : vector_forms()) {
    for (const Path& path : paths()) {
      RegisterFile file(prng);
      RegisterFile copy = file;
      path.registers(form, file.pointers());
      mma_registers_any(form, copy.pointers());
      for (std::uint32_t reg = 0; reg < 4; ++reg) {
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          ASSERT_EQ(file.c[reg][lane], copy.c[reg][lane]) << path.name << reg << ' ' << lane;
        }
      }
    }
  }
}

TEST(MmaTile, one_hot_operands_select_one_product) {
  // m16n8k32 s8: exact, so each (row, k, column) shows where it is read.
  MmaForm form;
  form.a = form.b = MmaFormat::S8;
  form.c = MmaFormat::S32;
  form.k = 32;
  form.scheme = MmaScheme::IntegerWrap;
  for (std::uint32_t row = 0; row < kRows; row += 3) {
    for (std::uint32_t column = 0; column < kColumns; ++column) {
      const std::uint32_t k = (row * 7 + column * 5) % 32;
      base::Prng prng(1);
      RegisterFile file(prng);
      for (auto& reg : file.a) std::fill(std::begin(reg), std::end(reg), 0);
      for (auto& reg : file.b) std::fill(std::begin(reg), std::end(reg), 0);
      for (auto& reg : file.c) std::fill(std::begin(reg), std::end(reg), 0);
      const FragmentPlace in_a = place_a(row, k, 8), in_b = place_b(k, column, 8);
      file.a[in_a.reg][in_a.lane] = 11u << in_a.shift;
      file.b[in_b.reg][in_b.lane] = 0xfbu << in_b.shift;  // -5
      mma_registers_any(form, file.pointers());
      const FragmentPlace in_c = place_c(row, column, 32);
      for (std::uint32_t reg = 0; reg < 4; ++reg) {
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          const bool here = reg == in_c.reg && lane == in_c.lane;
          EXPECT_EQ(file.c[reg][lane], here ? static_cast<std::uint32_t>(-55) : 0);
        }
      }
    }
  }
}

TEST(Mma, a_chain_is_one_instruction_after_another) {
  base::Prng prng(8);
  MmaForm form;
  std::uint32_t a[48], b[48];
  for (std::uint32_t& code : a) code = f32_to_f16(as_bits(static_cast<float>(prng.normal())));
  for (std::uint32_t& code : b) code = f32_to_f16(as_bits(static_cast<float>(prng.normal())));
  std::uint32_t c = as_bits(0.5f);
  const std::uint32_t whole = mma_chain(form, a, b, c);
  for (std::uint32_t start = 0; start < 48; start += 16) {
    c = mma_element(form, {a + start, 16}, {b + start, 16}, c);
  }
  EXPECT_EQ(whole, c);
}

TEST(Mma, small_integers_are_exact_on_every_block) {
  base::Prng prng(9);
  for (const MmaForm& form : vector_forms()) {
    if (form.c != MmaFormat::F32) continue;
    std::uint32_t a[16], b[16];
    std::int32_t sum = static_cast<std::int32_t>(prng.below(2000)) - 1000;
    const std::uint32_t c = as_bits(static_cast<float>(sum));
    for (std::uint32_t k = 0; k < form.k; ++k) {
      const auto x = static_cast<std::int32_t>(prng.below(201)) - 100;
      const auto y = static_cast<std::int32_t>(prng.below(201)) - 100;
      sum += x * y;
      const std::uint32_t wide_x = as_bits(static_cast<float>(x));
      const std::uint32_t wide_y = as_bits(static_cast<float>(y));
      a[k] = form.a == MmaFormat::F16 ? f32_to_f16(wide_x) : f32_to_bf16(wide_x);
      b[k] = form.a == MmaFormat::F16 ? f32_to_f16(wide_y) : f32_to_bf16(wide_y);
    }
    EXPECT_EQ(mma_element(form, {a, form.k}, {b, form.k}, c), as_bits(static_cast<float>(sum)));
  }
}

}  // namespace
}  // namespace lockstep::device::vgpu::numeric
