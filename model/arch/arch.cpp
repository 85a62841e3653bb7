// Dispatch by the architecture's name; tensor names and shapes of a config.
#include "model/arch/arch.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "model/arch/gemma3.h"
#include "model/arch/llama.h"

namespace lockstep::model {
namespace {

using base::Result;
using base::Status;
using nlohmann::json;

Status no_limit_exceeded(std::uint64_t value, std::uint64_t most, const char* limit,
                         const std::string& file, const char* where) {
  if (value <= most) return base::Ok{};
  base::Error error = base::input_error(file, std::to_string(value) + " exceeds the limit " +
                                                  limit + " (" + std::to_string(most) + ")");
  error.where = where;
  return error;
}

// A GGUF tensor's name within its layer: one naming for all architectures (gguf constants of ggml).
std::string_view gguf_weight_name(WeightRole role) {
  switch (role) {
    case WeightRole::TokenEmbedding:
      return "token_embd";
    case WeightRole::FinalNorm:
      return "output_norm";
    case WeightRole::Head:
      return "output";
    case WeightRole::AttnNorm:
      return "attn_norm";
    case WeightRole::Query:
      return "attn_q";
    case WeightRole::Key:
      return "attn_k";
    case WeightRole::Value:
      return "attn_v";
    case WeightRole::AttnOutput:
      return "attn_output";
    case WeightRole::QueryNorm:
      return "attn_q_norm";
    case WeightRole::KeyNorm:
      return "attn_k_norm";
    case WeightRole::PostAttnNorm:
      return "post_attention_norm";
    case WeightRole::FfnNorm:
      return "ffn_norm";
    case WeightRole::Gate:
      return "ffn_gate";
    case WeightRole::Up:
      return "ffn_up";
    case WeightRole::Down:
      return "ffn_down";
    case WeightRole::PostFfnNorm:
      return "post_ffw_norm";
  }
  LS_CHECK(false);
  return {};
}

std::string_view json_layer_weight_name(Arch arch, WeightRole role) {
  switch (arch) {
    case Arch::Llama:
      return llama_layer_weight_name(role);
    case Arch::Gemma3:
      return gemma3_layer_weight_name(role);
  }
  LS_CHECK(false);
  return {};
}

std::string weight_name(Arch arch, WeightRole role, std::uint32_t layer, FileFormat format) {
  const bool of_model = role == WeightRole::TokenEmbedding || role == WeightRole::FinalNorm ||
                        role == WeightRole::Head;
  const std::string number = std::to_string(layer);
  if (format == FileFormat::Gguf) {
    return (of_model ? "" : "blk." + number + ".") + std::string(gguf_weight_name(role)) +
           ".weight";
  }
  if (role == WeightRole::TokenEmbedding) return "model.embed_tokens.weight";
  if (role == WeightRole::FinalNorm) return "model.norm.weight";
  if (role == WeightRole::Head) return "lm_head.weight";
  return "model.layers." + number + "." + std::string(json_layer_weight_name(arch, role)) +
         ".weight";
}

std::vector<std::uint64_t> weight_shape(const ModelConfig& config, WeightRole role) {
  const std::uint64_t hidden = config.hidden_size, ffn = config.ffn_size, head = config.head_size;
  const std::uint64_t queries = head * config.head_count, keys = head * config.kv_head_count;
  switch (role) {
    case WeightRole::TokenEmbedding:
    case WeightRole::Head:
      return {config.vocab_size, hidden};
    case WeightRole::FinalNorm:
    case WeightRole::AttnNorm:
    case WeightRole::PostAttnNorm:
    case WeightRole::FfnNorm:
    case WeightRole::PostFfnNorm:
      return {hidden};
    case WeightRole::Query:
      return {queries, hidden};
    case WeightRole::Key:
    case WeightRole::Value:
      return {keys, hidden};
    case WeightRole::AttnOutput:
      return {hidden, queries};
    case WeightRole::QueryNorm:
    case WeightRole::KeyNorm:
      return {head};
    case WeightRole::Gate:
    case WeightRole::Up:
      return {ffn, hidden};
    case WeightRole::Down:
      return {hidden, ffn};
  }
  LS_CHECK(false);
  return {};
}

std::vector<WeightRole> layer_roles(const ModelConfig& config) {
  std::vector<WeightRole> roles = {WeightRole::AttnNorm, WeightRole::Query, WeightRole::Key,
                                   WeightRole::Value, WeightRole::AttnOutput};
  if (config.qk_norm) roles.insert(roles.end(), {WeightRole::QueryNorm, WeightRole::KeyNorm});
  if (config.post_norms) roles.push_back(WeightRole::PostAttnNorm);
  roles.insert(roles.end(),
               {WeightRole::FfnNorm, WeightRole::Gate, WeightRole::Up, WeightRole::Down});
  if (config.post_norms) roles.push_back(WeightRole::PostFfnNorm);
  return roles;
}

WeightSpec weight_spec(const ModelConfig& config, WeightRole role, std::uint32_t layer,
                       FileFormat format) {
  return {role, layer, weight_name(config.arch, role, layer, format), weight_shape(config, role)};
}

}  // namespace

std::vector<WeightSpec> model_weight_specs(const ModelConfig& config, FileFormat format) {
  std::vector<WeightRole> roles = {WeightRole::TokenEmbedding, WeightRole::FinalNorm};
  if (!config.tied_embeddings) roles.push_back(WeightRole::Head);
  std::vector<WeightSpec> specs;
  for (const WeightRole role : roles) specs.push_back(weight_spec(config, role, 0, format));
  return specs;
}

std::vector<WeightSpec> layer_weight_specs(const ModelConfig& config, FileFormat format,
                                           std::uint32_t layer) {
  std::vector<WeightSpec> specs;
  for (const WeightRole role : layer_roles(config)) {
    specs.push_back(weight_spec(config, role, layer, format));
  }
  return specs;
}

std::vector<WeightSpec> weight_specs(const ModelConfig& config, FileFormat format) {
  std::vector<WeightSpec> specs = model_weight_specs(config, format);
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    for (WeightSpec& spec : layer_weight_specs(config, format, layer)) {
      specs.push_back(std::move(spec));
    }
  }
  return specs;
}

