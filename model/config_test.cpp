// What the two kinds of files say, resolved; and every way in which they say too little, too much
// or something that is not built.
#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/file.h"
#include "model/json.h"
#include "model/model.h"
#include "model/test_files.h"

namespace lockstep::model {
namespace {

using nlohmann::json;
using test_files::Bytes;
using test_files::GgufWriter;
using testing::HasSubstr;

const std::string kGolden = LOCKSTEP_GOLDEN_DIR;

ModelConfig golden_config(const std::string& path) {
  auto model = load(kGolden + path);
  EXPECT_TRUE(model.ok()) << model.error().message();
  return model->config;
}

TEST(Config, LlamaFromConfigJson) {
  const ModelConfig config = golden_config("/tiny_models/llama");
  EXPECT_EQ(config.arch, Arch::Llama);
  EXPECT_EQ(config.layer_count, 3u);
  EXPECT_EQ(config.hidden_size, 64u);
  EXPECT_EQ(config.head_count, 4u);
  EXPECT_EQ(config.kv_head_count, 2u);
  EXPECT_EQ(config.head_size, 16u);
  EXPECT_EQ(config.ffn_size, 112u);
  EXPECT_EQ(config.vocab_size, 256u);
  EXPECT_EQ(config.context_length, 256u);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-5);
  EXPECT_EQ(config.attention_scale, 0.25);
  EXPECT_EQ(config.embedding_scale, 1);
  EXPECT_EQ(config.rope_pairing, RopePairing::Half);
  EXPECT_EQ(config.activation, Activation::Silu);
  EXPECT_FALSE(config.qk_norm || config.post_norms || config.norm_weight_plus_one);
  EXPECT_FALSE(config.tied_embeddings);
  ASSERT_EQ(config.layers.size(), 3u);
  for (const LayerAttention& layer : config.layers) {
    EXPECT_EQ(layer.window, 0u);
    EXPECT_EQ(layer.rope_theta, 500000);
    EXPECT_EQ(layer.rope_scaling.kind, RopeScalingKind::Llama3);
    EXPECT_EQ(layer.rope_scaling.factor, 8);
    EXPECT_EQ(layer.rope_scaling.low_frequency_factor, 1);
    EXPECT_EQ(layer.rope_scaling.high_frequency_factor, 4);
    EXPECT_EQ(layer.rope_scaling.original_context_length, 64);
  }
}

TEST(Config, Gemma3FromConfigJson) {
  const ModelConfig config = golden_config("/tiny_models/gemma3_text");
  EXPECT_EQ(config.arch, Arch::Gemma3);
  EXPECT_EQ(config.attention_scale, 1 / std::sqrt(24.0));
  EXPECT_EQ(config.embedding_scale, 8);
  EXPECT_EQ(config.rms_norm_epsilon, 1e-6);
  EXPECT_EQ(config.activation, Activation::GeluTanh);
  EXPECT_TRUE(config.qk_norm && config.post_norms && config.norm_weight_plus_one);
  EXPECT_TRUE(config.tied_embeddings);
  ASSERT_EQ(config.layers.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const LayerAttention& layer = config.layers[i];
    const bool full = i == 2;
    EXPECT_EQ(layer.window, full ? 0u : 8u);
    EXPECT_EQ(layer.rope_theta, full ? 1e6 : 1e4);
    EXPECT_EQ(layer.rope_scaling.kind, full ? RopeScalingKind::Linear : RopeScalingKind::None);
    EXPECT_EQ(layer.rope_scaling.factor, full ? 8 : 1);
  }
}

TEST(Config, LlamaFromGguf) {
  const ModelConfig config = golden_config("/tiny_gguf/llama_kquants/model.gguf");
  EXPECT_EQ(config.rope_pairing, RopePairing::Interleaved);
  EXPECT_EQ(config.head_size, 64u);
  EXPECT_EQ(config.attention_scale, 0.125);
  EXPECT_EQ(config.rms_norm_epsilon, double{1e-5f});
  EXPECT_EQ(config.layers.at(1).rope_theta, 500000);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.bos_token_id, 1u);
  EXPECT_EQ(config.eos_token_ids, std::vector<std::uint32_t>{2});
}

