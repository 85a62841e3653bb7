// One tensor-core output: replay in integers, and its ball in double.
#include "reference/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "reference/formats/ieee.h"
#include "reference/tensor_core_lanes.h"

namespace lockstep::reference {
namespace {

constexpr std::uint32_t kNan = 0x7fffffff;
constexpr std::uint32_t kInfinity = 0x7f800000;
constexpr std::size_t kMostProducts = 32;

// A finite number (-1)^negative significand 2^(exponent - fraction bits of its format); subnormals
// keep the format's least exponent and have no hidden bit.
struct Number {
  bool negative = false;
  bool infinite = false, nan = false;
  std::uint64_t significand = 0;
  int exponent = 0;
};

Number unpack(std::uint32_t bits, int fraction_bits, int exponent_bits) {
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const auto field = static_cast<int>((bits >> fraction_bits) & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  Number number;
  number.negative = ((bits >> (fraction_bits + exponent_bits)) & 1) != 0;
  if (field == (1 << exponent_bits) - 1) {
    number.infinite = fraction == 0;
    number.nan = fraction != 0;
    return number;
  }
  number.significand = field == 0 ? fraction : fraction | (1u << fraction_bits);
  number.exponent = std::max(field, 1) - bias;
  return number;
}

// Aligned to unit 2^unit_exponent, cut toward zero. `least` is the exponent of significand's bit 0.
std::int64_t aligned(const Number& term, int least, int unit_exponent) {
  if (term.significand == 0) return 0;  // its exponent takes no part: it may lie far above
  const int shift = least - unit_exponent;
  std::uint64_t magnitude = 0;
  if (shift >= 0) {
    magnitude = term.significand << shift;
  } else if (shift > -64) {
    magnitude = term.significand >> -shift;
  }
  return term.negative ? -static_cast<std::int64_t>(magnitude)
                       : static_cast<std::int64_t>(magnitude);
}

// sum * 2^unit_exponent cut toward zero to float32; 2^128 and above: infinity.
std::uint32_t cut_to_f32(std::int64_t sum, int unit_exponent) {
  if (sum == 0) return 0;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0;
  const std::uint64_t magnitude =
      sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1 + unit_exponent;
  if (exponent >= 128) return sign | kInfinity;
  const int least = std::max(exponent - 23, -149);  // of the bits that stay
  const int shift = least - unit_exponent;
  std::uint64_t kept = 0;
  if (shift <= 0) {
    kept = magnitude << -shift;
  } else if (shift < 64) {
    kept = magnitude >> shift;
  }
  if (kept == 0) return 0;
  if (kept < (1u << 23)) return sign | static_cast<std::uint32_t>(kept);  // subnormal
  const auto field = static_cast<std::uint32_t>(least + 150);
  return sign | (field << 23) | (static_cast<std::uint32_t>(kept) & 0x7fffff);
}

struct FieldWidths {
  int fraction_bits, exponent_bits;
};
FieldWidths operand_fields(model::DType format) {
  LS_CHECK(format == model::DType::F16 || format == model::DType::BF16);
  return format == model::DType::F16 ? FieldWidths{10, 5} : FieldWidths{7, 8};
}

// The block's terms: products, then the accumulator.
struct Terms {
  Number term[kMostProducts + 1];
  std::size_t count = 0;
  bool nan = false, plus_infinity = false, minus_infinity = false;

  void note_infinity(bool negative) { (negative ? minus_infinity : plus_infinity) = true; }
  void add_product(const Number& a, const Number& b) {
    const bool negative = a.negative != b.negative;
    if (a.nan || b.nan) nan = true;
    if (a.infinite || b.infinite) {
      const bool zero = (!a.infinite && a.significand == 0) || (!b.infinite && b.significand == 0);
      if (zero) nan = true;
      note_infinity(negative);
    }
    term[count++] = {negative, false, false, a.significand * b.significand,
                     a.exponent + b.exponent};
  }
  void add_accumulator(const Number& c) {
    nan = nan || c.nan;
    if (c.infinite) note_infinity(c.negative);
    term[count++] = c;
  }
};

void check_info(const trace::TensorCoreInfo& info) {
  LS_CHECK(info.products >= 1 && info.products <= kMostProducts);
  LS_CHECK(info.fraction_bits >= 20 && info.fraction_bits <= 25);
  LS_CHECK(info.exponent_floor <= -126);
}

}  // namespace

std::uint32_t tensor_core_block(const trace::TensorCoreInfo& info, model::DType format,
                                std::span<const std::uint16_t> a, std::span<const std::uint16_t> b,
                                std::uint32_t c) {
  check_info(info);
  LS_CHECK(a.size() == b.size() && a.size() <= info.products);
  const FieldWidths fields = operand_fields(format);
  Terms terms;
  for (std::size_t i = 0; i < a.size(); ++i) {
    terms.add_product(unpack(a[i], fields.fraction_bits, fields.exponent_bits),
                      unpack(b[i], fields.fraction_bits, fields.exponent_bits));
  }
  terms.add_accumulator(unpack(c, 23, 8));
  if (terms.nan || (terms.plus_infinity && terms.minus_infinity)) return kNan;
  if (terms.plus_infinity) return kInfinity;
  if (terms.minus_infinity) return kInfinity | 0x80000000u;
  int largest = info.exponent_floor;
  for (std::size_t i = 0; i < terms.count; ++i) {
    if (terms.term[i].significand != 0) largest = std::max(largest, terms.term[i].exponent);
  }
  const int unit_exponent = largest - static_cast<int>(info.fraction_bits);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < terms.count; ++i) {
    const int fraction_bits = i + 1 < terms.count ? 2 * fields.fraction_bits : 23;
    sum += aligned(terms.term[i], terms.term[i].exponent - fraction_bits, unit_exponent);
  }
  return cut_to_f32(sum, unit_exponent);
}

std::uint32_t tensor_core_chain(const trace::TensorCoreInfo& info, model::DType format,
                                std::uint32_t mma_k, std::span<const std::uint16_t> a,
                                std::span<const std::uint16_t> b, std::uint32_t c) {
  LS_CHECK(a.size() == b.size() && mma_k >= 1);
  // Blocks end where an instruction ends: with L no divisor of mma_k its last block is short.
  for (std::size_t first = 0; first < a.size(); first += mma_k) {
    const std::size_t end = std::min<std::size_t>(a.size(), first + mma_k);
    for (std::size_t k = first; k < end; k += info.products) {
      const std::size_t count = std::min<std::size_t>(info.products, end - k);
      c = tensor_core_block(info, format, a.subspan(k, count), b.subspan(k, count), c);
    }
  }
  return c;
}

std::uint32_t tensor_core_replay(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                                 std::span<const std::uint16_t> a,
                                 std::span<const std::uint16_t> b) {
  LS_CHECK(contract.input_format == contract.weight_format && a.size() == b.size());
  const std::vector<KSegment> segments = k_segments(contract, a.size());
  std::uint32_t total = 0;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const std::size_t first = segments[s].first;
    const std::size_t count = segments[s].count;
    const std::uint32_t part =
        tensor_core_chain(info, contract.input_format, contract.mma_k, a.subspan(first, count),
                          b.subspan(first, count), 0);
    // Two float32 numbers' sum rounds once, from a double that holds it but for far smaller bits:
    // 53 bits >= 2 * 24 + 2, so rounding twice is rounding once.
    total = s == 0 ? part : f32_bits(f32_value(total) + f32_value(part));
  }
  return total;
}

