// Model: one model file (GGUF) or folder (config.json + model.safetensors), read and validated.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "model/config.h"
#include "model/tensor_table.h"
#include "model/tokenizer.h"

namespace lockstep::model {

struct Model {
  std::string path;
  std::string display_name;  // "gemma-3-270m Q4_K_M"
  ModelConfig config;
  TensorTable tensors;
  // Points into `tensors`; layer 0 for model-wide roles.
  std::map<std::pair<WeightRole, std::uint32_t>, const TensorInfo*> weights;
  std::unique_ptr<Tokenizer> tokenizer;  // null where the file has none
  base::Hash128 content_hash;            // of config and tensors: file bytes
  std::shared_ptr<const void> storage;   // keeps the mapping (or a made model's bytes) alive

  // The tensor of a role, checked for shape at load. `layer` is ignored for model-wide roles.
  // Null where this architecture (or this file: tied head) has none.
  const TensorInfo* weight(WeightRole role, std::uint32_t layer = 0) const;
};

// `path`: a .gguf file, or a folder with config.json and model.safetensors. An unknown
// architecture, a missing, misshapen or unused tensor, or a feature that is not implemented is an
// Error that names it.
base::Result<Model> load(const std::string& path, const base::Limits& limits = {});

// The same from bytes in memory, which must outlive the model (or be owned by `storage`). `path`
// names the input in messages.
base::Result<Model> load_gguf(std::span<const std::byte> bytes, const std::string& path,
                              const base::Limits& limits = {},
                              std::shared_ptr<const void> storage = {});
base::Result<Model> load_safetensors(std::span<const std::byte> config_json,
                                     std::span<const std::byte> safetensors,
                                     const std::string& path, const base::Limits& limits = {},
                                     std::shared_ptr<const void> storage = {});

}  // namespace lockstep::model