TEST(Config, Gemma3FromGguf) {
  const ModelConfig config = golden_config("/tiny_gguf/gemma3_legacy/model.gguf");
  EXPECT_EQ(config.rope_pairing, RopePairing::Half);
  EXPECT_EQ(config.attention_scale, 0.125);
  EXPECT_EQ(config.embedding_scale, 16);
  EXPECT_FALSE(config.norm_weight_plus_one);
  EXPECT_TRUE(config.tied_embeddings);
  ASSERT_EQ(config.layers.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(config.layers[i].window, i == 5 ? 0u : 16u);
    EXPECT_EQ(config.layers[i].rope_theta, i == 5 ? 1e6 : 1e4);
  }
}

// A tiny GGUF whose metadata and tensors a test may change; what loading it says.
base::Result<Model> load_changed(Arch arch, const std::function<void(GgufWriter&)>& add,
                                 const std::function<void(ModelConfig&)>& change = nullptr,
                                 const char* left_out = "") {
  const Model model = make_tiny(test_files::small_options(arch, DType::F32));
  ModelConfig config = model.config;
  if (change) change(config);
  GgufWriter writer;
  test_files::write_sizes(writer, config);
  TensorTable tensors;
  for (const auto& [label, tensor] : model.tensors.all()) {
    if (label != left_out) tensors.insert(tensor);
  }
  test_files::write_tensors(writer, tensors);
  if (add) add(writer);
  auto bytes = std::make_shared<Bytes>(writer.finish());
  return load_gguf(*bytes, "a.gguf", {}, bytes);
}

void expect_error(const base::Result<Model>& model, base::ErrorKind kind, const char* text) {
  ASSERT_FALSE(model.ok()) << text;
  EXPECT_EQ(model.error().kind, kind) << model.error().message();
  EXPECT_THAT(model.error().message(), HasSubstr(text));
}
constexpr auto kInput = base::ErrorKind::Input;
constexpr auto kUnsupported = base::ErrorKind::Unsupported;

TEST(Config, GgufWithoutExtrasLoads) {
  for (const Arch arch : {Arch::Llama, Arch::Gemma3}) {
    const auto model = load_changed(arch, nullptr);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_EQ(model->tokenizer, nullptr);
    EXPECT_EQ(model->config.eos_token_ids.size(), 0u);
  }
}

TEST(Config, GgufFeaturesThatAreNotBuiltAreRefusedByName) {
  const auto refuses = [](Arch arch, const char* text,
                          const std::function<void(GgufWriter&)>& add) {
    expect_error(load_changed(arch, add), kUnsupported, text);
  };
  const auto u32 = [](const char* key, std::uint32_t value) {
    return [=](GgufWriter& w) { w.u32(key, value); };
  };
  const auto f32 = [](const char* key, float value) {
    return [=](GgufWriter& w) { w.f32(key, value); };
  };
  refuses(Arch::Llama, "llama.expert_count: this feature", u32("llama.expert_count", 8));
  refuses(Arch::Llama, "llama.attention.value_length", u32("llama.attention.value_length", 8));
  refuses(Arch::Llama, "llama.rope.dimension_count", u32("llama.rope.dimension_count", 8));
  refuses(Arch::Llama, "llama.logit_scale: no meaning", f32("llama.logit_scale", 2));
  refuses(Arch::Llama, "llama.attention.scale: no meaning", f32("llama.attention.scale", 2));
  refuses(Arch::Llama, "llama.attention.sliding_window", u32("llama.attention.sliding_window", 2));
  refuses(Arch::Llama, "split.count: no meaning", u32("split.count", 2));
  refuses(Arch::Llama, "llama.rope.scaling.type: \"yarn\"",
          [](GgufWriter& w) { w.string("llama.rope.scaling.type", "yarn"); });
  refuses(Arch::Llama, "llama.rope.scaling.factor", f32("llama.rope.scaling.factor", 2));
  refuses(Arch::Gemma3, "gemma3.final_logit_softcapping",
          f32("gemma3.final_logit_softcapping", 30));
  refuses(Arch::Gemma3, "gemma3.attention.sliding_window_pattern", [](GgufWriter& w) {
    const std::vector<std::uint8_t> layers = {1};
    w.numbers("gemma3.attention.sliding_window_pattern", GgufType::Bool,
              std::span<const std::uint8_t>(layers));
  });
  refuses(Arch::Llama, "tokenizer.ggml.model: \"bert\"",
          [](GgufWriter& w) { w.string("tokenizer.ggml.model", "bert"); });
}

