// Weight: a matrix of the model file as doubles, row by row, in the precision that a run asks for.
// It keeps the file's bytes and widens on demand; nothing is cached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "model/tensor_table.h"
#include "reference/formats/decoder.h"

namespace lockstep::reference {

// What a weight's value is.
enum class WeightPrecision : std::uint8_t {
  Exact,  // the file's exact value
  F32,   // rounded once to float32: what every kernel's decoder gives (contract), and --weights f32
  F16,   // F32, then rounded to float16: a tensor-core operand
  BF16,  // F32, then rounded to bfloat16
};

class Weight {
 public:
  // A matrix [outputs, inputs], or a vector as one row. The tensor must outlive the Weight.
  // Unsupported: its type has no decoder.
  static base::Result<Weight> open(const model::TensorInfo& tensor, WeightPrecision precision);

  std::uint64_t outputs() const { return outputs_; }
  std::uint64_t inputs() const { return inputs_; }
  WeightPrecision precision() const { return precision_; }
  const model::TensorInfo& tensor() const { return *tensor_; }

  // Row `index` (one output's weights); out.size() = inputs().
  void row(std::uint64_t index, std::span<double> out) const;
  // Rows [first, first + count), row-major; out.size() = count * inputs().
  void rows(std::uint64_t first, std::uint64_t count, std::span<double> out) const;

 private:
  Weight(const model::TensorInfo& tensor, const Decoder& decoder, WeightPrecision precision);

  const model::TensorInfo* tensor_;
  Decoder decoder_;
  WeightPrecision precision_;
  std::uint64_t outputs_, inputs_;
};

}  // namespace lockstep::reference
