// Parts of a model's graph that do not depend on the architecture.
#include "reference/models/graph.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace lockstep::reference {

namespace {

using model::RopeScalingKind;
using trace::TapPoint;

// Llama 3.1's rule: wavelengths beyond the original context are stretched by `factor`, short ones
// kept, those between interpolated (Llama 3.1 release, rope scaling of the reference code).
double llama3_frequency(const model::RopeScaling& scaling, double frequency) {
  const double turns = scaling.original_context_length * frequency / (2 * std::numbers::pi);
  if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
  if (turns > scaling.high_frequency_factor) return frequency;
  const double smooth = (turns - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - smooth) * (frequency / scaling.factor) + smooth * frequency;
}

double scaled_frequency(const model::RopeScaling& scaling, double frequency) {
  switch (scaling.kind) {
    case RopeScalingKind::None:
      return frequency;
    case RopeScalingKind::Linear:
      return frequency / scaling.factor;
    case RopeScalingKind::Llama3:
      return llama3_frequency(scaling, frequency);
  }
  LS_CHECK(false);
}

base::Status check_shape(const Graph& graph, const std::string& name, std::uint64_t outputs,
                         std::uint64_t inputs) {
  const model::TensorInfo* tensor = graph.model->tensors.find(name);
  if (tensor == nullptr) return base::input_error(graph.model->path, "tensor missing: " + name);
  if (tensor->rows() != outputs || tensor->columns() != inputs) {
    return base::input_error(graph.model->path,
                             "tensor " + name + " must be " + std::to_string(outputs) + " x " +
                                 std::to_string(inputs) + ", is " + std::to_string(tensor->rows()) +
                                 " x " + std::to_string(tensor->columns()));
  }
  return base::Ok{};
}

}  // namespace

const Node* Graph::producer(const Source& output) const {
  for (const Node& node : nodes) {
    for (const Source& written : node.outputs) {
      if (written == output) return &node;
    }
  }
  return nullptr;
}

std::uint32_t Graph::width(TapPoint point) const {
  switch (point) {
    case TapPoint::ResidIn:
    case TapPoint::AttnNorm:
    case TapPoint::AttnO:
    case TapPoint::PostAttn:
    case TapPoint::ResidMid:
    case TapPoint::FfnNorm:
    case TapPoint::FfnDown:
    case TapPoint::PostFfn:
    case TapPoint::ResidOut:
    case TapPoint::Embed:
    case TapPoint::FinalNorm:
      return hidden_size;
    case TapPoint::QRaw:
    case TapPoint::QRot:
    case TapPoint::Attn:
      return head_count * head_size;
    case TapPoint::KRaw:
    case TapPoint::VRaw:
    case TapPoint::KCell:
    case TapPoint::VCell:
      return kv_head_count * head_size;
    case TapPoint::Gate:
    case TapPoint::Up:
    case TapPoint::Act:
      return ffn_size;
    case TapPoint::Logits:
      return vocab_size;
    case TapPoint::Token:
      return 1;
  }
  LS_CHECK(false);
}

AttentionFacts attention_facts(const model::ModelConfig& config, std::uint32_t layer) {
  const model::LayerAttention& attention = config.layers.at(layer);
  AttentionFacts facts;
  facts.window = attention.window;
  const std::uint32_t half = config.head_size / 2;
  for (std::uint32_t i = 0; i < half; ++i) {
    double frequency = std::pow(attention.rope_theta, -2.0 * i / config.head_size);
    frequency = scaled_frequency(attention.rope_scaling, frequency);
    if (!config.rope_frequency_divisors.empty()) {
      frequency /= config.rope_frequency_divisors.at(i);
    }
    facts.rope_frequencies.push_back(frequency);
  }
  // pow, divisions and the product with the position: each side, this one and the table's maker, is
  // within 2^-51 of exact where only they take part; the exponent, of size at most 1, is rounded.
  facts.frequency_error = 0x1p-50 + 2 * std::fabs(std::log(attention.rope_theta)) * 0x1p-53;
  if (attention.rope_scaling.kind == RopeScalingKind::Llama3) {
    // d(smooth) = turns' relative error x high / (high - low), and the frequency is at least 1 /
    // factor of the unscaled one.
    const model::RopeScaling& scaling = attention.rope_scaling;
    facts.frequency_error *=
        1 + scaling.factor * scaling.high_frequency_factor /
                std::fabs(scaling.high_frequency_factor - scaling.low_frequency_factor);
  }
  return facts;
}

Graph graph_of_config(const model::Model& model) {
  const model::ModelConfig& config = model.config;
  Graph graph;
  graph.model = &model;
  graph.layer_count = config.layer_count;
  graph.hidden_size = config.hidden_size;
  graph.head_count = config.head_count;
  graph.kv_head_count = config.kv_head_count;
  graph.head_size = config.head_size;
  graph.ffn_size = config.ffn_size;
  graph.vocab_size = config.vocab_size;
  graph.epsilon = config.rms_norm_epsilon;
  graph.attention_scale = config.attention_scale;
  graph.norm_weight_plus_one = config.norm_weight_plus_one;
  graph.rope_pairing = config.rope_pairing;
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    graph.attention.push_back(attention_facts(config, layer));
  }
  return graph;
}

base::Status check_weights(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    switch (node.kind) {
      case NodeKind::EmbedRows:
        LS_TRY(check_shape(graph, node.weight, graph.vocab_size, graph.hidden_size));
        break;
      case NodeKind::RmsNorm:
        LS_TRY(check_shape(graph, node.weight, 1, graph.hidden_size));
        break;
      case NodeKind::Linear:
        LS_TRY(check_shape(graph, node.weight, graph.width(node.outputs[0].point),
                           graph.width(node.inputs[0].point)));
        break;
      case NodeKind::Rope:
        if (node.weight.empty()) break;
        LS_TRY(check_shape(graph, node.weight, 1, graph.head_size));
        LS_TRY(check_shape(graph, node.second_weight, 1, graph.head_size));
        break;
      case NodeKind::Attention:
      case NodeKind::Gate:
      case NodeKind::ResidualAdd:
      case NodeKind::Argmax:
        break;
    }
  }
  return base::Ok{};
}

bool has_gguf_names(const model::Model& model) {
  for (const auto& [name, tensor] : model.tensors.all()) {
    if (name.starts_with("model.") || name.starts_with("lm_head.")) return false;
  }
  return true;
}

Graph outline_graph(const model::Model& model) {
  switch (model.config.arch) {
    case model::Arch::Llama:
      return llama_graph(model);
    case model::Arch::Gemma3:
      return gemma3_graph(model);
  }
  LS_CHECK(false);
}

base::Result<Graph> build_graph(const model::Model& model) {
  Graph graph = outline_graph(model);
  LS_TRY(check_weights(graph));
  return graph;
}

}  // namespace lockstep::reference
