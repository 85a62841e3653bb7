// Parts of tensor_core.h: one chain's running state, and the loops over 8 outputs at a time, per
// host vector width. The formulas are tensor_core.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/dtype.h"
#include "reference/host_vectors.h"
#include "trace/contract.h"
#include "trace/device_info.h"

namespace lockstep::reference {

// Enlarges each loss by the reference's own rounding.
inline constexpr double kOwnRounding = 1 + 0x1p-20;
// `lowest` of a sum without terms: every number is a multiple of it, as far as minima go.
inline constexpr double kNoBits = 0x1p500;

// A range of K that one chain of blocks runs over.
struct KSegment {
  std::size_t first = 0, count = 0;
};
std::vector<KSegment> k_segments(const trace::Contract& contract, std::size_t k);
// Products of a block: min(L, mma_k); an instruction must be whole blocks.
std::size_t block_products(const trace::TensorCoreInfo& info, std::uint32_t mma_k);

double least_normal(model::DType format);
// 2^e(|value|); 0 for 0 (and infinity for NaN and infinity).
double power_of_two_below(double value);
// The largest power of two that a finite value is a multiple of; 0 for 0.
double lowest_bit(double value);

struct ChainState {
  double sum = 0, radius = 0;
  double lowest = kNoBits;  // G of tensor_core.h
};
ChainState chain_of_values(const trace::TensorCoreInfo& info, model::DType format,
                           std::uint32_t mma_k, std::span<const double> a,
                           std::span<const double> b, double c);
// Both parts as float32 results of their balls, added and rounded to float32.
ChainState added_segment(const ChainState& total, const ChainState& part);

// One segment of K of `rows` rows against 8 outputs; K is padded with zeros to whole blocks.
struct BlockOperand {
  const double* values = nullptr;  // rows: [rows, stride]; outputs: [stride, 8]
  const double* tops = nullptr;    // 2^e of each block's largest value, 0 if none: [rows, blocks]
  const double* lows = nullptr;    // least lowest_bit of each block, kNoBits if none; [blocks, 8]
};
struct TensorCoreTile {
  BlockOperand x, w;
  std::size_t rows = 0;
  std::size_t stride = 0, blocks = 0;               // of whole rows, all segments
  std::size_t first_block = 0, segment_blocks = 0;  // this segment
  std::size_t products = 16;                        // of one block
  double fraction = 0;                              // 2^-F
  double least = 0;                                 // 2^max(floor, -126): c may be subnormal
  double* sums = nullptr;                           // [rows, 8] each
  double* radii = nullptr;
  double* lowest = nullptr;
};
struct TensorCoreLoops {
  void (*tile)(const TensorCoreTile& tile);
  // [stride, 8] values -> [blocks, 8] tops and lows.
  void (*block_facts)(const double* values, std::size_t blocks, std::size_t products,
                      double least_normal, double* tops, double* lows);
};
const TensorCoreLoops& tensor_core_loops(HostVectors vectors);

}  // namespace lockstep::reference
