// y[r, o] = sum_i weight[o, i] * x[r, i] on tensor cores (mma.sync m16n8k16), for prefill rows.
// Weights are decoded to operand_format in shared memory; k runs in order from 0, so a row's bits
// depend on nothing else.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct GemmArgs {
  DevicePointer x = 0;  // operand_format [rows, weight.columns]
  DeviceWeight weight;
  DevicePointer y = 0;  // f32 [rows, weight.rows]
  std::uint32_t rows = 0;
  model::DType operand_format = model::DType::F16;  // F16 or BF16
};
trace::Contract gemm_contract(const GemmArgs& args);
base::Status launch_gemm(const LaunchContext& context, const GemmArgs& args);

}  // namespace lockstep::kernels
