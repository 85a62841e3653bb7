// What the architectures share: the dispatch by name, and which weights a config asks for.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/json_fields.h"
#include "model/config.h"
#include "model/gguf.h"

namespace lockstep::model {

enum class FileFormat : std::uint8_t { Gguf, Safetensors };

// By general.architecture; by "architectures". Another name is Unsupported.
base::Result<ModelConfig> config_from_gguf(const GgufFile& gguf, const base::Limits& limits);
base::Result<ModelConfig> config_from_json(const nlohmann::json& document, const std::string& file,
                                           const base::Limits& limits);

struct WeightSpec {
  WeightRole role = WeightRole::TokenEmbedding;
  std::uint32_t layer = 0;
  std::string name;                  // in the file
  std::vector<std::uint64_t> shape;  // outermost axis first
};
// The tensors that a model of this config consists of, in a fixed order: those of the whole model
// (a tied head has none), those of one layer, and all of them.
std::vector<WeightSpec> model_weight_specs(const ModelConfig& config, FileFormat format);
std::vector<WeightSpec> layer_weight_specs(const ModelConfig& config, FileFormat format,
                                           std::uint32_t layer);
std::vector<WeightSpec> weight_specs(const ModelConfig& config, FileFormat format);

using WeightMap = std::map<std::pair<WeightRole, std::uint32_t>, const TensorInfo*>;
// Finds each of them in the table. A missing or misshapen one, and a vector in a block format, are
// Input errors; a dtype that no weight has, and a tensor that nothing uses, are Unsupported.
base::Result<WeightMap> bind_weights(const ModelConfig& config, const TensorTable& tensors,
                                     FileFormat format, const std::string& file);

// Steps that both architectures' readers share.
//
// Sizes: layer_count .. context_length, head size and vocabulary from GGUF metadata and the shape
// of token_embd.weight; tied_embeddings is the absence of output.weight.
base::Status read_sizes(GgufFields& fields, ModelConfig& config);
base::Status read_sizes(JsonFields& fields, ModelConfig& config);
// tokenizer.ggml.*_token_id; bos_token_id and eos_token_id.
base::Status read_token_ids(GgufFields& fields, ModelConfig& config);
base::Status read_token_ids(JsonFields& fields, ModelConfig& config);
// <arch>.rope.scaling.*; type none or linear, anything else Unsupported.
base::Result<RopeScaling> read_rope_scaling(GgufFields& fields);
// "rope_scaling" or an entry of "rope_parameters": type default, linear or llama3. `theta` is set
// if the object holds "rope_theta".
base::Result<RopeScaling> read_rope_scaling(JsonFields& fields, std::optional<double>& theta);
// Keys of config.json that never change what a forward pass computes.
std::span<const std::string_view> harmless_json_keys();
// Keys that exist for features that are not built: any value but the neutral one is Unsupported.
base::Status refuse_unbuilt(JsonFields& fields);
// The rules between numbers: heads divide, D is even, nothing is 0, products within limits.
base::Status check_config(const ModelConfig& config, const std::string& file,
                          const base::Limits& limits);

}  // namespace lockstep::model
