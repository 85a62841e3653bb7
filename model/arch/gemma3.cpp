// Gemma 3's keys in both formats, and what its files leave to the reader.
#include "model/arch/gemma3.h"

#include <cmath>
#include <vector>

#include "base/check.h"
#include "model/arch/arch.h"

namespace lockstep::model {
namespace {

using base::Result;
using base::Status;
using nlohmann::json;

constexpr double kLocalTheta = 10000;
constexpr std::uint32_t kFullAttentionPeriod = 6;
constexpr std::uint32_t kLayersOf27B = 62;

void set_common(ModelConfig& config) {
  config.arch = Arch::Gemma3;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.rope_pairing = RopePairing::Half;
  config.activation = Activation::GeluTanh;
  config.qk_norm = true;
  config.post_norms = true;
}

// Layer i of a pattern of period n sees all keys if i + 1 is a multiple of n.
std::vector<bool> sliding_by_period(std::uint32_t layer_count, std::uint32_t period) {
  std::vector<bool> sliding(layer_count);
  for (std::uint32_t i = 0; i < layer_count; ++i) sliding[i] = (i + 1) % period != 0;
  return sliding;
}

void set_layers(ModelConfig& config, const std::vector<bool>& sliding, const LayerAttention& local,
                const LayerAttention& full) {
  for (const bool is_sliding : sliding) config.layers.push_back(is_sliding ? local : full);
}

Result<std::vector<bool>> sliding_layers(GgufFields& fields, std::uint32_t layer_count) {
  constexpr std::string_view kKey = ".attention.sliding_window_pattern";
  const GgufEntry* entry = fields.gguf().find("gemma3.attention.sliding_window_pattern");
  if (entry != nullptr && entry->type == GgufType::Array) {
    return fields.unsupported(kKey, "a list of layers is not built, only a period");
  }
  LS_ASSIGN(const auto period, fields.optional_u32(kKey));
  if (period == 0u) return fields.input(kKey, "must be at least 1");
  return sliding_by_period(layer_count, period.value_or(kFullAttentionPeriod));
}

Result<std::vector<bool>> sliding_layers(JsonFields& fields, std::uint32_t layer_count) {
  // "layer_types" is what counts; older files have only the period, under either name.
  LS_ASSIGN(const auto period, fields.optional_u32("sliding_window_pattern"));
  LS_ASSIGN(const auto private_period, fields.optional_u32("_sliding_window_pattern"));
  const json& types = fields.raw("layer_types");
  if (types.is_null()) {
    const auto chosen = period ? period : private_period;
    if (!chosen) return fields.input("layer_types", "this key is required and missing");
    if (*chosen == 0) return fields.input("sliding_window_pattern", "must be at least 1");
    return sliding_by_period(layer_count, *chosen);
  }
  if (!types.is_array() || types.size() != layer_count) {
    return fields.input("layer_types", "must list num_hidden_layers layers");
  }
  std::vector<bool> sliding;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool is_sliding = types[i] == "sliding_attention";
    if (!is_sliding && types[i] != "full_attention") {
      return fields.unsupported("layer_types/" + std::to_string(i),
                                types[i].dump() + " is no kind of layer that is built");
    }
    sliding.push_back(is_sliding);
  }
  return sliding;
}

Status read_json_rope(JsonFields& fields, LayerAttention& local, LayerAttention& full) {
  LS_ASSIGN(auto parameters, fields.optional_object("rope_parameters"));
  if (!parameters) {
    LS_ASSIGN(full.rope_theta, fields.positive("rope_theta"));
    LS_ASSIGN(local.rope_theta, fields.positive("rope_local_base_freq"));
    LS_ASSIGN(auto scaling, fields.optional_object("rope_scaling"));
    std::optional<double> inner_theta;
    if (scaling) {
      LS_ASSIGN(full.rope_scaling, read_rope_scaling(*scaling, inner_theta));
    }
    if (inner_theta) return scaling->unsupported("rope_theta", "belongs beside rope_scaling");
    return base::Ok{};
  }
  const auto read_one = [&](const char* key, LayerAttention& layer) -> Status {
    LS_ASSIGN(auto entry, parameters->optional_object(key));
    if (!entry) return parameters->input(key, "this key is required and missing");
    std::optional<double> theta;
    LS_ASSIGN(layer.rope_scaling, read_rope_scaling(*entry, theta));
    if (!theta) return entry->input("rope_theta", "this key is required and missing");
    layer.rope_theta = *theta;
    return base::Ok{};
  };
  LS_TRY(read_one("sliding_attention", local));
  LS_TRY(read_one("full_attention", full));
  return parameters->finish({});
}

}  // namespace