std::vector<KSegment> k_segments(const trace::Contract& contract, std::size_t k) {
  if (contract.k_segments <= 1) return {{0, k}};
  LS_CHECK(contract.segment_k >= 1);
  std::vector<KSegment> segments;
  for (std::uint32_t s = 0; s < contract.k_segments; ++s) {
    const std::size_t first = std::min<std::size_t>(k, std::size_t{s} * contract.segment_k);
    segments.push_back({first, std::min<std::size_t>(contract.segment_k, k - first)});
  }
  LS_CHECK(segments.back().first + segments.back().count == k);
  return segments;
}

std::size_t block_products(const trace::TensorCoreInfo& info, std::uint32_t mma_k) {
  check_info(info);
  LS_CHECK(mma_k >= 1 && (mma_k % info.products == 0 || mma_k < info.products));
  return std::min(info.products, mma_k);
}

double least_normal(model::DType format) {
  LS_CHECK(format == model::DType::F16 || format == model::DType::BF16);
  return format == model::DType::F16 ? 0x1p-14 : 0x1p-126;
}

double power_of_two_below(double value) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & (std::uint64_t{0x7ff} << 52));
}

double lowest_bit(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
  if ((bits & ((std::uint64_t{1} << 52) - 1)) == 0) return std::bit_cast<double>(bits);
  return std::bit_cast<double>(bits) - std::bit_cast<double>(bits & (bits - 1));
}

