// Gemma 3 (text): RMSNorm before and after each block, QK-norm, GeGLU, embeddings times sqrt(H),
// sliding-window layers with their own RoPE base, tied head.
//
// Fixed in the architecture and not in a GGUF (llama.cpp, src/models/gemma3): every 6th layer sees
// all keys, the window's layers rotate with base 10000 and without scaling, and queries are scaled
// by 1/sqrt(D) -- but by 1/sqrt(H / heads) in the 27B model, which is the one with 62 layers.
// A GGUF's norm weights hold 1 + w; config.json models multiply by (1 + w).
#pragma once

#include <string_view>

#include "base/error.h"
#include "model/arch/gguf_fields.h"
#include "model/arch/json_fields.h"
#include "model/config.h"

namespace lockstep::model {

base::Result<ModelConfig> gemma3_config(GgufFields& fields);
base::Result<ModelConfig> gemma3_config(JsonFields& fields);
// Name of a layer's weight after "model.layers.N." and before ".weight" in safetensors.
std::string_view gemma3_layer_weight_name(WeightRole role);

}  // namespace lockstep::model
