// The parts of a config.json that all architectures share.
#include <array>

#include "model/arch/arch.h"

namespace lockstep::model {

using base::Result;
using base::Status;

Status read_sizes(JsonFields& fields, ModelConfig& config) {
  LS_ASSIGN(config.layer_count, fields.u32("num_hidden_layers"));
  if (config.layer_count > fields.limits().layer_count) {
    return fields.input("num_hidden_layers", std::to_string(config.layer_count) +
                                                 " exceeds the limit layer_count (" +
                                                 std::to_string(fields.limits().layer_count) + ")");
  }
  LS_ASSIGN(config.hidden_size, fields.u32("hidden_size"));
  LS_ASSIGN(config.head_count, fields.u32("num_attention_heads"));
  LS_ASSIGN(const auto kv_heads, fields.optional_u32("num_key_value_heads"));
  config.kv_head_count = kv_heads.value_or(config.head_count);
  LS_ASSIGN(const auto head_size, fields.optional_u32("head_dim"));
  if (head_size) {
    config.head_size = *head_size;
  } else if (config.head_count == 0 || config.hidden_size % config.head_count != 0) {
    return fields.input("head_dim",
                        "is missing, and hidden_size is no multiple of num_attention_heads");
  } else {
    config.head_size = config.hidden_size / config.head_count;
  }
  LS_ASSIGN(config.ffn_size, fields.u32("intermediate_size"));
  LS_ASSIGN(config.vocab_size, fields.u32("vocab_size"));
  LS_ASSIGN(config.context_length, fields.u32("max_position_embeddings"));
  return base::Ok{};
}

Status read_token_ids(JsonFields& fields, ModelConfig& config) {
  LS_ASSIGN(config.bos_token_id, fields.optional_u32("bos_token_id"));
  LS_ASSIGN(config.eos_token_ids, fields.token_ids("eos_token_id"));
  return base::Ok{};
}

Result<RopeScaling> read_rope_scaling(JsonFields& fields, std::optional<double>& theta) {
  RopeScaling scaling;
  LS_ASSIGN(theta, fields.optional_positive("rope_theta"));
  LS_ASSIGN(const auto new_type, fields.optional_string("rope_type"));
  LS_ASSIGN(const auto old_type, fields.optional_string("type"));
  if (new_type && old_type && *new_type != *old_type) {
    return fields.input("type", "contradicts rope_type");
  }
  const std::optional<std::string> type = new_type ? new_type : old_type;
  if (!type) return fields.input("rope_type", "this key is required and missing");
  if (*type == "default") {
    scaling.kind = RopeScalingKind::None;
  } else if (*type == "linear") {
    scaling.kind = RopeScalingKind::Linear;
    LS_ASSIGN(scaling.factor, fields.positive("factor"));
  } else if (*type == "llama3") {
    scaling.kind = RopeScalingKind::Llama3;
    LS_ASSIGN(scaling.factor, fields.positive("factor"));
    LS_ASSIGN(scaling.low_frequency_factor, fields.positive("low_freq_factor"));
    LS_ASSIGN(scaling.high_frequency_factor, fields.positive("high_freq_factor"));
    LS_ASSIGN(const std::uint32_t original, fields.u32("original_max_position_embeddings"));
    if (original == 0) return fields.input("original_max_position_embeddings", "must be above 0");
    scaling.original_context_length = original;
    if (scaling.low_frequency_factor >= scaling.high_frequency_factor) {
      return fields.input("low_freq_factor", "must be below high_freq_factor");
    }
  } else {
    return fields.unsupported(new_type ? "rope_type" : "type",
                              "\"" + *type + "\" is not built, only default, linear and llama3");
  }
  LS_TRY(fields.inert("partial_rotary_factor", 1.0));
  LS_TRY(fields.finish({}));
  return scaling;
}

std::span<const std::string_view> harmless_json_keys() {
  static constexpr std::array<std::string_view, 27> kKeys = {
      // Where the file comes from, and how it is stored.
      "_name_or_path",
      "transformers_version",
      "torch_dtype",
      "dtype",
      "is_llama_config",
      "transformers.js_config",
      "tokenizer_class",
      // Training only.
      "initializer_range",
      "attention_dropout",
      "gradient_checkpointing",
      // How a program runs the same computation.
      "use_cache",
      "cache_implementation",
      "_attn_implementation",
      "_attn_implementation_autoset",
      "return_dict",
      "output_attentions",
      "output_hidden_states",
      "torchscript",
      "use_bfloat16",
      // Tokens that no forward pass looks at.
      "pad_token_id",
      "sep_token_id",
      "unk_token_id",
      "decoder_start_token_id",
      // Classification heads.
      "id2label",
      "label2id",
      "problem_type",
      "finetuning_task",
  };
  return kKeys;
}

Status refuse_unbuilt(JsonFields& fields) {
  LS_TRY(fields.inert("attention_bias", false));
  LS_TRY(fields.inert("mlp_bias", false));
  LS_TRY(fields.inert("attn_logit_softcapping", nullptr));
  LS_TRY(fields.inert("final_logit_softcapping", nullptr));
  LS_TRY(fields.inert("use_bidirectional_attention", false));
  LS_TRY(fields.inert("quantization_config", nullptr));
  LS_TRY(fields.inert("partial_rotary_factor", 1.0));
  LS_TRY(fields.inert("rope_interleaved", false));
  LS_TRY(fields.inert("pretraining_tp", 1));
  LS_TRY(fields.inert("is_encoder_decoder", false));
  LS_TRY(fields.inert("add_cross_attention", false));
  LS_TRY(fields.inert("tie_encoder_decoder", false));
  LS_TRY(fields.inert("chunk_size_feed_forward", 0));
  return fields.inert("pruned_heads", nlohmann::json::object());
}

}  // namespace lockstep::model
