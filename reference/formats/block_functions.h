// The decoding and rounding loops behind decoder.h and ieee.h, per host vector width.
#pragma once

#include <cstddef>

#include "model/dtype.h"
#include "reference/host_vectors.h"

namespace lockstep::reference {

// Blocks -> exact values.
using DecodeFunction = void (*)(const std::byte* bytes, std::size_t block_count, double* out);
// Values rounded in place.
using RoundFunction = void (*)(double* values, std::size_t count);

struct BlockFunctions {
  DecodeFunction (*decode)(model::DType dtype);  // null: no decoder
  RoundFunction (*round)(model::DType format);   // F32, F16, BF16
};
const BlockFunctions& block_functions(HostVectors vectors);

}  // namespace lockstep::reference
