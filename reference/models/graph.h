// Graph: the operations of a model in order, as the reference knows them from the architecture's
// description: which tapped values each reads and writes, and which tensor of the file it
// multiplies by, under names of the reference's own. The chained run (session) and the local check
// both walk it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/model.h"
#include "trace/op.h"

namespace lockstep::reference {

// A tapped value. Model-wide ones have layer 0. ResidIn is no value of its own: it is the
// ResidOut of the layer before, or Embed.
struct Source {
  trace::TapPoint point = trace::TapPoint::Embed;
  std::uint32_t layer = 0;
  friend auto operator<=>(const Source&, const Source&) = default;
};

// Linear is Gemv or Gemm, Attention is decode or prefill: a node says what is computed, the call
// how.
enum class NodeKind : std::uint8_t {
  EmbedRows,
  RmsNorm,
  Linear,
  Rope,
  Attention,
  Gate,
  ResidualAdd,
  Argmax,
};

struct Node {
  NodeKind kind = NodeKind::EmbedRows;
  std::uint32_t layer = 0;  // 0 for model-wide ones
  // RmsNorm, Linear: x. Rope: q, k, v raw. Attention: rotated q, K cell, V cell (of this and of
  // earlier positions). Gate: gate, up. ResidualAdd: stream, branch.
  std::vector<Source> inputs;
  std::vector<Source> outputs;
  std::string weight = {};         // tensor name; Rope: of the norm of q, where there is one
  std::string second_weight = {};  // Rope: of the norm of k
};

// A layer's attention as numbers.
struct AttentionFacts {
  std::uint32_t window = 0;              // keys seen, the query's own included; 0: all before it
  std::vector<double> rope_frequencies;  // radians a position, [head_size / 2]
  // How far the frequencies may be from exact, relative.
  double frequency_error = 0;
};

struct Graph {
  const model::Model* model = nullptr;
  std::uint32_t layer_count = 0, hidden_size = 0, head_count = 0, kv_head_count = 0, head_size = 0,
                ffn_size = 0, vocab_size = 0;
  double epsilon = 0;  // of all norms
  double attention_scale = 0;
  double embedding_scale = 1;
  bool norm_weight_plus_one = false;
  model::RopePairing rope_pairing = model::RopePairing::Half;
  model::Activation activation = model::Activation::Silu;
  std::vector<AttentionFacts> attention;  // a layer
  std::vector<Node> nodes;                // in order

  // The node that writes `output`, or null.
  const Node* producer(const Source& output) const;
  // Elements of a row of a value.
  std::uint32_t width(trace::TapPoint point) const;
};

// The graph of a model: Error where the file lacks a tensor that the architecture needs.
base::Result<Graph> build_graph(const model::Model& model);
// The same without a look at the tensors: most may be missing.
Graph outline_graph(const model::Model& model);

// One architecture each. `model` is of that architecture.
Graph llama_graph(const model::Model& model);
Graph gemma3_graph(const model::Model& model);
// Whether tensors have the names of GGUF files, not those of Hugging Face checkpoints.
bool has_gguf_names(const model::Model& model);

// Shared by the architectures: shapes and parameters that every decoder-only transformer has.
Graph graph_of_config(const model::Model& model);
// Frequencies of a layer: theta^(-2 i / D), divided as the file's scaling rule says.
AttentionFacts attention_facts(const model::ModelConfig& config, std::uint32_t layer);
// Every tensor that the nodes name is in the file.
base::Status check_weights(const Graph& graph);

}  // namespace lockstep::reference
