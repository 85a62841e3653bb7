// Attention block: normed rows -> q, k, v -> rotation and cells -> attention over the request's
// cells -> output product.
#pragma once

#include "engine/models/forward.h"

namespace lockstep::engine {

// `normed`: attn_norm of this layer's rows. Returns attn_o, f32 [rows, hidden].
base::Result<DeviceTensor> attention_block(const Forward& forward, std::uint32_t layer,
                                           const DeviceTensor& normed);

}  // namespace lockstep::engine
