// out = fl32(a + b), element by element.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct ResidualAddArgs {
  DevicePointer a = 0, b = 0, out = 0;  // f32 [count]; out is neither a nor b
  std::uint64_t count = 0;
};
trace::Contract residual_add_contract(const ResidualAddArgs& args);
base::Status launch_residual_add(const LaunchContext& context, const ResidualAddArgs& args);

}  // namespace lockstep::kernels
