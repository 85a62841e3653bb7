// Checks the block decoders against golden/gguf_dequant: ggml's own float32 expansions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/limits.h"

namespace lockstep::reference {

struct DequantMismatch {
  std::string set;  // "Q4_K.rand"
  std::uint64_t element = 0;
  std::uint32_t want_bits = 0, got_bits = 0;  // float32
};

struct DequantTypeReport {
  std::string type;        // "Q4_K"
  bool supported = false;  // false: no decoder (code-book types); its vectors are not counted
  std::uint64_t checked = 0, mismatches = 0;  // values
};

struct DequantReport {
  std::uint64_t checked = 0, mismatches = 0;
  std::vector<DequantMismatch> first;    // up to 8
  std::vector<DequantTypeReport> types;  // in the order of their names
};

// `path`: vectors.safetensors with T.<set>.raw (bytes) and T.<set>.deq (F32) for each type T. Each
// decoded value, rounded once to float32, must have the bits of deq; a zero's sign is ignored.
base::Result<DequantReport> check_dequant_vectors(const std::string& path,
                                                  const base::Limits& limits = {});

}  // namespace lockstep::reference
