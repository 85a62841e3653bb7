// Seeded tiny models, so that no test needs a download: the same bits for the same options.
#pragma once

#include <cstdint>

#include "model/model.h"

namespace lockstep::model {

struct TinyOptions {
  Arch arch = Arch::Llama;
  std::uint64_t seed = 1;
  DType dtype =
      DType::F32;  // of all matrices whose row length fits its blocks, else F32; norms are F32
  // Zero: drawn from the seed within small ranges (2..4 layers, 1..8 heads, GQA, head_size 16..64,
  // ...).
  std::uint32_t layer_count = 0, hidden_size = 0, head_count = 0, kv_head_count = 0, head_size = 0,
                ffn_size = 0, vocab_size = 0, window = 0;
};

// dtype: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K (random valid blocks: finite scales of
// a size that keeps activations near 1).
Model make_tiny(const TinyOptions& options);

}  // namespace lockstep::model
