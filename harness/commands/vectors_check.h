// Checks our number formats, tensor-core models and block decoders against vector files that others
// made: `lockstep vectors FILE...`. Formats: tcv1 and sfv1 (JSON lines, plain or zstd; described by
// golden/tensor_core_vectors/README.md and golden/scalar_format_vectors/README.md) and
// golden/gguf_dequant's safetensors, and vllm_block_traces (vectors_block_traces.h; plain or gzip).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "device/vgpu/numeric/mma.h"

namespace lockstep::harness {

struct VectorMismatch {
  std::uint64_t line = 0;  // of the file, 1-based; 0 where it has no lines
  std::string where;       // "f16_f16_f32_k16, case carry, row 3, ampere.mma"
  std::string want, got;   // bits, hexadecimal
};

struct VectorReport {
  std::string path;
  std::string format;         // "tcv1", "sfv1", "gguf_dequant", "vllm_block_traces"
  std::uint64_t checked = 0;  // values compared
  std::uint64_t mismatches = 0;
  std::uint64_t skipped = 0;  // values of formats that we have no code for
  std::string note;           // what differs by choice, counted; empty if nothing can
  std::vector<VectorMismatch> first;
};

struct VectorOptions {
  std::size_t first_count = 8;  // mismatches that are kept
  base::Limits limits = {};
  // Tests only: changes the arithmetic of every tensor-core form before it is used.
  std::function<void(device::vgpu::numeric::MmaForm&)> change_form = {};
};

// An Error names the file, the line and the rule: unreadable, cut off, not JSON, an unknown format,
// record, type or model, a field of the wrong length, or a file that holds no vectors.
base::Result<VectorReport> check_vectors(const std::string& path,
                                         const VectorOptions& options = {});

}  // namespace lockstep::harness
