// Loading: map, read, resolve the config, bind the weights, name and hash the result.
#include "model/model.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "base/check.h"
#include "model/arch/arch.h"
#include "model/file.h"
#include "model/gguf.h"
#include "model/json.h"
#include "model/safetensors.h"

namespace lockstep::model {
namespace {

using base::Result;

// general.file_type: llama.cpp's enum llama_ftype.
std::optional<std::string_view> file_type_name(std::uint64_t code) {
  constexpr auto kNames = std::to_array<std::pair<std::uint64_t, std::string_view>>({
      {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
      {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
      {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
      {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
      {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
      {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
      {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},  {39, "NVFP4"},  {40, "Q1_0"},
  });
  for (const auto& [number, text] : kNames) {
    if (number == code) return text;
  }
  return std::nullopt;
}

// The matrices' common dtype, or "mixed".
std::string matrices_type(const TensorTable& tensors) {
  std::optional<DType> common;
  for (const auto& [label, tensor] : tensors.all()) {
    if (tensor.shape.size() < 2) continue;
    if (common && *common != tensor.dtype) return "mixed";
    common = tensor.dtype;
  }
  return common ? std::string(name(*common)) : "empty";
}

std::string last_component(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// "gemma-3-270m Q4_K_M": the file's name without a repetition of its type; general.name where the
// file's name says nothing ("model.gguf").
std::string gguf_display_name(const GgufFile& gguf, const std::string& path) {
  std::string stem = last_component(path);
  if (stem.ends_with(".gguf")) stem.resize(stem.size() - 5);
  std::string type = matrices_type(gguf.tensors);
  if (const GgufEntry* entry = gguf.find("general.file_type")) {
    if (const auto* code = std::get_if<std::uint64_t>(&entry->value)) {
      type = file_type_name(*code).value_or(type);
    }
  }
  if (stem.size() > type.size() + 1) {
    const std::size_t cut = stem.size() - type.size();
    const char before = stem[cut - 1];
    if (equal_ignoring_case(stem.substr(cut), type) && (before == '-' || before == '.')) {
      stem.resize(cut - 1);
    }
  }
  if (const GgufEntry* entry = gguf.find("general.name"); stem == "model" && entry != nullptr) {
    if (const auto* text = std::get_if<std::string_view>(&entry->value)) stem = *text;
  }
  return stem + " " + type;
}

}  // namespace

const TensorInfo* Model::weight(WeightRole role, std::uint32_t layer) const {
  const bool of_model = role == WeightRole::TokenEmbedding || role == WeightRole::FinalNorm ||
                        role == WeightRole::Head;
  const auto found = weights.find({role, of_model ? 0 : layer});
  return found == weights.end() ? nullptr : found->second;
}

Result<Model> load_gguf(std::span<const std::byte> bytes, const std::string& path,
                        const base::Limits& limits, std::shared_ptr<const void> storage) {
  LS_ASSIGN(GgufFile gguf, read_gguf(bytes, path, limits));
  Model model;
  model.path = path;
  LS_ASSIGN(model.config, config_from_gguf(gguf, limits));
  LS_ASSIGN(model.weights, bind_weights(model.config, gguf.tensors, FileFormat::Gguf, path));
  LS_ASSIGN(model.tokenizer, tokenizer_from_gguf(gguf, limits));
  if (model.tokenizer && model.tokenizer->size() != model.config.vocab_size) {
    base::Error error = base::input_error(
        path, std::to_string(model.tokenizer->size()) + " tokens, but token_embd.weight has " +
                  std::to_string(model.config.vocab_size) + " rows");
    error.where = "tokenizer.ggml.tokens";
    return error;
  }
  model.display_name = gguf_display_name(gguf, path);
  model.tensors = std::move(gguf.tensors);  // moving a map leaves its nodes where they are
  model.content_hash = base::hash_bytes(bytes);
  model.storage = std::move(storage);
  return model;
}

Result<Model> load_safetensors(std::span<const std::byte> config_json,
                               std::span<const std::byte> safetensors, const std::string& path,
                               const base::Limits& limits, std::shared_ptr<const void> storage) {
  const std::string config_path = path + "/config.json", data_path = path + "/model.safetensors";
  const std::string_view text(reinterpret_cast<const char*>(config_json.data()),
                              config_json.size());
  LS_ASSIGN(const nlohmann::json document, parse_json(text, config_path, limits));
  Model model;
  model.path = path;
  LS_ASSIGN(model.config, config_from_json(document, config_path, limits));
  LS_ASSIGN(SafetensorsFile file, read_safetensors(safetensors, data_path, limits));
  LS_ASSIGN(model.weights,
            bind_weights(model.config, file.tensors, FileFormat::Safetensors, data_path));
  model.display_name = last_component(path) + " " + matrices_type(file.tensors);
  model.tensors = std::move(file.tensors);
  model.content_hash =
      base::hash_combine(base::hash_bytes(config_json), base::hash_bytes(safetensors));
  model.storage = std::move(storage);
  return model;
}

Result<Model> load(const std::string& path, const base::Limits& limits) {
  struct stat status {};
  const bool is_folder = ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  if (!is_folder) {
    LS_ASSIGN(std::shared_ptr<const MappedFile> file, MappedFile::open(path, limits));
    const std::span<const std::byte> bytes = file->bytes();
    return load_gguf(bytes, path, limits, std::move(file));
  }
  if (struct stat index{}; ::stat((path + "/model.safetensors.index.json").c_str(), &index) == 0) {
    return base::unsupported_error(path, "model.safetensors.index.json",
                                   "weights in several files are not built");
  }
  using Files = std::pair<std::shared_ptr<const MappedFile>, std::shared_ptr<const MappedFile>>;
  auto files = std::make_shared<Files>();
  LS_ASSIGN(files->first, MappedFile::open(path + "/config.json", limits));
  LS_ASSIGN(files->second, MappedFile::open(path + "/model.safetensors", limits));
  const std::span<const std::byte> config = files->first->bytes(), data = files->second->bytes();
  return load_safetensors(config, data, path, limits, std::move(files));
}

}  // namespace lockstep::model
