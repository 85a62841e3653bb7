// Llama: RMSNorm, grouped-query attention with RoPE, SwiGLU, no biases.
//
// GGUF (general.architecture "llama"): q and k rows are permuted so that a rotated pair is (2i,
// 2i+1). config.json (LlamaForCausalLM): a rotated pair is (i, i + D/2).
#pragma once

#include <string_view>

#include "base/error.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/json_fields.h"
#include "model/config.h"

namespace lockstep::model {

base::Result<ModelConfig> llama_config(GgufFields& fields);
base::Result<ModelConfig> llama_config(JsonFields& fields);
// Name of a layer's weight after "model.layers.N." and before ".weight" in safetensors.
std::string_view llama_layer_weight_name(WeightRole role);

}  // namespace lockstep::model