TEST(Config, GgufValuesThatCannotBeAreRefused) {
  const auto refuses = [](const char* text, const std::function<void(ModelConfig&)>& change) {
    expect_error(load_changed(Arch::Llama, nullptr, change), kInput, text);
  };
  refuses("llama.block_count", [](ModelConfig& c) { c.layer_count = 4097; });
  refuses("layer count", [](ModelConfig& c) { c.layer_count = 0; });
  refuses("head size: RoPE pairs elements", [](ModelConfig& c) { c.head_size = 15; });
  refuses("head count: must be a multiple", [](ModelConfig& c) { c.kv_head_count = 0; });
  refuses("head count: must be a multiple", [](ModelConfig& c) { c.kv_head_count = 3; });
  refuses("must have the shape [128, 32], found [32, 32]",
          [](ModelConfig& c) { c.head_count = 8; });
  refuses("tensor blk.0.ffn_gate.weight: must have the shape [64, 32]",
          [](ModelConfig& c) { c.ffn_size = 64; });
  refuses("layer_norm_rms_epsilon: must be a finite",
          [](ModelConfig& c) { c.rms_norm_epsilon = 0; });
  refuses("rope.freq_base: must be a finite", [](ModelConfig& c) { c.layers[0].rope_theta = -1; });
  refuses("tensor blk.1.attn_norm.weight: this tensor is missing",
          [](ModelConfig& c) { c.layer_count = 2; });
}

TEST(Config, MissingUnusedAndMisshapenTensorsAreNamed) {
  expect_error(load_changed(Arch::Llama, nullptr, nullptr, "blk.0.ffn_up.weight"), kInput,
               "tensor blk.0.ffn_up.weight: this tensor is missing");
  expect_error(load_changed(Arch::Llama, nullptr, nullptr, "token_embd.weight"), kInput,
               "tensor token_embd.weight: this tensor is missing");
  const std::vector<std::uint64_t> axes = {32};
  expect_error(
      load_changed(Arch::Llama,
                   [&](GgufWriter& w) { w.tensor("blk.0.attn_q.bias", axes, 0, Bytes(128)); }),
      kUnsupported, "tensor blk.0.attn_q.bias: no part of the llama architecture uses");
  expect_error(
      load_changed(
          Arch::Llama, [&](GgufWriter& w) { w.tensor("output_norm.weight", axes, 8, Bytes(34)); },
          nullptr, "output_norm.weight"),
      kInput, "tensor output_norm.weight: a norm must have a plain number format");
  expect_error(
      load_changed(
          Arch::Llama, [&](GgufWriter& w) { w.tensor("output_norm.weight", axes, 26, Bytes(128)); },
          nullptr, "output_norm.weight"),
      kUnsupported, "tensor output_norm.weight: weights of type I32");
}

TEST(Config, RopeFrequenciesAreDivisors) {
  const auto with_frequencies = [](std::vector<float> values) {
    return load_changed(Arch::Llama, [&](GgufWriter& w) {
      const std::vector<std::uint64_t> axes = {values.size()};
      w.tensor("rope_freqs.weight", axes, 0, std::as_bytes(std::span(values)));
    });
  };
  const auto model = with_frequencies({1, 1, 1, 1, 2, 4, 8, 8.5});
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->config.rope_frequency_divisors, (std::vector<double>{1, 1, 1, 1, 2, 4, 8, 8.5}));
  expect_error(with_frequencies({1, 1}), kInput, "tensor rope_freqs.weight: must be F32 [8]");
  expect_error(with_frequencies({1, 1, 1, 0, 1, 1, 1, 1}), kInput, "finite numbers above 0");
}

