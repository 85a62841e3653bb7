// Attention block: normed rows -> q, k, v -> rotation and cells -> attention over the request's
// cells -> output product.
#pragma once

#include "engine/models/forward.h"

namespace lockstep::engine {

// `normed`: attn_norm of this layer's rows. Returns attn_o, f32 [rows, hidden].
base::Result<DeviceTensor> attention_block(const Forward& forward, std::uint32_t layer,
                                           const DeviceTensor& normed);

// Its two operations of its own. rotate: raw q, k, v -> rotated q; K and V go to the rows' cells.
base::Result<DeviceTensor> rotate(const Forward& forward, std::uint32_t layer,
                                  const DeviceTensor& q, const DeviceTensor& k,
                                  const DeviceTensor& v);
// Rotated q and the requests' cells -> attn.
base::Result<DeviceTensor> attend(const Forward& forward, std::uint32_t layer,
                                  const DeviceTensor& q_rot);

}  // namespace lockstep::engine
