// tokens[r] = the lowest id of the largest logits[r, :]; a NaN wins (it is a finding, not hidden).
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct ArgmaxArgs {
  DevicePointer logits = 0;  // f32 [rows, vocab]
  DevicePointer tokens = 0;  // u32 [rows]
  std::uint32_t rows = 0, vocab = 0;
};
trace::Contract argmax_contract(const ArgmaxArgs& args);
base::Status launch_argmax(const LaunchContext& context, const ArgmaxArgs& args);

}  // namespace lockstep::kernels