TEST(Config, LinearScalingOfAGgufReachesFullLayersOnly) {
  const auto model = load_changed(Arch::Gemma3, [](GgufWriter& w) {
    w.string("gemma3.rope.scaling.type", "linear");
    w.f32("gemma3.rope.scaling.factor", 8);
    w.u32("gemma3.attention.sliding_window_pattern", 1);
  });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->config.layers[0].window, 0u);
  EXPECT_EQ(model->config.layers[0].rope_scaling.factor, 8);
  const auto sliding = load_changed(Arch::Gemma3, [](GgufWriter& w) {
    w.string("gemma3.rope.scaling.type", "linear");
    w.f32("gemma3.rope.scaling.factor", 8);
  });
  ASSERT_TRUE(sliding.ok());
  EXPECT_EQ(sliding->config.layers[0].window, 4u);
  EXPECT_EQ(sliding->config.layers[0].rope_scaling.kind, RopeScalingKind::None);
}

// config.json of a golden model after a change, with its weights.
base::Result<Model> load_json_changed(const std::string& folder,
                                      const std::function<void(json&)>& change) {
  std::shared_ptr<const MappedFile> config, data;
  config = MappedFile::open(kGolden + folder + "/config.json", {}).value();
  data = MappedFile::open(kGolden + folder + "/model.safetensors", {}).value();
  json document =
      json::parse(reinterpret_cast<const char*>(config->bytes().data()),
                  reinterpret_cast<const char*>(config->bytes().data()) + config->bytes().size());
  change(document);
  const std::string text = document.dump();
  return load_safetensors(test_files::as_bytes(text), data->bytes(), "folder", {}, data);
}

TEST(Config, JsonFeaturesThatAreNotBuiltAreRefusedByName) {
  const auto refuses = [](const char* key, const json& value, const char* folder) {
    const std::string text = "folder/config.json: /" + std::string(key) + ": ";
    expect_error(load_json_changed(folder, [&](json& d) { d[key] = value; }), kUnsupported,
                 text.c_str());
  };
  for (const char* folder : {"/tiny_models/llama", "/tiny_models/gemma3_text"}) {
    refuses("attention_bias", true, folder);
    refuses("attn_logit_softcapping", 50.0, folder);
    refuses("final_logit_softcapping", 30.0, folder);
    refuses("quantization_config", json::object(), folder);
    refuses("partial_rotary_factor", 0.5, folder);
    refuses("use_bidirectional_attention", true, folder);
    refuses("model_type", "qwen2", folder);
    refuses("logits_scaling", 1, folder);
    refuses("architectures", {"Qwen2ForCausalLM"}, folder);
  }
  refuses("mlp_bias", true, "/tiny_models/llama");
  refuses("hidden_act", "gelu", "/tiny_models/llama");
  refuses("sliding_window", 4, "/tiny_models/llama");
  refuses("hidden_activation", "silu", "/tiny_models/gemma3_text");
  refuses("rope_theta", 10000.0, "/tiny_models/gemma3_text");  // beside rope_parameters
}

TEST(Config, JsonValuesThatCannotBeAreRefused) {
  const auto refuses = [](const char* folder, const char* text,
                          const std::function<void(json&)>& change) {
    expect_error(load_json_changed(folder, change), kInput, text);
  };
  const char* llama = "/tiny_models/llama";
  const char* gemma = "/tiny_models/gemma3_text";
  refuses(llama, "/rms_norm_eps: this key is required", [](json& d) { d.erase("rms_norm_eps"); });
  refuses(llama, "/hidden_size: must be an integer", [](json& d) { d["hidden_size"] = -1; });
  refuses(llama, "/hidden_size: must be an integer", [](json& d) { d["hidden_size"] = 64.5; });
  refuses(llama, "/rope_scaling/factor", [](json& d) { d["rope_scaling"].erase("factor"); });
  refuses(llama, "/rope_scaling/rope_type", [](json& d) { d["rope_scaling"].erase("rope_type"); });
  refuses(llama, "/rope_scaling/type", [](json& d) { d["rope_scaling"]["type"] = "linear"; });
  refuses(llama, "eos token id", [](json& d) { d["eos_token_id"] = {3, 256}; });
  refuses(llama, "/architectures", [](json& d) { d.erase("architectures"); });
  refuses(gemma, "/query_pre_attn_scalar", [](json& d) { d.erase("query_pre_attn_scalar"); });
  refuses(gemma, "/sliding_window", [](json& d) { d["sliding_window"] = nullptr; });
  refuses(gemma, "/layer_types", [](json& d) { d["layer_types"].erase(0); });
  refuses(gemma, "/rope_parameters/full_attention",
          [](json& d) { d["rope_parameters"].erase("full_attention"); });
}

