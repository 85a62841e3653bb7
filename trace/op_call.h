// OpCall: an operation as it happened, with copies of what it read and wrote. TapTensor: rows of
// one tap point. OpReference: what the reference says beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/dtype.h"
#include "trace/contract.h"
#include "trace/ids.h"
#include "trace/op.h"

namespace lockstep::trace {

// Rows of one tap point of one layer, as bytes in memory: [rows.size(), width] of dtype.
struct TapTensor {
  TapPoint point = TapPoint::Embed;
  LayerIndex layer;
  model::DType dtype = model::DType::F32;
  std::uint32_t width = 0;  // elements a row
  std::vector<RowId> rows;
  std::vector<std::byte> bytes;
};

struct OpCall {
  Contract contract;
  LayerIndex layer;
  LaunchIndex launch;
  bool prefill = false;                     // the phase that these rows belong to
  std::optional<model::WeightRole> weight;  // of Gemv, Gemm, RmsNorm, EmbedRows
  // As the kernel read them: activations at the launch; for attention also K and V cells, gathered
  // through the block table on the device, one row per (request, position).
  std::vector<TapTensor> reads;
  std::vector<TapTensor> writes;
};

// What one written TapTensor must hold, element by element: low <= got <= high. `want` is the
// reference's value (rounded to the format where the result is a rounding of known bits, then
// low = high = want). All [rows, width].
struct Expected {
  std::vector<double> want, low, high;
};

// One tensor-core output replayed block by block from its known operands: equality of bits.
struct ReplaySample {
  std::uint32_t row = 0, column = 0;
  std::uint32_t want_bits = 0, got_bits = 0;
};

struct OpReference {
  bool computed = false;  // false: `reason` says why (no tap for an operand, ...)
  std::string reason;
  std::vector<Expected> expected;  // one per OpCall::writes
  // Operands that the reference's own graph names, from the taps of their producers: beside each
  // OpCall::reads the same rows, or fewer rows where no producer was tapped (then absent).
  std::vector<TapTensor> operands;
  std::vector<ReplaySample> replayed;
};

}  // namespace lockstep::trace
