// Llama's keys in both formats.
#include "model/arch/llama.h"

#include <cmath>

#include "base/check.h"
#include "model/arch/arch.h"

namespace lockstep::model {
namespace {

using base::Result;
using base::Status;

// llama.cpp's and transformers' default, which the files of the first Llama models rely on.
constexpr double kDefaultTheta = 10000;

void set_layers(ModelConfig& config, double theta, const RopeScaling& scaling) {
  config.layers.assign(config.layer_count,
                       {.window = 0, .rope_theta = theta, .rope_scaling = scaling});
}

// rope_freqs.weight: how a GGUF stores the llama3 scaling, as divisors of the D/2 frequencies.
Status read_rope_divisors(GgufFields& fields, ModelConfig& config) {
  const TensorInfo* tensor = fields.gguf().tensors.find("rope_freqs.weight");
  if (tensor == nullptr) return base::Ok{};
  const auto error = [&](std::string rule) {
    return base::input_error(fields.gguf().file, tensor->offset_bytes, "tensor rope_freqs.weight",
                             std::move(rule));
  };
  if (tensor->dtype != DType::F32 ||
      tensor->shape != std::vector<std::uint64_t>{config.head_size / 2}) {
    return error("must be F32 [" + std::to_string(config.head_size / 2) + "]");
  }
  const GgufArray values{.element_type = GgufType::Float32,
                         .count = tensor->shape[0],
                         .raw = tensor->data,
                         .strings = {}};
  for (std::uint64_t i = 0; i < values.count; ++i) {
    const double value = values.real(i);
    if (!std::isfinite(value) || value <= 0) return error("must hold finite numbers above 0");
    config.rope_frequency_divisors.push_back(value);
  }
  return base::Ok{};
}

}  // namespace

Result<ModelConfig> llama_config(GgufFields& fields) {
  ModelConfig config;
  config.arch = Arch::Llama;
  LS_TRY(read_sizes(fields, config));
  LS_TRY(read_token_ids(fields, config));
  LS_ASSIGN(config.rms_norm_epsilon, fields.positive(".attention.layer_norm_rms_epsilon"));
  LS_ASSIGN(const std::optional<double> theta, fields.optional_positive(".rope.freq_base"));
  LS_ASSIGN(const RopeScaling scaling, read_rope_scaling(fields));
  LS_TRY(fields.inert(".expert_count", 0));
  LS_TRY(fields.inert(".expert_used_count", 0));
  LS_TRY(fields.inert(".attention.causal", 1));
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  config.rope_pairing = RopePairing::Interleaved;
  config.activation = Activation::Silu;
  set_layers(config, theta.value_or(kDefaultTheta), scaling);
  LS_TRY(read_rope_divisors(fields, config));
  LS_TRY(fields.finish());
  return config;
}

Result<ModelConfig> llama_config(JsonFields& fields) {
  ModelConfig config;
  config.arch = Arch::Llama;
  LS_TRY(fields.inert("model_type", "llama"));
  LS_TRY(read_sizes(fields, config));
  LS_TRY(read_token_ids(fields, config));
  LS_TRY(refuse_unbuilt(fields));
  LS_TRY(fields.inert("sliding_window", nullptr));
  LS_TRY(fields.inert("hidden_act", "silu"));
  LS_ASSIGN(config.rms_norm_epsilon, fields.positive("rms_norm_eps"));
  LS_ASSIGN(const std::optional<bool> tied, fields.optional_bool("tie_word_embeddings"));
  config.tied_embeddings = tied.value_or(false);  // LlamaConfig's default
  std::optional<double> theta;
  RopeScaling scaling;
  LS_ASSIGN(auto parameters, fields.optional_object("rope_parameters"));
  if (parameters) {
    LS_ASSIGN(scaling, read_rope_scaling(*parameters, theta));
    if (!theta) return parameters->input("rope_theta", "this key is required and missing");
  } else {
    LS_ASSIGN(theta, fields.optional_positive("rope_theta"));
    LS_ASSIGN(auto old_scaling, fields.optional_object("rope_scaling"));
    std::optional<double> inner_theta;
    if (old_scaling) {
      LS_ASSIGN(scaling, read_rope_scaling(*old_scaling, inner_theta));
    }
    if (inner_theta) return old_scaling->unsupported("rope_theta", "belongs beside rope_scaling");
  }
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  config.rope_pairing = RopePairing::Half;
  config.activation = Activation::Silu;
  set_layers(config, theta.value_or(kDefaultTheta), scaling);
  LS_TRY(fields.finish(harmless_json_keys()));
  return config;
}

std::string_view llama_layer_weight_name(WeightRole role) {
  switch (role) {
    case WeightRole::AttnNorm:
      return "input_layernorm";
    case WeightRole::Query:
      return "self_attn.q_proj";
    case WeightRole::Key:
      return "self_attn.k_proj";
    case WeightRole::Value:
      return "self_attn.v_proj";
    case WeightRole::AttnOutput:
      return "self_attn.o_proj";
    case WeightRole::FfnNorm:
      return "post_attention_layernorm";
    case WeightRole::Gate:
      return "mlp.gate_proj";
    case WeightRole::Up:
      return "mlp.up_proj";
    case WeightRole::Down:
      return "mlp.down_proj";
    case WeightRole::QueryNorm:
    case WeightRole::KeyNorm:
    case WeightRole::PostAttnNorm:
    case WeightRole::PostFfnNorm:
    case WeightRole::TokenEmbedding:
    case WeightRole::FinalNorm:
    case WeightRole::Head:
      break;
  }
  LS_CHECK(false, "llama has no such layer weight");
  return {};
}

}  // namespace lockstep::model