Result<ModelConfig> gemma3_config(GgufFields& fields) {
  ModelConfig config;
  LS_TRY(read_sizes(fields, config));
  LS_TRY(read_token_ids(fields, config));
  set_common(config);
  LS_ASSIGN(config.rms_norm_epsilon, fields.positive(".attention.layer_norm_rms_epsilon"));
  LayerAttention local, full;
  LS_ASSIGN(full.rope_theta, fields.positive(".rope.freq_base"));
  LS_ASSIGN(full.rope_scaling, read_rope_scaling(fields));
  LS_ASSIGN(const auto local_theta, fields.optional_positive(".rope.freq_base_swa"));
  local.rope_theta = local_theta.value_or(kLocalTheta);
  LS_ASSIGN(local.window, fields.u32(".attention.sliding_window"));
  if (local.window == 0) return fields.input(".attention.sliding_window", "must be at least 1");
  LS_ASSIGN(const auto sliding, sliding_layers(fields, config.layer_count));
  set_layers(config, sliding, local, full);
  LS_TRY(fields.inert(".attention.causal", 1));
  LS_TRY(fields.inert(".final_logit_softcapping", 0));
  LS_TRY(fields.inert(".attn_logit_softcapping", 0));
  const double scaled_size =
      config.layer_count == kLayersOf27B
          ? static_cast<double>(config.hidden_size) / static_cast<double>(config.head_count)
          : static_cast<double>(config.head_size);
  config.attention_scale = 1 / std::sqrt(scaled_size);
  LS_TRY(fields.finish());
  return config;
}

Result<ModelConfig> gemma3_config(JsonFields& fields) {
  ModelConfig config;
  LS_TRY(fields.inert("model_type", "gemma3_text"));
  LS_TRY(read_sizes(fields, config));
  LS_TRY(read_token_ids(fields, config));
  LS_TRY(refuse_unbuilt(fields));
  set_common(config);
  config.norm_weight_plus_one = true;
  LS_TRY(fields.inert("hidden_activation", "gelu_pytorch_tanh"));
  LS_TRY(fields.inert("hidden_act", "gelu_pytorch_tanh"));
  LS_ASSIGN(config.rms_norm_epsilon, fields.positive("rms_norm_eps"));
  LS_ASSIGN(const std::optional<bool> tied, fields.optional_bool("tie_word_embeddings"));
  config.tied_embeddings = tied.value_or(true);  // Gemma3TextConfig's default
  LS_ASSIGN(const double scalar, fields.positive("query_pre_attn_scalar"));
  config.attention_scale = 1 / std::sqrt(scalar);
  LayerAttention local, full;
  LS_ASSIGN(local.window, fields.u32("sliding_window"));
  if (local.window == 0) return fields.input("sliding_window", "must be at least 1");
  LS_TRY(read_json_rope(fields, local, full));
  LS_ASSIGN(const auto sliding, sliding_layers(fields, config.layer_count));
  set_layers(config, sliding, local, full);
  LS_TRY(fields.finish(harmless_json_keys()));
  return config;
}

std::string_view gemma3_layer_weight_name(WeightRole role) {
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
    case WeightRole::QueryNorm:
      return "self_attn.q_norm";
    case WeightRole::KeyNorm:
      return "self_attn.k_norm";
    case WeightRole::PostAttnNorm:
      return "post_attention_layernorm";
    case WeightRole::FfnNorm:
      return "pre_feedforward_layernorm";
    case WeightRole::Gate:
      return "mlp.gate_proj";
    case WeightRole::Up:
      return "mlp.up_proj";
    case WeightRole::Down:
      return "mlp.down_proj";
    case WeightRole::PostFfnNorm:
      return "post_feedforward_layernorm";
    case WeightRole::TokenEmbedding:
    case WeightRole::FinalNorm:
    case WeightRole::Head:
      break;
  }
  LS_CHECK(false, "gemma3 has no such layer weight");
  return {};
}

}  // namespace lockstep::model