TEST(Config, JsonRopeTypesThatAreNotBuiltAreRefused) {
  expect_error(load_json_changed("/tiny_models/llama",
                                 [](json& d) { d["rope_scaling"]["rope_type"] = "yarn"; }),
               kUnsupported, "/rope_scaling/rope_type: \"yarn\" is not built");
  expect_error(load_json_changed("/tiny_models/llama",
                                 [](json& d) { d["rope_scaling"]["attention_factor"] = 1.5; }),
               kUnsupported, "/rope_scaling/attention_factor");
  expect_error(load_json_changed("/tiny_models/gemma3_text",
                                 [](json& d) { d["layer_types"][1] = "chunked_attention"; }),
               kUnsupported, "/layer_types/1");
}

void expect_same_attention(const ModelConfig& a, const ModelConfig& b) {
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].window, b.layers[i].window);
    EXPECT_EQ(a.layers[i].rope_theta, b.layers[i].rope_theta);
    EXPECT_EQ(a.layers[i].rope_scaling.kind, b.layers[i].rope_scaling.kind);
    EXPECT_EQ(a.layers[i].rope_scaling.factor, b.layers[i].rope_scaling.factor);
    EXPECT_EQ(a.layers[i].rope_scaling.original_context_length,
              b.layers[i].rope_scaling.original_context_length);
  }
}

TEST(Config, OldAndNewRopeKeysMeanTheSame) {
  const auto llama = load_json_changed("/tiny_models/llama", [](json& d) {
    d["rope_parameters"] = d["rope_scaling"];
    d["rope_parameters"]["rope_theta"] = d["rope_theta"];
    d.erase("rope_scaling");
    d.erase("rope_theta");
  });
  ASSERT_TRUE(llama.ok()) << llama.error().message();
  expect_same_attention(llama->config, golden_config("/tiny_models/llama"));
  const auto gemma = load_json_changed("/tiny_models/gemma3_text", [](json& d) {
    d.erase("rope_parameters");
    d["rope_theta"] = 1e6;
    d["rope_local_base_freq"] = 1e4;
    d["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  });
  ASSERT_TRUE(gemma.ok()) << gemma.error().message();
  expect_same_attention(gemma->config, golden_config("/tiny_models/gemma3_text"));
}

TEST(Config, APeriodStandsInForLayerTypes) {
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const auto model = load_json_changed("/tiny_models/gemma3_text", [&](json& d) {
      d.erase("layer_types");
      d.erase("_sliding_window_pattern");
      d[key] = 3;
    });
    ASSERT_TRUE(model.ok()) << model.error().message();
    expect_same_attention(model->config, golden_config("/tiny_models/gemma3_text"));
  }
}

TEST(Config, HarmlessKeysAndListsOfEndTokensAreRead) {
  const auto model = load_json_changed("/tiny_models/llama", [](json& d) {
    d["transformers_version"] = "5.0";
    d["torch_dtype"] = "bfloat16";
    d["eos_token_id"] = {7, 9};
    d["bos_token_id"] = 5;
  });
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->config.eos_token_ids, (std::vector<std::uint32_t>{7, 9}));
  EXPECT_EQ(model->config.bos_token_id, 5u);
}

}  // namespace
}  // namespace lockstep::model
