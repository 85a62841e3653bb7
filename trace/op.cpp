#include "trace/op.h"

namespace lockstep::trace {

std::string_view name(Op op) {
  switch (op) {
    case Op::EmbedRows:
      return "embed_rows";
    case Op::RmsNorm:
      return "rms_norm";
    case Op::Gemv:
      return "gemv";
    case Op::Gemm:
      return "gemm";
    case Op::RopeKvWrite:
      return "rope_kv_write";
    case Op::AttentionPrefill:
      return "attention_prefill";
    case Op::AttentionDecode:
      return "attention_decode";
    case Op::Gate:
      return "gate";
    case Op::ResidualAdd:
      return "residual_add";
    case Op::Argmax:
      return "argmax";
  }
  return "?";
}

std::string_view name(TapPoint point) {
  switch (point) {
    case TapPoint::ResidIn:
      return "resid_in";
    case TapPoint::AttnNorm:
      return "attn_norm";
    case TapPoint::QRaw:
      return "q_raw";
    case TapPoint::KRaw:
      return "k_raw";
    case TapPoint::VRaw:
      return "v_raw";
    case TapPoint::QRot:
      return "q_rot";
    case TapPoint::KCell:
      return "k_cell";
    case TapPoint::VCell:
      return "v_cell";
    case TapPoint::Attn:
      return "attn";
    case TapPoint::AttnO:
      return "attn_o";
    case TapPoint::PostAttn:
      return "post_attn";
    case TapPoint::ResidMid:
      return "resid_mid";
    case TapPoint::FfnNorm:
      return "ffn_norm";
    case TapPoint::Gate:
      return "gate";
    case TapPoint::Up:
      return "up";
    case TapPoint::Act:
      return "act";
    case TapPoint::FfnDown:
      return "ffn_down";
    case TapPoint::PostFfn:
      return "post_ffn";
    case TapPoint::ResidOut:
      return "resid_out";
    case TapPoint::Embed:
      return "embed";
    case TapPoint::FinalNorm:
      return "final_norm";
    case TapPoint::Logits:
      return "logits";
    case TapPoint::Token:
      return "token";
  }
  return "?";
}

}  // namespace lockstep::trace
