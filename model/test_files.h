// For tests: writes GGUF and safetensors files in memory, right or deliberately wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/arch/arch.h"
#include "model/gguf.h"
#include "model/tiny.h"

namespace lockstep::model::test_files {

using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  template <class T>
  void number(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  }
  void raw(std::span<const std::byte> from) { bytes.insert(bytes.end(), from.begin(), from.end()); }
  void string(std::string_view text) {
    number(std::uint64_t{text.size()});
    raw(std::as_bytes(std::span(text)));
  }
  void type(GgufType value) { number(static_cast<std::uint32_t>(value)); }
  void pad_to(std::size_t alignment) {
    while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
  }
  Bytes bytes;
};

// Metadata in the order of the calls, then tensors; a wrong file is made by wrong arguments.
class GgufWriter {
 public:
  std::size_t alignment_bytes = 32;
  std::uint32_t version = 3;

  void u32(std::string_view key, std::uint32_t value) { head(key, GgufType::Uint32).number(value); }
  void f32(std::string_view key, float value) { head(key, GgufType::Float32).number(value); }
  void boolean(std::string_view key, bool value) {
    head(key, GgufType::Bool).number(static_cast<std::uint8_t>(value));
  }
  void string(std::string_view key, std::string_view value) {
    head(key, GgufType::String).string(value);
  }
  void strings(std::string_view key, std::span<const std::string> values) {
    ByteWriter& out = array(key, GgufType::String, values.size());
    for (const std::string& value : values) out.string(value);
  }
  template <class T>
  void numbers(std::string_view key, GgufType type, std::span<const T> values) {
    ByteWriter& out = array(key, type, values.size());
    for (const T value : values) out.number(value);
  }
  // For values that the methods above cannot make.
  ByteWriter& head(std::string_view key, GgufType type) {
    ++metadata_count_;
    metadata_.string(key);
    metadata_.type(type);
    return metadata_;
  }
  ByteWriter& array(std::string_view key, GgufType type, std::uint64_t count) {
    ByteWriter& out = head(key, GgufType::Array);
    out.type(type);
    out.number(count);
    return out;
  }
  // `axes`: fastest first, as the format has them.
  void tensor(std::string_view name, std::span<const std::uint64_t> axes, std::uint32_t type,
              std::span<const std::byte> data) {
    data_.pad_to(alignment_bytes);
    tensor_at(name, axes, type, data_.bytes.size());
    data_.raw(data);
  }
  void tensor_at(std::string_view name, std::span<const std::uint64_t> axes, std::uint32_t type,
                 std::uint64_t offset) {
    ++tensor_count_;
    tensors_.string(name);
    tensors_.number(static_cast<std::uint32_t>(axes.size()));
    for (const std::uint64_t axis : axes) tensors_.number(axis);
    tensors_.number(type);
    tensors_.number(offset);
  }
  void data(std::size_t bytes) { data_.bytes.resize(data_.bytes.size() + bytes); }

  Bytes finish() const {
    ByteWriter out;
    out.raw(std::as_bytes(std::span<const char>("GGUF", 4)));
    out.number(version);
    out.number(tensor_count_);
    out.number(metadata_count_);
    out.raw(metadata_.bytes);
    out.raw(tensors_.bytes);
    out.pad_to(alignment_bytes);
    out.raw(data_.bytes);
    return std::move(out.bytes);
  }

 private:
  std::uint64_t tensor_count_ = 0, metadata_count_ = 0;
  ByteWriter metadata_, tensors_, data_;
};

// Sizes that every tiny file of the tests has.
inline TinyOptions small_options(Arch arch, DType dtype) {
  return {.arch = arch,
          .seed = 5,
          .dtype = dtype,
          .layer_count = 1,
          .hidden_size = 32,
          .head_count = 2,
          .kv_head_count = 1,
          .head_size = 16,
          .ffn_size = 32,
          .vocab_size = 64,
          .window = 4};
}

// The metadata keys of the sizes; the caller adds what is the architecture's own.
inline void write_sizes(GgufWriter& writer, const ModelConfig& config) {
  const std::string arch(name(config.arch));
  writer.string("general.architecture", arch);
  writer.u32(arch + ".block_count", config.layer_count);
  writer.u32(arch + ".context_length", config.context_length);
  writer.u32(arch + ".embedding_length", config.hidden_size);
  writer.u32(arch + ".feed_forward_length", config.ffn_size);
  writer.u32(arch + ".attention.head_count", config.head_count);
  writer.u32(arch + ".attention.head_count_kv", config.kv_head_count);
  writer.u32(arch + ".attention.key_length", config.head_size);
  writer.f32(arch + ".attention.layer_norm_rms_epsilon",
             static_cast<float>(config.rms_norm_epsilon));
  writer.f32(arch + ".rope.freq_base", static_cast<float>(config.layers[0].rope_theta));
  if (config.arch == Arch::Gemma3) writer.u32("gemma3.attention.sliding_window", 4);
}

