// Llama: pre-norm decoder layers (Touvron et al., "LLaMA", arXiv 2302.13971; "Llama 2",
// 2307.09288):
//   h = x + W_o attention(rope(W_q n), rope(W_k n), W_v n),  n = norm(x)
//   y = h + W_down (silu(W_gate m) * W_up m),                m = norm(h)
// Grouped-query attention, no biases, RMS norms, the head tied to the embedding or of its own.
#include "reference/models/graph.h"

namespace lockstep::reference {

namespace {

using trace::TapPoint;

// Names of the tensors: as GGUF files and as Hugging Face checkpoints have them.
struct LlamaNames {
  std::string embedding, final_norm, head;
  std::string layer;  // before and ...
  std::string attention_norm, query, key, value, attention_output, ffn_norm, gate, up, down;
};

const LlamaNames kGguf = {
    "token_embd.weight",   "output_norm.weight", "output.weight",    "blk.",
    ".attn_norm.weight",   ".attn_q.weight",     ".attn_k.weight",   ".attn_v.weight",
    ".attn_output.weight", ".ffn_norm.weight",   ".ffn_gate.weight", ".ffn_up.weight",
    ".ffn_down.weight"};
const LlamaNames kCheckpoint = {"model.embed_tokens.weight",
                                "model.norm.weight",
                                "lm_head.weight",
                                "model.layers.",
                                ".input_layernorm.weight",
                                ".self_attn.q_proj.weight",
                                ".self_attn.k_proj.weight",
                                ".self_attn.v_proj.weight",
                                ".self_attn.o_proj.weight",
                                ".post_attention_layernorm.weight",
                                ".mlp.gate_proj.weight",
                                ".mlp.up_proj.weight",
                                ".mlp.down_proj.weight"};

void add_layer(Graph& graph, const LlamaNames& names, std::uint32_t layer) {
  const std::string prefix = names.layer + std::to_string(layer);
  const auto at = [layer](TapPoint point) { return Source{point, layer}; };
  const Source stream =
      layer == 0 ? Source{TapPoint::Embed, 0} : Source{TapPoint::ResidOut, layer - 1};
  std::vector<Node>& nodes = graph.nodes;
  const auto linear = [&](TapPoint from, TapPoint to, const std::string& weight) {
    nodes.push_back({NodeKind::Linear, layer, {at(from)}, {at(to)}, prefix + weight});
  };
  nodes.push_back({NodeKind::RmsNorm,
                   layer,
                   {stream},
                   {at(TapPoint::AttnNorm)},
                   prefix + names.attention_norm});
  linear(TapPoint::AttnNorm, TapPoint::QRaw, names.query);
  linear(TapPoint::AttnNorm, TapPoint::KRaw, names.key);
  linear(TapPoint::AttnNorm, TapPoint::VRaw, names.value);
  nodes.push_back({NodeKind::Rope,
                   layer,
                   {at(TapPoint::QRaw), at(TapPoint::KRaw), at(TapPoint::VRaw)},
                   {at(TapPoint::QRot), at(TapPoint::KCell), at(TapPoint::VCell)}});
  nodes.push_back({NodeKind::Attention,
                   layer,
                   {at(TapPoint::QRot), at(TapPoint::KCell), at(TapPoint::VCell)},
                   {at(TapPoint::Attn)}});
  linear(TapPoint::Attn, TapPoint::AttnO, names.attention_output);
  nodes.push_back(
      {NodeKind::ResidualAdd, layer, {stream, at(TapPoint::AttnO)}, {at(TapPoint::ResidMid)}});
  nodes.push_back({NodeKind::RmsNorm,
                   layer,
                   {at(TapPoint::ResidMid)},
                   {at(TapPoint::FfnNorm)},
                   prefix + names.ffn_norm});
  linear(TapPoint::FfnNorm, TapPoint::Gate, names.gate);
  linear(TapPoint::FfnNorm, TapPoint::Up, names.up);
  nodes.push_back(
      {NodeKind::Gate, layer, {at(TapPoint::Gate), at(TapPoint::Up)}, {at(TapPoint::Act)}});
  linear(TapPoint::Act, TapPoint::FfnDown, names.down);
  nodes.push_back({NodeKind::ResidualAdd,
                   layer,
                   {at(TapPoint::ResidMid), at(TapPoint::FfnDown)},
                   {at(TapPoint::ResidOut)}});
}

}  // namespace

Graph llama_graph(const model::Model& model) {
  Graph graph = graph_of_config(model);
  graph.activation = model::Activation::Silu;
  graph.embedding_scale = 1;
  const LlamaNames& names = has_gguf_names(model) ? kGguf : kCheckpoint;
  const Source embed{TapPoint::Embed, 0};
  const Source last{TapPoint::ResidOut, graph.layer_count - 1};
  const Source final_norm{TapPoint::FinalNorm, 0};
  const Source logits{TapPoint::Logits, 0};
  graph.nodes.push_back({NodeKind::EmbedRows, 0, {}, {embed}, names.embedding});
  for (std::uint32_t layer = 0; layer < graph.layer_count; ++layer) add_layer(graph, names, layer);
  graph.nodes.push_back({NodeKind::RmsNorm, 0, {last}, {final_norm}, names.final_norm});
  const bool tied = model.config.tied_embeddings;
  graph.nodes.push_back(
      {NodeKind::Linear, 0, {final_norm}, {logits}, tied ? names.embedding : names.head});
  graph.nodes.push_back({NodeKind::Argmax, 0, {logits}, {{TapPoint::Token, 0}}});
  return graph;
}

}  // namespace lockstep::reference
