// y[r, o] = sum_i weight[o, i] * x[r, i] on CUDA cores, for decode rows and logits. One structure
// for every number of rows: a row's bits do not depend on its neighbours.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct GemvArgs {
  DevicePointer x = 0;  // f32 [rows, weight.columns]
  DeviceWeight weight;
  DevicePointer y = 0;  // f32 [rows, weight.rows]
  std::uint32_t rows = 0;
};
trace::Contract gemv_contract(const GemvArgs& args);
base::Status launch_gemv(const LaunchContext& context, const GemvArgs& args);

}  // namespace lockstep::kernels
