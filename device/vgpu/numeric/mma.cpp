// The scalar tensor-core model (mma.h).
#include "device/vgpu/numeric/mma.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "device/vgpu/numeric/formats.h"
#include "device/vgpu/numeric/mma_term.h"

namespace lockstep::device::vgpu::numeric {

using detail::Specials;
using detail::Term;
using detail::TermClass;

std::uint32_t code_bits(MmaFormat format) {
  switch (format) {
    case MmaFormat::F16:
    case MmaFormat::BF16:
      return 16;
    case MmaFormat::TF32:
    case MmaFormat::F32:
    case MmaFormat::S32:
      return 32;
    case MmaFormat::E4M3:
    case MmaFormat::E5M2:
    case MmaFormat::UE8M0:
    case MmaFormat::UE4M3:
    case MmaFormat::S8:
    case MmaFormat::U8:
      return 8;
    case MmaFormat::E3M2:
    case MmaFormat::E2M3:
      return 6;
    case MmaFormat::E2M1:
      return 4;
  }
  LS_CHECK(false);
  return 0;
}

namespace detail {
namespace {

// Whether the largest exponent field holds infinities and NaNs (e5m2 as IEEE 754 has them) or
// numbers, but for the all-ones code of e4m3.
enum class Top : std::uint8_t { Ieee, E4m3Nan, Numbers };

Term decode_fields(std::uint32_t code, std::uint32_t exponent_bits, std::uint32_t fraction_bits,
                   Top top) {
  const std::uint32_t exponent_mask = (1u << exponent_bits) - 1;
  const std::uint32_t fraction_mask = (1u << fraction_bits) - 1;
  const std::uint32_t exponent = (code >> fraction_bits) & exponent_mask;
  const std::uint32_t fraction = code & fraction_mask;
  const auto bias = static_cast<std::int32_t>(exponent_mask >> 1);
  Term term;
  term.negative = ((code >> (exponent_bits + fraction_bits)) & 1) != 0;
  term.fraction_bits = fraction_bits;
  term.significand = exponent == 0 ? fraction : fraction | (1u << fraction_bits);
  term.exponent = (exponent == 0 ? 1 : static_cast<std::int32_t>(exponent)) - bias;
  if (exponent == exponent_mask && top == Top::Ieee) {
    term.kind = fraction != 0 ? TermClass::NotANumber : TermClass::Infinite;
  }
  if (exponent == exponent_mask && fraction == fraction_mask && top == Top::E4m3Nan) {
    term.kind = TermClass::NotANumber;
  }
  return term;
}

}  // namespace

Term decode_term(MmaFormat format, std::uint32_t code) {
  switch (format) {
    case MmaFormat::F16:
      return decode_fields(code, 5, 10, Top::Ieee);
    case MmaFormat::BF16:
      return decode_fields(code, 8, 7, Top::Ieee);
    // The low 13 bits of a tf32 operand are ignored.
    case MmaFormat::TF32:
      return decode_fields(code >> 13, 8, 10, Top::Ieee);
    case MmaFormat::F32:
      return decode_fields(code, 8, 23, Top::Ieee);
    case MmaFormat::E4M3:
      return decode_fields(code, 4, 3, Top::E4m3Nan);
    case MmaFormat::E5M2:
      return decode_fields(code, 5, 2, Top::Ieee);
    case MmaFormat::E3M2:
      return decode_fields(code, 3, 2, Top::Numbers);
    case MmaFormat::E2M3:
      return decode_fields(code, 2, 3, Top::Numbers);
    case MmaFormat::E2M1:
      return decode_fields(code, 2, 1, Top::Numbers);
    // Block scales: ue4m3 ignores the sign bit; ue8m0 is 2^(code - 127).
    case MmaFormat::UE4M3:
      return decode_fields(code & 0x7f, 4, 3, Top::E4m3Nan);
    case MmaFormat::UE8M0: {
      Term term;
      term.significand = 1;
      term.exponent = static_cast<std::int32_t>(code) - 127;
      term.kind = code == 0xff ? TermClass::NotANumber : TermClass::Finite;
      return term;
    }
    case MmaFormat::S8:
    case MmaFormat::U8:
    case MmaFormat::S32:
      break;
  }
  LS_CHECK(false, "an integer format has no exponent");
  return {};
}

Term multiply(const Term& a, const Term& b) {
  Term product;
  product.significand = a.significand * b.significand;
  product.exponent = a.exponent + b.exponent;
  product.fraction_bits = a.fraction_bits + b.fraction_bits;
  product.negative = a.negative != b.negative;
  const bool infinite = a.kind == TermClass::Infinite || b.kind == TermClass::Infinite;
  const bool nan = a.kind == TermClass::NotANumber || b.kind == TermClass::NotANumber;
  const bool zero = (a.kind == TermClass::Finite && a.significand == 0) ||
                    (b.kind == TermClass::Finite && b.significand == 0);
  if (nan || (infinite && zero)) {
    product.kind = TermClass::NotANumber;
  } else if (infinite) {
    product.kind = TermClass::Infinite;
  }
  return product;
}

namespace {

// magnitude * 2^-shift toward zero, any shift.
std::uint64_t shift_truncated(std::uint64_t magnitude, std::int32_t shift) {
  if (shift >= 64) return 0;
  if (shift >= 0) return magnitude >> shift;
  LS_CHECK(-shift < 64 && std::bit_width(magnitude) - shift <= 64);
  return magnitude << -shift;
}

// The same to nearest even.
std::uint64_t shift_nearest(std::uint64_t magnitude, std::int32_t shift) {
  if (shift <= 0) return shift_truncated(magnitude, shift);
  if (shift > 64) return 0;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t rest = shift == 64 ? magnitude : magnitude & ((half << 1) - 1);
  const std::uint64_t floor = shift == 64 ? 0 : magnitude >> shift;
  return floor + ((rest > half || (rest == half && (floor & 1) != 0)) ? 1 : 0);
}

// Rounds to a format of `fraction_bits` and the exponent range of `minimum` .. maximum.
std::uint32_t round_to(std::uint64_t magnitude, std::int32_t scale_exponent,
                       std::int32_t fraction_bits, std::int32_t minimum, bool nearest) {
  const std::int32_t exponent =
      scale_exponent + static_cast<std::int32_t>(std::bit_width(magnitude)) - 1;
  // Unit of the result: fraction_bits below its exponent, which is at least `minimum`.
  const std::int32_t unit = std::max(exponent, minimum) - fraction_bits;
  const std::int32_t shift = unit - scale_exponent;
  const std::uint64_t kept =
      nearest ? shift_nearest(magnitude, shift) : shift_truncated(magnitude, shift);
  // The hidden bit of `kept` adds one to the exponent field.
  const std::int32_t field = std::clamp(exponent - minimum, 0, 255);
  return (static_cast<std::uint32_t>(field) << fraction_bits) + static_cast<std::uint32_t>(kept);
}

}  // namespace

std::uint32_t round_sum(MmaRounding rounding, bool negative, std::uint64_t magnitude,
                        std::int32_t scale_exponent) {
  if (magnitude == 0) return 0;
  std::uint32_t code = 0;
  switch (rounding) {
    case MmaRounding::TruncateF32:
      code = std::min(round_to(magnitude, scale_exponent, 23, -126, false), 0x7f800000u);
      break;
    case MmaRounding::TruncateE8M13:
      code = std::min(round_to(magnitude, scale_exponent, 23, -126, false), 0x7f800000u);
      code &= ~std::uint32_t{0x3ff};
      break;
    case MmaRounding::NearestF16:
      code = std::min(round_to(magnitude, scale_exponent, 10, -14, true), 0x7c00u);
      return code == 0 ? 0 : code | (negative ? 0x8000u : 0);
  }
  return code == 0 ? 0 : code | (negative ? 0x80000000u : 0);
}

}  // namespace detail

namespace {

MmaFormat result_format(MmaRounding rounding) {
  return rounding == MmaRounding::NearestF16 ? MmaFormat::F16 : MmaFormat::F32;
}

// A term that takes part in a block: `participates` may hold with a zero significand (groups).
struct BlockTerm {
  Term term;
  bool participates = false;
};

std::uint32_t add_block(const MmaBlock& block, std::span<const BlockTerm> terms) {
  Specials specials;
  std::int32_t largest = block.exponent_floor;
  for (const BlockTerm& entry : terms) {
    specials.add(entry.term);
    if (entry.participates) largest = std::max(largest, entry.term.exponent);
  }
  if (specials.any()) return specials.result(result_format(block.rounding));
  const auto kept_bits = static_cast<std::int32_t>(block.fraction_bits);
  std::int64_t sum = 0;
  for (const BlockTerm& entry : terms) {
    const Term& term = entry.term;
    if (!entry.participates || term.significand == 0) continue;
    const std::int32_t shift =
        largest - term.exponent - kept_bits + static_cast<std::int32_t>(term.fraction_bits);
    const auto aligned =
        static_cast<std::int64_t>(detail::shift_truncated(term.significand, shift));
    sum += term.negative ? -aligned : aligned;
  }
  const std::uint64_t magnitude =
      sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
  return detail::round_sum(block.rounding, sum < 0, magnitude, largest - kept_bits);
}

BlockTerm whole_term(const Term& term) { return {term, term.significand != 0}; }

BlockTerm accumulator_term(const MmaForm& form, std::uint32_t c) {
  return whole_term(detail::decode_term(form.c, c));
}

struct Operands {
  std::span<const std::uint32_t> a, b, scale_a, scale_b;
};

Term product_term(const MmaForm& form, const Operands& operands, std::size_t k) {
  Term term = detail::multiply(detail::decode_term(form.a, operands.a[k]),
                               detail::decode_term(form.b, operands.b[k]));
  if (!form.scaled) return term;
  const std::size_t index = k / form.scale_block;
  term = detail::multiply(term, detail::decode_term(form.scale, operands.scale_a[index]));
  return detail::multiply(term, detail::decode_term(form.scale, operands.scale_b[index]));
}

constexpr std::size_t kMaximumTerms = 33;  // 32 products and c

std::uint32_t blocks(const MmaForm& form, const Operands& operands, std::uint32_t c) {
  LS_CHECK(form.block.products < kMaximumTerms);
  const std::size_t count = operands.a.size();
  for (std::size_t start = 0; start < count; start += form.block.products) {
    BlockTerm terms[kMaximumTerms];
    const std::size_t end = std::min<std::size_t>(count, start + form.block.products);
    std::size_t used = 0;
    for (std::size_t k = start; k < end; ++k) {
      terms[used++] = whole_term(product_term(form, operands, k));
    }
    terms[used++] = accumulator_term(form, c);
    c = add_block(form.block, {terms, used});
  }
  return c;
}

std::uint32_t add_ieee(MmaFormat format, std::uint32_t x, std::uint32_t y) {
  if (format == MmaFormat::F32) return canonical_nan_f32(as_bits(as_float(x) + as_float(y)));
  // The sum of two f16 is exact in double; rounding it to f32 with the lost bits kept as a sticky
  // last bit (round to odd) makes the rounding to f16 the only one.
  const double sum = static_cast<double>(as_float(f16_to_f32(static_cast<std::uint16_t>(x)))) +
                     static_cast<double>(as_float(f16_to_f32(static_cast<std::uint16_t>(y))));
  std::uint32_t odd = f64_to_f32<Rounding::TowardZero>(as_bits(sum));
  if (static_cast<double>(as_float(odd)) != sum) odd |= 1;
  return f32_to_f16(odd);
}

std::uint32_t emulated_fp8(const MmaForm& form, const Operands& operands, std::uint32_t c) {
  std::uint32_t partial = 0;
  for (const std::size_t half : {0, 2}) {
    BlockTerm terms[kMaximumTerms];
    std::size_t used = 0;
    for (std::size_t k = 0; k < operands.a.size(); ++k) {
      if ((k & 2) == half) terms[used++] = whole_term(product_term(form, operands, k));
    }
    terms[used++] = accumulator_term(form, partial);
    partial = add_block(form.block, {terms, used});
  }
  return add_ieee(form.c, c, partial);
}

// One group of 16 FP4 products with its two scales as one term.
BlockTerm group_term(const MmaForm& form, const Operands& operands, std::size_t start) {
  std::int64_t sum = 0;
  bool all_zero = true;
  for (std::size_t k = start; k < start + 16; ++k) {
    const Term product = detail::multiply(detail::decode_term(form.a, operands.a[k]),
                                          detail::decode_term(form.b, operands.b[k]));
    all_zero = all_zero && product.significand == 0;
    const auto aligned = static_cast<std::int64_t>(product.significand) << product.exponent;
    sum += product.negative ? -aligned : aligned;
  }
  const std::size_t index = start / form.scale_block;
  const Term scale = detail::multiply(detail::decode_term(form.scale, operands.scale_a[index]),
                                      detail::decode_term(form.scale, operands.scale_b[index]));
  BlockTerm entry;
  entry.term = scale;
  entry.term.negative = sum < 0;
  entry.term.significand = scale.significand * static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  entry.term.fraction_bits = scale.fraction_bits + 2;  // a product of two e2m1 has 2
  entry.participates = !all_zero && scale.significand != 0;
  return entry;
}

std::uint32_t grouped_fp4(const MmaForm& form, const Operands& operands, std::uint32_t c) {
  LS_CHECK(operands.a.size() % 16 == 0 && operands.a.size() <= 16 * (kMaximumTerms - 1));
  BlockTerm terms[kMaximumTerms];
  std::size_t used = 0;
  for (std::size_t start = 0; start < operands.a.size(); start += 16) {
    terms[used++] = group_term(form, operands, start);
  }
  terms[used++] = accumulator_term(form, c);
  return add_block(form.block, {terms, used});
}

std::int64_t integer(MmaFormat format, std::uint32_t code) {
  return format == MmaFormat::S8 ? static_cast<std::int8_t>(code)
                                 : static_cast<std::int64_t>(code & 0xff);
}

std::uint32_t integer_sum(const MmaForm& form, const Operands& operands, std::uint32_t c) {
  std::int64_t sum = static_cast<std::int32_t>(c);
  for (std::size_t k = 0; k < operands.a.size(); ++k) {
    sum += integer(form.a, operands.a[k]) * integer(form.b, operands.b[k]);
  }
  if (form.scheme == MmaScheme::IntegerSaturate) {
    sum = std::clamp<std::int64_t>(sum, INT32_MIN, INT32_MAX);
  }
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

std::uint32_t mma_element(const MmaForm& form, std::span<const std::uint32_t> a,
                          std::span<const std::uint32_t> b, std::uint32_t c,
                          std::span<const std::uint32_t> scale_a,
                          std::span<const std::uint32_t> scale_b) {
  LS_CHECK(a.size() == b.size() && a.size() <= form.k);
  const Operands operands{a, b, scale_a, scale_b};
  if (form.scaled) {
    const std::size_t scales = (a.size() + form.scale_block - 1) / form.scale_block;
    LS_CHECK(scale_a.size() >= scales && scale_b.size() >= scales);
  }
  switch (form.scheme) {
    case MmaScheme::Blocks:
      return blocks(form, operands, c);
    case MmaScheme::EmulatedFp8:
      return emulated_fp8(form, operands, c);
    case MmaScheme::GroupedFp4:
      return grouped_fp4(form, operands, c);
    case MmaScheme::IntegerWrap:
    case MmaScheme::IntegerSaturate:
      return integer_sum(form, operands, c);
  }
  LS_CHECK(false);
  return 0;
}

std::uint32_t mma_chain(const MmaForm& form, std::span<const std::uint32_t> a,
                        std::span<const std::uint32_t> b, std::uint32_t c,
                        std::span<const std::uint32_t> scale_a,
                        std::span<const std::uint32_t> scale_b) {
  LS_CHECK(a.size() == b.size());
  const std::size_t scales = form.scaled ? form.k / form.scale_block : 0;
  for (std::size_t start = 0, index = 0; start < a.size(); start += form.k, index += scales) {
    const std::size_t count = std::min<std::size_t>(form.k, a.size() - start);
    c = mma_element(form, a.subspan(start, count), b.subspan(start, count), c,
                    form.scaled ? scale_a.subspan(index) : scale_a,
                    form.scaled ? scale_b.subspan(index) : scale_b);
  }
  return c;
}

}  // namespace lockstep::device::vgpu::numeric