inline void write_tensors(GgufWriter& writer, const TensorTable& tensors) {
  for (const auto& [label, tensor] : tensors.all()) {
    const std::vector<std::uint64_t> axes(tensor.shape.rbegin(), tensor.shape.rend());
    writer.tensor(label, axes, layout(tensor.dtype).gguf_type.value(), tensor.data);
  }
}

// A SentencePiece vocabulary of 64 tokens: characters, four merges, a user-defined token.
inline void write_spm_tokenizer(GgufWriter& writer) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "\xe2\x96\x81", "th",
                                     "the",   "ab",  "abc",          "\n\n"};
  for (char c = '0'; tokens.size() < 64; ++c) tokens.push_back({c});
  std::vector<float> scores(tokens.size(), -10);
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[0] = 2, types[1] = 3, types[7] = 4;
  for (std::size_t i = 3; i < 7; ++i) scores[i] = -static_cast<float>(i);
  writer.string("tokenizer.ggml.model", "llama");
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.numbers("tokenizer.ggml.scores", GgufType::Float32, std::span<const float>(scores));
  writer.numbers("tokenizer.ggml.token_type", GgufType::Int32,
                 std::span<const std::int32_t>(types));
  writer.u32("tokenizer.ggml.bos_token_id", 1);
  writer.u32("tokenizer.ggml.unknown_token_id", 0);
}

// A byte-level vocabulary of 64 tokens that knows only some bytes, with two merges.
inline void write_bpe_tokenizer(GgufWriter& writer) {
  std::vector<std::string> tokens = {"<|endoftext|>", "th", "the", "\xc4\xa0"};
  for (char c = '@'; tokens.size() < 64; ++c) tokens.push_back({c});
  const std::vector<std::int32_t> types(tokens.size(), 1);
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", "smollm");
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.numbers("tokenizer.ggml.token_type", GgufType::Int32,
                 std::span<const std::int32_t>(types));
  const std::vector<std::string> merges = {"t h", "th e"};
  writer.strings("tokenizer.ggml.merges", merges);
}

inline Bytes small_gguf(Arch arch, DType dtype, void (*write_tokenizer)(GgufWriter&)) {
  const Model model = make_tiny(small_options(arch, dtype));
  GgufWriter writer;
  write_sizes(writer, model.config);
  if (write_tokenizer != nullptr) write_tokenizer(writer);
  write_tensors(writer, model.tensors);
  return writer.finish();
}

// A header and data as safetensors has them.
inline Bytes safetensors_bytes(std::string_view header, std::size_t data_bytes) {
  ByteWriter out;
  out.string(header);  // u64 length, then the text: the same layout
  out.bytes.resize(out.bytes.size() + data_bytes);
  return std::move(out.bytes);
}

// The weights of a tiny model as a safetensors file.
inline Bytes small_safetensors(const Model& model) {
  std::string header;
  ByteWriter data;
  for (const WeightSpec& spec : weight_specs(model.config, FileFormat::Safetensors)) {
    const TensorInfo* tensor = model.weight(spec.role, spec.layer);
    LS_CHECK(tensor != nullptr);
    std::string shape;
    for (const std::uint64_t axis : spec.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(axis);
    }
    const std::size_t begin = data.bytes.size();
    data.raw(tensor->data);
    header += (header.empty() ? "{\"" : ",\"") + spec.name + "\":{\"dtype\":\"" +
              std::string(layout(tensor->dtype).safetensors_type.value()) + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(data.bytes.size()) + "]}";
  }
  ByteWriter out;
  out.string(header + "}");
  out.raw(data.bytes);
  return std::move(out.bytes);
}

inline std::string small_config_json(const ModelConfig& config) {
  return R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu",)"
         R"("num_hidden_layers":)" +
         std::to_string(config.layer_count) + R"(,"hidden_size":)" +
         std::to_string(config.hidden_size) + R"(,"num_attention_heads":)" +
         std::to_string(config.head_count) + R"(,"num_key_value_heads":)" +
         std::to_string(config.kv_head_count) + R"(,"head_dim":)" +
         std::to_string(config.head_size) + R"(,"intermediate_size":)" +
         std::to_string(config.ffn_size) + R"(,"vocab_size":)" + std::to_string(config.vocab_size) +
         R"(,"tie_word_embeddings":)" + (config.tied_embeddings ? "true" : "false") +
         R"(,"max_position_embeddings":128,"rms_norm_eps":1e-05,"rope_theta":10000.0})";
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace lockstep::model::test_files
