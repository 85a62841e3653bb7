// out = activation(gate) * up, element by element: GELU by tanh (as g * sigmoid(2 z)) or SiLU.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct GateArgs {
  DevicePointer gate = 0, up = 0;  // f32 [count]
  DevicePointer out = 0;           // out_format [count]
  model::DType out_format = model::DType::F32;
  model::Activation activation = model::Activation::Silu;
  std::uint64_t count = 0;
};
trace::Contract gate_contract(const GateArgs& args);
base::Status launch_gate(const LaunchContext& context, const GateArgs& args);

}  // namespace lockstep::kernels
