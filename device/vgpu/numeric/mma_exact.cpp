// exact_dot (mma.h): the sum as one wide integer, rounded once.
#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "device/vgpu/numeric/mma.h"
#include "device/vgpu/numeric/mma_term.h"

namespace lockstep::device::vgpu::numeric {
namespace {

using detail::Specials;
using detail::Term;

// A two's complement integer in units of 2^-kUnit. The largest term is a scaled product: below
// 2^(127 * 4); the smallest unit 2^-(127 * 4 + 46); 2^16 terms fit.
class WideSum {
 public:
  static constexpr std::int32_t kUnit = 640;
  static constexpr std::size_t kWords = 20;

  void add(const Term& term) {
    const std::int32_t shift =
        term.exponent - static_cast<std::int32_t>(term.fraction_bits) + kUnit;
    LS_CHECK(shift >= 0 && shift / 64 + 2 < static_cast<std::int32_t>(kWords));
    const auto word = static_cast<std::size_t>(shift) / 64;
    const int bit = shift % 64;
    const std::uint64_t low = term.significand << bit;
    const std::uint64_t high = bit == 0 ? 0 : term.significand >> (64 - bit);
    if (term.negative) {
      subtract_at(word, low);
      subtract_at(word + 1, high);
    } else {
      add_at(word, low);
      add_at(word + 1, high);
    }
  }

  bool negative() const { return (words_[kWords - 1] >> 63) != 0; }
  WideSum magnitude() const {
    if (!negative()) return *this;
    WideSum result;
    for (std::size_t i = 0; i < kWords; ++i) result.subtract_at(i, words_[i]);
    return result;
  }
  // The top 62 bits or fewer, lowest bit set if anything below is lost (round to odd), and the
  // exponent of their unit.
  std::uint64_t top(std::int32_t& scale_exponent) const {
    std::int32_t last = static_cast<std::int32_t>(kWords) * 64 - 1;
    while (last >= 0 && !bit_at(last)) --last;
    if (last < 0) return 0;
    const std::int32_t first = std::max(0, last - 61);
    std::uint64_t result = 0;
    for (std::int32_t i = last; i >= first; --i) result = result << 1 | (bit_at(i) ? 1 : 0);
    bool lost = false;
    for (std::int32_t i = 0; i < first; ++i) lost = lost || bit_at(i);
    scale_exponent = first - kUnit;
    return result | (lost ? 1 : 0);
  }

 private:
  bool bit_at(std::int32_t i) const {
    return ((words_[static_cast<std::size_t>(i) / 64] >> (i % 64)) & 1) != 0;
  }
  void add_at(std::size_t word, std::uint64_t value) {
    for (; word < kWords && value != 0; ++word) {
      words_[word] += value;
      value = words_[word] < value ? 1 : 0;
    }
  }
  void subtract_at(std::size_t word, std::uint64_t value) {
    for (; word < kWords && value != 0; ++word) {
      const bool borrow = words_[word] < value;
      words_[word] -= value;
      value = borrow ? 1 : 0;
    }
  }
  std::array<std::uint64_t, kWords> words_ = {};
};

// Round to nearest even f32 from at most 62 bits.
std::uint32_t nearest_f32(bool negative, std::uint64_t magnitude, std::int32_t scale_exponent) {
  if (magnitude == 0) return 0;
  const std::int32_t exponent =
      scale_exponent + static_cast<std::int32_t>(std::bit_width(magnitude)) - 1;
  const std::int32_t unit = std::max(exponent, -126) - 23;
  const std::int32_t shift = unit - scale_exponent;
  std::uint64_t kept = 0;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift < 64) {
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    const std::uint64_t rest = magnitude & ((half << 1) - 1);
    kept = magnitude >> shift;
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  }
  const auto field = static_cast<std::uint32_t>(std::clamp(exponent + 126, 0, 255));
  const std::uint32_t code =
      std::min((field << 23) + static_cast<std::uint32_t>(kept), 0x7f800000u);
  return code | (negative ? 0x80000000u : 0);
}

}  // namespace

std::uint32_t exact_dot(const MmaForm& form, std::span<const std::uint32_t> a,
                        std::span<const std::uint32_t> b, std::uint32_t c,
                        std::span<const std::uint32_t> scale_a,
                        std::span<const std::uint32_t> scale_b) {
  LS_CHECK(a.size() == b.size());
  LS_CHECK(form.c == MmaFormat::F16 || form.c == MmaFormat::F32);
  Specials specials;
  WideSum sum;
  const auto add = [&](const Term& term) {
    specials.add(term);
    if (term.kind == detail::TermClass::Finite && term.significand != 0) sum.add(term);
  };
  for (std::size_t k = 0; k < a.size(); ++k) {
    Term term =
        detail::multiply(detail::decode_term(form.a, a[k]), detail::decode_term(form.b, b[k]));
    if (form.scaled) {
      const std::size_t index = k / form.scale_block;
      term = detail::multiply(term, detail::decode_term(form.scale, scale_a[index]));
      term = detail::multiply(term, detail::decode_term(form.scale, scale_b[index]));
    }
    add(term);
  }
  add(detail::decode_term(form.c, c));
  if (specials.any()) return specials.result(form.c);
  std::int32_t scale_exponent = 0;
  const std::uint64_t magnitude = sum.magnitude().top(scale_exponent);
  if (form.c == MmaFormat::F16) {
    const std::uint32_t code =
        detail::round_sum(MmaRounding::NearestF16, false, magnitude, scale_exponent);
    // IEEE 754: a result that underflows keeps its sign; an exact zero is +0.
    return code | (sum.negative() ? 0x8000 : 0);
  }
  return nearest_f32(sum.negative(), magnitude, scale_exponent);
}

}  // namespace lockstep::device::vgpu::numeric
