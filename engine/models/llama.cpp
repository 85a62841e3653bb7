// One llama layer: x += attention(norm(x)); x += ffn(norm(x)).
#include "engine/models/blocks/attention.h"
#include "engine/models/blocks/ffn.h"
#include "engine/models/forward.h"

namespace lockstep::engine {

using model::WeightRole;
using trace::TapPoint;

base::Result<DeviceTensor> llama_layer(const Forward& forward, std::uint32_t index,
                                       DeviceTensor resid_in) {
  const LayerWeights& layer = forward.model.layers[index];
  LS_ASSIGN(const DeviceTensor attn_norm,
            forward.norm({resid_in, TapPoint::ResidIn}, layer.attn_norm, WeightRole::AttnNorm,
                         index, TapPoint::AttnNorm, forward.activation_format()));
  LS_ASSIGN(const DeviceTensor attn_o, attention_block(forward, index, attn_norm));
  LS_ASSIGN(const DeviceTensor resid_mid,
            forward.add({resid_in, TapPoint::ResidIn}, {attn_o, TapPoint::AttnO}, index,
                        TapPoint::ResidMid));
  LS_ASSIGN(const DeviceTensor ffn_norm,
            forward.norm({resid_mid, TapPoint::ResidMid}, layer.ffn_norm, WeightRole::FfnNorm,
                         index, TapPoint::FfnNorm, forward.activation_format()));
  LS_ASSIGN(const DeviceTensor ffn_down, ffn_block(forward, index, ffn_norm));
  return forward.add({resid_mid, TapPoint::ResidMid}, {ffn_down, TapPoint::FfnDown}, index,
                     TapPoint::ResidOut);
}

}  // namespace lockstep::engine
