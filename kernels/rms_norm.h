// out[r, i] = x[s(r), i] * weight[i] / sqrt(mean(x[s(r), :]^2) + epsilon).
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct RmsNormArgs {
  DevicePointer x = 0;                          // f32 [*, hidden]
  DevicePointer weight = 0;                     // f32 [hidden]
  DevicePointer source_rows = 0;                // u32 [rows]: s(r); 0: s(r) = r
  DevicePointer out = 0;                        // [rows, hidden] of out_format
  model::DType out_format = model::DType::F32;  // F32, F16, BF16
  std::uint32_t rows = 0, hidden = 0;
  float epsilon = 0;
};
trace::Contract rms_norm_contract(const RmsNormArgs& args);
base::Status launch_rms_norm(const LaunchContext& context, const RmsNormArgs& args);

}  // namespace lockstep::kernels
