// The parts of a GGUF's metadata that all architectures share.
#include <algorithm>

#include "model/arch/arch.h"

namespace lockstep::model {

using base::Result;
using base::Status;

namespace {

// The head size: attention.key_length, by default H / heads; the value's and the rotated part's
// must be the same, because nothing else is built.
Status read_head_size(GgufFields& fields, ModelConfig& config) {
  LS_ASSIGN(const auto key_length, fields.optional_u32(".attention.key_length"));
  if (key_length) {
    config.head_size = *key_length;
  } else if (config.head_count == 0 || config.hidden_size % config.head_count != 0) {
    return fields.input(".attention.key_length",
                        "is missing, and embedding_length is no multiple of head_count");
  } else {
    config.head_size = config.hidden_size / config.head_count;
  }
  for (const char* key : {".attention.value_length", ".rope.dimension_count"}) {
    LS_ASSIGN(const auto length, fields.optional_u32(key));
    if (length && *length != config.head_size) {
      return fields.unsupported(key, std::to_string(*length) +
                                         " is not built, only the head size " +
                                         std::to_string(config.head_size));
    }
  }
  return base::Ok{};
}

Status read_vocabulary_size(GgufFields& fields, ModelConfig& config) {
  const GgufFile& gguf = fields.gguf();
  const TensorInfo* embedding = gguf.tensors.find("token_embd.weight");
  if (embedding == nullptr) {
    base::Error error = base::input_error(gguf.file, "this tensor is missing");
    error.where = "tensor token_embd.weight";
    return error;
  }
  if (embedding->rows() > fields.limits().vocabulary_size) {
    return base::input_error(gguf.file, embedding->offset_bytes, "tensor token_embd.weight",
                             std::to_string(embedding->rows()) +
                                 " rows exceed the limit vocabulary_size (" +
                                 std::to_string(fields.limits().vocabulary_size) + ")");
  }
  config.vocab_size = static_cast<std::uint32_t>(embedding->rows());
  LS_ASSIGN(const auto stated, fields.optional_u32(".vocab_size"));
  if (stated && *stated != config.vocab_size) {
    return fields.input(".vocab_size", "is " + std::to_string(*stated) +
                                           ", but token_embd.weight has " +
                                           std::to_string(config.vocab_size) + " rows");
  }
  return base::Ok{};
}

}  // namespace

Status read_sizes(GgufFields& fields, ModelConfig& config) {
  LS_ASSIGN(config.layer_count, fields.u32(".block_count"));
  if (config.layer_count > fields.limits().layer_count) {
    return fields.input(".block_count", std::to_string(config.layer_count) +
                                            " exceeds the limit layer_count (" +
                                            std::to_string(fields.limits().layer_count) + ")");
  }
  LS_ASSIGN(config.hidden_size, fields.u32(".embedding_length"));
  LS_ASSIGN(config.head_count, fields.u32(".attention.head_count"));
  LS_ASSIGN(const auto kv_heads, fields.optional_u32(".attention.head_count_kv"));
  config.kv_head_count = kv_heads.value_or(config.head_count);
  LS_ASSIGN(config.ffn_size, fields.u32(".feed_forward_length"));
  LS_ASSIGN(config.context_length, fields.u32(".context_length"));
  LS_TRY(read_head_size(fields, config));
  LS_TRY(read_vocabulary_size(fields, config));
  config.tied_embeddings = fields.gguf().tensors.find("output.weight") == nullptr;
  return base::Ok{};
}

Status read_token_ids(GgufFields& fields, ModelConfig& config) {
  LS_ASSIGN(config.bos_token_id, fields.optional_u32("tokenizer.ggml.bos_token_id"));
  // End of sequence, of a turn, of a message: a chat ends at any of them.
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    LS_ASSIGN(const auto id, fields.optional_u32(key));
    const auto& known = config.eos_token_ids;
    if (id && std::find(known.begin(), known.end(), *id) == known.end()) {
      config.eos_token_ids.push_back(*id);
    }
  }
  return base::Ok{};
}

Result<RopeScaling> read_rope_scaling(GgufFields& fields) {
  RopeScaling scaling;
  LS_ASSIGN(const auto type, fields.optional_string(".rope.scaling.type"));
  LS_ASSIGN(const auto factor, fields.optional_positive(".rope.scaling.factor"));
  // Written beside the type, and used by none of the built ones.
  LS_ASSIGN([[maybe_unused]] const auto original,
            fields.optional_u32(".rope.scaling.original_context_length"));
  LS_ASSIGN([[maybe_unused]] const auto finetuned, fields.optional_bool(".rope.scaling.finetuned"));
  LS_TRY(fields.inert(".rope.scaling.attn_factor", 1));
  LS_TRY(fields.inert(".rope.scale_linear", 1));
  const std::string_view kind = type.value_or("none");
  if (kind == "linear") {
    if (!factor) return fields.input(".rope.scaling.factor", "is required for type linear");
    scaling.kind = RopeScalingKind::Linear;
    scaling.factor = *factor;
    return scaling;
  }
  if (kind != "none") {
    return fields.unsupported(".rope.scaling.type",
                              "\"" + std::string(kind) + "\" is not built, only none and linear");
  }
  if (factor && *factor != 1) {
    return fields.unsupported(".rope.scaling.factor", "a factor without a scaling type");
  }
  return scaling;
}

}  // namespace lockstep::model