Result<ModelConfig> config_from_gguf(const GgufFile& gguf, const base::Limits& limits) {
  GgufFields general(gguf, "", limits);
  LS_ASSIGN(const auto found, general.optional_string("general.architecture"));
  if (!found) {
    return general.input("general.architecture", "this metadata key is required and missing");
  }
  GgufFields fields(gguf, std::string(*found) + ".", limits);
  const auto read = [&]() -> Result<ModelConfig> {
    if (*found == "llama") return llama_config(fields);
    if (*found == "gemma3") return gemma3_config(fields);
    return general.unsupported(
        "general.architecture",
        "architecture \"" + std::string(*found) + "\" is not built, only llama and gemma3");
  };
  LS_ASSIGN(ModelConfig config, read());
  LS_TRY(check_config(config, gguf.file, limits));
  return config;
}

Result<ModelConfig> config_from_json(const json& document, const std::string& file,
                                     const base::Limits& limits) {
  if (!document.is_object()) return base::input_error(file, "must be a JSON object");
  JsonFields fields(document, file, "", limits);
  const json& names = fields.raw("architectures");
  if (!names.is_array() || names.size() != 1 || !names[0].is_string()) {
    return fields.input("architectures", "must be a list of one name");
  }
  const auto read = [&]() -> Result<ModelConfig> {
    if (names[0] == "LlamaForCausalLM") return llama_config(fields);
    if (names[0] == "Gemma3ForCausalLM") return gemma3_config(fields);
    return fields.unsupported("architectures", "architecture " + names[0].dump() +
                                                   " is not built, only LlamaForCausalLM and "
                                                   "Gemma3ForCausalLM");
  };
  LS_ASSIGN(ModelConfig config, read());
  LS_TRY(check_config(config, file, limits));
  return config;
}

Status check_config(const ModelConfig& config, const std::string& file,
                    const base::Limits& limits) {
  const auto error = [&](const char* where, std::string rule) {
    base::Error result = base::input_error(file, std::move(rule));
    result.where = where;
    return result;
  };
  if (config.layer_count == 0) return error("layer count", "must be at least 1");
  if (config.hidden_size == 0) return error("hidden size", "must be at least 1");
  if (config.ffn_size == 0) return error("feed-forward size", "must be at least 1");
  if (config.vocab_size == 0) return error("vocabulary size", "must be at least 1");
  if (config.context_length == 0) return error("context length", "must be at least 1");
  if (config.head_size == 0 || config.head_size % 2 != 0) {
    return error("head size", "RoPE pairs elements: must be even and above 0, found " +
                                  std::to_string(config.head_size));
  }
  if (config.kv_head_count == 0 || config.head_count == 0 ||
      config.head_count % config.kv_head_count != 0) {
    return error("head count", "must be a multiple of the KV head count, found " +
                                   std::to_string(config.head_count) + " and " +
                                   std::to_string(config.kv_head_count));
  }
  LS_TRY(no_limit_exceeded(config.vocab_size, limits.vocabulary_size, "vocabulary_size", file,
                           "vocabulary size"));
  LS_TRY(no_limit_exceeded(std::uint64_t{config.head_count} * config.head_size,
                           limits.axis_elements, "axis_elements", file, "heads times head size"));
  LS_CHECK(config.layers.size() == config.layer_count);
  const auto out_of_vocabulary = [&](std::uint32_t id) { return id >= config.vocab_size; };
  if (config.bos_token_id && out_of_vocabulary(*config.bos_token_id)) {
    return error("bos token id", "is outside of the vocabulary");
  }
  for (const std::uint32_t id : config.eos_token_ids) {
    if (out_of_vocabulary(id)) return error("eos token id", "is outside of the vocabulary");
  }
  return base::Ok{};
}

}  // namespace lockstep::model