ChainState chain_of_values(const trace::TensorCoreInfo& info, model::DType format,
                           std::uint32_t mma_k, std::span<const double> a,
                           std::span<const double> b, double c) {
  const std::size_t block = block_products(info, mma_k);
  const double least = least_normal(format);
  const double fraction = std::bit_cast<double>(std::uint64_t{1023 - info.fraction_bits} << 52);
  const double floor =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 + info.exponent_floor) << 52);
  const double losses = static_cast<double>(block + 1) * kOwnRounding;
  ChainState state{c, 0, c == 0 ? kNoBits : lowest_bit(c)};
  bool claimed = std::isfinite(c);
  for (std::size_t first = 0; first < a.size(); first += block) {
    const double reach = std::abs(state.sum) + state.radius;
    double largest = reach > 0 ? std::max(power_of_two_below(reach), 0x1p-126) : 0;
    for (std::size_t k = first; k < std::min(first + block, a.size()); ++k) {
      const double product = a[k] * b[k];  // exact
      if (product == 0) continue;
      const double top =
          std::max(power_of_two_below(a[k]), least) * std::max(power_of_two_below(b[k]), least);
      largest = std::max(largest, top);
      state.lowest = std::min(state.lowest, lowest_bit(a[k]) * lowest_bit(b[k]));
      state.sum += product;
    }
    if (largest == 0) continue;
    const double unit = std::max(largest, floor) * fraction;
    if (unit > state.lowest) state.radius += losses * unit;
    const double after = std::abs(state.sum) + state.radius;
    if (!(after < 0x1p128)) claimed = false;  // also where an operand is NaN or infinite
    const double kept = std::max(power_of_two_below(after) * 0x1p-23, 0x1p-149);
    const double grain = std::max(unit, state.lowest);
    if (kept > grain) state.radius += (kept - grain) * kOwnRounding;
  }
  if (!claimed) state.radius = std::numeric_limits<double>::infinity();
  return state;
}

ChainState added_segment(const ChainState& total, const ChainState& part) {
  ChainState result{total.sum + part.sum, total.radius + part.radius,
                    std::min(total.lowest, part.lowest)};
  // Half a unit in the last place of the largest sum that may round, or nothing if every possible
  // sum is a float32: a multiple of `lowest` below 2^24 of it.
  const double reach = std::abs(result.sum) + result.radius;
  if (!(reach < 0x1p128)) {
    result.radius = std::numeric_limits<double>::infinity();
  } else if (reach > 0x1p24 * result.lowest) {
    result.radius += power_of_two_below(reach) * 0x1p-24 * kOwnRounding;
  }
  return result;
}

TensorCoreBall tensor_core_ball(const trace::TensorCoreInfo& info, model::DType format,
                                std::uint32_t mma_k, std::span<const double> a,
                                std::span<const double> b, double c) {
  LS_CHECK(a.size() == b.size());
  const ChainState state = chain_of_values(info, format, mma_k, a, b, c);
  return {state.sum, state.radius};
}

}  // namespace lockstep::reference
