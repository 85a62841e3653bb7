#include "engine/models/blocks/ffn.h"

#include "kernels/gate.h"

namespace lockstep::engine {

using model::WeightRole;
using trace::TapPoint;

base::Result<DeviceTensor> activate(const Forward& forward, std::uint32_t index,
                                    const DeviceTensor& gate, const DeviceTensor& up) {
  LS_ASSIGN(DeviceTensor act,
            forward.make(forward.activation_format(), gate.width, gate.rows, "act"));
  kernels::GateArgs args;
  args.gate = gate.address();
  args.up = up.address();
  args.out = act.address();
  args.out_format = act.dtype;
  args.activation = forward.model.config.activation;
  args.count = std::uint64_t{gate.width} * gate.row_count();
  LS_TRY(kernels::launch_gate(forward.context, args));
  LS_TRY(forward.taps.record(kernels::gate_contract(args), index, {},
                             {{TapPoint::Gate, gate}, {TapPoint::Up, up}}, {{TapPoint::Act, act}}));
  return act;
}

base::Result<DeviceTensor> ffn_block(const Forward& forward, std::uint32_t index,
                                     const DeviceTensor& normed) {
  const LayerWeights& layer = forward.model.layers[index];
  const Forward::Input input{normed, TapPoint::FfnNorm};
  LS_ASSIGN(const DeviceTensor gate,
            forward.product(input, layer.gate.matrix, WeightRole::Gate, index, TapPoint::Gate));
  LS_ASSIGN(const DeviceTensor up,
            forward.product(input, layer.up.matrix, WeightRole::Up, index, TapPoint::Up));
  LS_ASSIGN(const DeviceTensor act, activate(forward, index, gate, up));
  return forward.product({act, TapPoint::Act}, layer.down.matrix, WeightRole::Down, index,
                         TapPoint::FfnDown);
}

}  // namespace lockstep::engine
