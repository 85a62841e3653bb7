// Host side of lib/primitives.cuh's Format: how a launch function names a format to a kernel.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "model/dtype.h"

namespace lockstep::kernels {

// F32, F16 and BF16 only: the formats of activations and cells.
inline bool is_activation_format(model::DType dtype) {
  return dtype == model::DType::F32 || dtype == model::DType::F16 || dtype == model::DType::BF16;
}
inline std::uint32_t format_code(model::DType dtype) {
  LS_CHECK(is_activation_format(dtype));
  return dtype == model::DType::F32 ? 0 : dtype == model::DType::F16 ? 1 : 2;
}
inline std::uint32_t format_bytes(model::DType dtype) {
  LS_CHECK(is_activation_format(dtype));
  return dtype == model::DType::F32 ? 4 : 2;
}
inline std::uint32_t divide_up(std::uint32_t value, std::uint32_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

}  // namespace lockstep::kernels
