// One Gemma 3 layer: as llama's, with a norm after attention and after the MLP, before each add.
#include "engine/models/blocks/attention.h"
#include "engine/models/blocks/ffn.h"
#include "engine/models/forward.h"

namespace lockstep::engine {

using model::DType;
using model::WeightRole;
using trace::TapPoint;

base::Result<DeviceTensor> gemma3_layer(const Forward& forward, std::uint32_t index,
                                        DeviceTensor resid_in) {
  const LayerWeights& layer = forward.model.layers[index];
  LS_ASSIGN(const DeviceTensor attn_norm,
            forward.norm({resid_in, TapPoint::ResidIn}, layer.attn_norm, WeightRole::AttnNorm,
                         index, TapPoint::AttnNorm, forward.activation_format()));
  LS_ASSIGN(const DeviceTensor attn_o, attention_block(forward, index, attn_norm));
  LS_ASSIGN(const DeviceTensor post_attn,
            forward.norm({attn_o, TapPoint::AttnO}, layer.post_attn_norm, WeightRole::PostAttnNorm,
                         index, TapPoint::PostAttn, DType::F32));
  LS_ASSIGN(const DeviceTensor resid_mid,
            forward.add({resid_in, TapPoint::ResidIn}, {post_attn, TapPoint::PostAttn}, index,
                        TapPoint::ResidMid));
  LS_ASSIGN(const DeviceTensor ffn_norm,
            forward.norm({resid_mid, TapPoint::ResidMid}, layer.ffn_norm, WeightRole::FfnNorm,
                         index, TapPoint::FfnNorm, forward.activation_format()));
  LS_ASSIGN(const DeviceTensor ffn_down, ffn_block(forward, index, ffn_norm));
  LS_ASSIGN(const DeviceTensor post_ffn,
            forward.norm({ffn_down, TapPoint::FfnDown}, layer.post_ffn_norm,
                         WeightRole::PostFfnNorm, index, TapPoint::PostFfn, DType::F32));
  return forward.add({resid_mid, TapPoint::ResidMid}, {post_ffn, TapPoint::PostFfn}, index,
                     TapPoint::ResidOut);
}

}  // namespace lockstep::engine
