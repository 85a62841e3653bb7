// Rows that several generations share, for the sm_NN.cpp files.
#pragma once

#include <array>

#include "device/vgpu/generation/generation.h"

namespace lockstep::device::vgpu::generation {

using numeric::MmaBlock;
using numeric::MmaRounding;
using numeric::MmaScheme;

// L products, F fraction bits; the floor of f32 results is -132 or -133 (F + 108), that of f16
// results -20 or -21.
constexpr MmaBlock f32_block(std::uint32_t products, std::uint32_t fraction_bits,
                             std::int32_t floor) {
  return {products, fraction_bits, floor, MmaRounding::TruncateF32};
}
constexpr MmaBlock f16_block(std::uint32_t products, std::uint32_t fraction_bits,
                             std::int32_t floor) {
  return {products, fraction_bits, floor, MmaRounding::NearestF16};
}
// FP8 with 13 fraction bits kept.
constexpr MmaBlock e8m13_block(std::uint32_t products, std::int32_t floor) {
  return {products, 13, floor, MmaRounding::TruncateE8M13};
}

constexpr MmaRule row(MmaUnit unit, MmaKind kind, MmaAccumulator accumulator,
                      std::array<std::uint32_t, 2> k, const MmaBlock& block, Evidence evidence,
                      MmaScheme scheme = MmaScheme::Blocks) {
  return {unit, kind, accumulator, {k[0], k[1]}, scheme, block, evidence};
}
constexpr MmaRule fp8_only(MmaRule rule) {
  rule.fp8_only = true;
  return rule;
}
constexpr MmaRule ue4m3_only(MmaRule rule) {
  rule.ue4m3_only = true;
  return rule;
}

// Integer sums are exact on every generation.
constexpr MmaRule int8_rule(MmaUnit unit, Evidence evidence) {
  return {unit, MmaKind::Int8, MmaAccumulator::S32, {16, 32}, MmaScheme::IntegerWrap, {}, evidence};
}

}  // namespace lockstep::device::vgpu::generation
