// Gated feed-forward block: down(activation(gate x) * up x).
#pragma once

#include "engine/models/forward.h"

namespace lockstep::engine {

// `normed`: ffn_norm of this layer's rows. Returns ffn_down, f32 [rows, hidden].
base::Result<DeviceTensor> ffn_block(const Forward& forward, std::uint32_t layer,
                                     const DeviceTensor& normed);

// Its operation of its own: activation(gate) * up -> act.
base::Result<DeviceTensor> activate(const Forward& forward, std::uint32_t layer,
                                    const DeviceTensor& gate, const DeviceTensor& up);

}  // namespace lockstep::engine
