// Op: the operations of a transformer engine; TapPoint: the named values between them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::trace {

enum class Op : std::uint8_t {
  EmbedRows,         // row of the embedding x scale
  RmsNorm,           // over the row, or (QkNorm inside RopeKvWrite) over a head
  Gemv,              // y = W x on CUDA cores: decode rows
  Gemm,              // y = W x on tensor cores: prefill rows
  RopeKvWrite,       // optional per-head RMSNorm of q and k, rotation, K and V cells
  AttentionPrefill,  // T queries over S keys of one request, causal
  AttentionDecode,   // one query a request
  Gate,              // activation(gate) x up
  ResidualAdd,
  Argmax,  // lowest id of the largest logit
};
inline constexpr std::size_t kOpCount = 10;
std::string_view name(Op op);  // "rms_norm"
inline bool is_attention(Op op) { return op == Op::AttentionPrefill || op == Op::AttentionDecode; }
// Its rows are rows of heads, and it reads or writes KV cells.
inline bool has_heads(Op op) { return is_attention(op) || op == Op::RopeKvWrite; }

// Values of one layer in the order of computation; then the model-wide ones. A row of a tap belongs
// to one token (RowId). resid_in of layer l is resid_out of layer l - 1, or embed.
enum class TapPoint : std::uint8_t {
  ResidIn,
  AttnNorm,
  QRaw,
  KRaw,
  VRaw,
  QRot,
  KCell,
  VCell,
  Attn,
  AttnO,
  PostAttn,
  ResidMid,
  FfnNorm,
  Gate,
  Up,
  Act,
  FfnDown,
  PostFfn,
  ResidOut,
  Embed,
  FinalNorm,
  Logits,
  Token,
};
inline constexpr std::size_t kTapPointCount = 23;
std::string_view name(TapPoint point);  // "q_rot"

}  // namespace lockstep::trace
