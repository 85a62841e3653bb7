// Contract: what a kernel promises about its arithmetic, as data. The kernel's header fills it,
// each OpCall carries it, and the reference derives the allowed error from it (docs/bounds.md). A
// narrower accumulator or a rounding that is not declared here is a finding.
#pragma once

#include <cstdint>
#include <string>

#include "model/dtype.h"
#include "trace/op.h"

namespace lockstep::trace {

enum class SumKind : std::uint8_t {
  None,        // no sum: element by element
  F32Chains,   // f32 fma (or add) chains and trees on CUDA cores, any order
  TensorCore,  // mma.sync, f32 accumulator, blocks in increasing k from c = 0
};

// Approximate instructions that a kernel uses; each contributes its documented error.
struct ApproximateSet {
  bool ex2 = false;     // 2^-22 relative
  bool rsqrt = false;   // 2^-22.9 relative
  bool rcp = false;     // 2^-23 relative (1 ulp)
  bool divide = false;  // div.approx / div.full: 2 ulp; false: div.rn
  bool tanh = false;    // 2^-11 relative
};

struct Contract {
  Op op = Op::EmbedRows;
  std::string kernel = {};  // entry name: "gemv_q4_k"
  // Products see activations rounded (to nearest even) to this format, and weights as
  // fl32(exact block value), then rounded to weight_format where that is narrower.
  model::DType input_format = model::DType::F32;
  model::DType weight_format = model::DType::F32;
  SumKind sum = SumKind::None;
  // F32Chains: roundings on the longest path from a term to the result (chain + tree levels, + 1 if
  // products are rounded on their own).
  std::uint32_t rounding_depth = 0;
  // TensorCore: k of one instruction (16), and how K is split: K runs in order in each of
  // `k_segments` contiguous parts of `segment_k` (the last may be short), summed in f32 left to
  // right. 1 segment: no such sum.
  std::uint32_t mma_k = 16;
  std::uint32_t k_segments = 1;
  std::uint32_t segment_k = 0;
  // Attention. Keys are cut in tiles of tile_keys counted from absolute key 0 of the request;
  // decode also in splits of split_keys (a multiple of tile_keys), merged by LSE.
  std::uint32_t tile_keys = 0;
  std::uint32_t split_keys = 0;
  model::DType probability_format = model::DType::F32;  // P as the second product sees it
  bool sum_of_rounded_probabilities = true;             // l sums P as rounded, or the f32 p
  // Decode: depths of the f32 sums: q.k over the head; O and l over the keys of a split (adds and
  // rescales on the longest path), each without the merge.
  std::uint32_t depth_scores = 0, depth_output = 0, depth_sum = 0;
  // Decode: rescales that the weight of a key can pass by ex2, all merges included; the last merge,
  // over the row's splits, also adds one rounding a split to O and l.
  std::uint32_t rescales = 0;
  ApproximateSet approximate = {};
  model::DType output_format = model::DType::F32;  // K and V cells, norm outputs, attention outputs
  model::DType second_output_format = model::DType::F32;  // RopeKvWrite: of K and V cells
  bool batch_invariant = true;  // a row's bits do not depend on the rows beside it
  bool chunk_invariant = true;  // nor on how its request's prompt was cut
};

}  // namespace lockstep::trace
