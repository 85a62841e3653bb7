// Values of tapped bytes, for comparing: every format here is exact in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/op_call.h"

namespace lockstep::oracles {

// All elements of a tap as doubles: F32, F16, BF16, I32 (as unsigned).
std::vector<double> values_of(const trace::TapTensor& tap);
// Bytes of one row.
std::size_t row_bytes(const trace::TapTensor& tap);

}  // namespace lockstep::oracles
