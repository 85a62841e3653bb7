// Decoder: stored bytes of one DType -> exact double values, from the format's definition.
//
// Every supported format's values fit a double exactly: scales have at most 11 significant bits,
// codes at most 8, and where a minimum is added both parts are multiples of 2^-24 below 2^27.
// Rounded once to float32 (round_values) they are what ggml's own expansion gives, bit for bit but
// for a zero's sign: ggml multiplies in float32 without rounding (products have at most 24 bits)
// and rounds once, at the final add of the types with a minimum (Q4_1, Q5_1, Q2_K, Q4_K, Q5_K). No
// supported type is rounded twice by ggml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "model/dtype.h"
#include "model/tensor_table.h"

namespace lockstep::reference {

struct Decoder {
  model::DType dtype = model::DType::F32;
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 4;
  // Every value (finite scales) is a float32 already: rounding to float32 changes nothing.
  bool exact_in_f32 = true;
  // block_count blocks -> block_count * block_elements values, in the tensor's element order.
  void (*blocks)(const std::byte* bytes, std::size_t block_count, double* out) = nullptr;

  // Row `index` of the tensor; out.size() = tensor.columns().
  void row(const model::TensorInfo& tensor, std::uint64_t index, std::span<double> out) const;
};

// Unsupported, named: the code-book types IQ1_*, IQ2_*, IQ3_*, Q1_0, ggml's activation-only types
// Q8_1 and Q8_K, and types that hold no weights here (integers, F64, F8).
base::Result<Decoder> decoder(model::DType dtype);

}  // namespace lockstep::reference
