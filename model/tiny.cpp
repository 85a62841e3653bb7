// Seeded tiny models: a config drawn within small ranges, and weights of a size that keeps
// activations near 1. Block formats get random codes and scales, so that every field of a block
// carries information.
#include "model/tiny.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/prng.h"
#include "model/arch/arch.h"

namespace lockstep::model {
namespace {

using base::Prng;

// A binary16 near `value`, cut toward zero: which one does not matter here.
std::uint16_t half_bits(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  LS_CHECK(magnitude < 65504);
  const int exponent = magnitude == 0 ? -15 : std::max(std::ilogb(magnitude), -15);
  if (exponent < -14) {  // subnormal: units of 2^-24
    return static_cast<std::uint16_t>(sign | static_cast<unsigned>(magnitude * 0x1p24));
  }
  const auto mantissa = static_cast<unsigned>(std::ldexp(magnitude, 10 - exponent));  // with bit 10
  return static_cast<std::uint16_t>(sign |
                                    ((static_cast<unsigned>(exponent + 14) << 10) + mantissa));
}

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : prng_(seed) {}

  // `count` numbers of about N(0, rms^2) around `center`.
  std::vector<std::byte> numbers(DType dtype, std::uint64_t count, double rms, double center);

 private:
  template <class T>
  void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof value);
  }
  void put_random(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) put(static_cast<std::uint8_t>(prng_.below(256)));
  }
  // A scale of random sign, within a factor of 1.5 of `size`.
  double scale(double size) {
    const double magnitude = size * (0.75 + 0.5 * prng_.unit());
    return prng_.below(2) == 0 ? magnitude : -magnitude;
  }
  void block(DType dtype, double rms);
  void block_q4_k(double rms);
  void block_q6_k(double rms);

  Prng prng_;
  std::vector<std::byte> out_;
};

// Each block is its fields in the order of ggml-common.h. The divisors are the rms of uniform
// codes.
void Writer::block(DType dtype, double rms) {
  switch (dtype) {
    case DType::Q4_0:  // d (q - 8), q in 0..15
      put(half_bits(scale(rms / 4.6)));
      put_random(16);
      return;
    case DType::Q4_1: {  // d q + m
      const double d = scale(rms / 4.6);
      put(half_bits(d));
      put(half_bits(-d * (6.5 + 2 * prng_.unit())));
      put_random(16);
      return;
    }
    case DType::Q5_0:  // d (q - 16), q in 0..31: high bits, then low nibbles
      put(half_bits(scale(rms / 9.2)));
      put_random(4 + 16);
      return;
    case DType::Q8_0:  // d q, q in -128..127
      put(half_bits(scale(rms / 74)));
      put_random(32);
      return;
    case DType::Q4_K:
      return block_q4_k(rms);
    case DType::Q6_K:
      return block_q6_k(rms);
    default:
      LS_CHECK(false, "make_tiny has no blocks of this type");
  }
}

// d sc q - dmin m, with eight 6-bit pairs (sc, m) in 12 bytes: the minima follow the scales, so
// that the codes' mean of 7.5 is about cancelled.
void Writer::block_q4_k(double rms) {
  const double d = std::fabs(scale(rms / (4.6 * 42)));
  put(half_bits(d));
  put(half_bits(7.5 * d));
  std::array<unsigned, 8> scales{}, minima{};
  for (std::size_t i = 0; i < 8; ++i) {
    scales[i] = static_cast<unsigned>(16 + prng_.below(48));
    const auto shifted = static_cast<int>(scales[i]) + static_cast<int>(prng_.below(7)) - 3;
    minima[i] = static_cast<unsigned>(std::clamp(shifted, 0, 63));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    put(static_cast<std::uint8_t>(scales[i] | (scales[i + 4] >> 4) << 6));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    put(static_cast<std::uint8_t>(minima[i] | (minima[i + 4] >> 4) << 6));
  }
  for (std::size_t i = 4; i < 8; ++i) {
    put(static_cast<std::uint8_t>((scales[i] & 15) | (minima[i] & 15) << 4));
  }
  put_random(128);
}

// d sc (q - 32), q in 0..63: 128 low nibble bytes, 64 bytes of high bits, 16 signed scales, d.
void Writer::block_q6_k(double rms) {
  put_random(128 + 64);
  for (int i = 0; i < 16; ++i) {
    const int magnitude = static_cast<int>(8 + prng_.below(33));
    put(static_cast<std::int8_t>(prng_.below(2) == 0 ? magnitude : -magnitude));
  }
  put(half_bits(scale(rms / (18.5 * 26))));
}

std::vector<std::byte> Writer::numbers(DType dtype, std::uint64_t count, double rms,
                                       double center) {
  out_.clear();
  const DTypeLayout& facts = layout(dtype);
  LS_CHECK(count % facts.block_elements == 0);
  for (std::uint64_t i = 0; i < count / facts.block_elements; ++i) {
    if (facts.block_elements > 1) {
      block(dtype, rms);
      continue;
    }
    const double value = center + rms * prng_.normal();
    if (dtype == DType::F16) {
      put(half_bits(value));
    } else if (dtype == DType::BF16) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
      put(static_cast<std::uint16_t>(bits >> 16));
    } else {
      LS_CHECK(dtype == DType::F32, "make_tiny has no numbers of this type");
      put(static_cast<float>(value));
    }
  }
  return std::move(out_);
}

std::uint32_t draw(Prng& prng, std::uint32_t given, std::uint32_t least, std::uint32_t most,
                   std::uint32_t step = 1) {
  const auto drawn =
      static_cast<std::uint32_t>(least + step * prng.below((most - least) / step + 1));
  return given != 0 ? given : drawn;
}

void draw_heads(const TinyOptions& options, Prng& prng, ModelConfig& config) {
  if (options.head_count != 0 && options.kv_head_count == 0) {
    std::vector<std::uint32_t> divisors;
    for (std::uint32_t i = 1; i <= options.head_count; ++i) {
      if (options.head_count % i == 0) divisors.push_back(i);
    }
    config.kv_head_count = divisors[prng.below(divisors.size())];
    config.head_count = options.head_count;
  } else {
    config.kv_head_count = draw(prng, options.kv_head_count, 1, 3);
    const std::uint32_t group = draw(prng, 0, 1, std::max(1u, 8 / config.kv_head_count));
    config.head_count = options.head_count != 0 ? options.head_count : config.kv_head_count * group;
  }
  LS_CHECK(config.head_count % config.kv_head_count == 0, "heads must divide");
  config.head_size = draw(prng, options.head_size, 16, 64, 16);
  LS_CHECK(config.head_size % 2 == 0, "head size must be even");
}

void draw_llama_layers(Prng& prng, ModelConfig& config) {
  LayerAttention layer;
  layer.rope_theta = prng.below(2) == 0 ? 10000 : 500000;
  switch (prng.below(4)) {
    case 0:
      layer.rope_scaling = {.kind = RopeScalingKind::Linear, .factor = 4};
      break;
    case 1:
      layer.rope_scaling = {.kind = RopeScalingKind::Llama3,
                            .factor = 8,
                            .low_frequency_factor = 1,
                            .high_frequency_factor = 4,
                            .original_context_length = 64};
      break;
    case 2:
      for (std::uint32_t i = 0; i < config.head_size / 2; ++i) {
        config.rope_frequency_divisors.push_back(double{static_cast<float>(1 + 7 * prng.unit())});
      }
      break;
    default:
      break;
  }
  config.layers.assign(config.layer_count, layer);
}

void draw_gemma3_layers(const TinyOptions& options, Prng& prng, ModelConfig& config) {
  LayerAttention local, full;
  local.window = draw(prng, options.window, 4, 16);
  full.rope_theta = 1e6;
  if (prng.below(2) == 0) full.rope_scaling = {.kind = RopeScalingKind::Linear, .factor = 8};
  const auto full_layer = prng.below(config.layer_count);
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const bool is_full = i == full_layer || prng.below(4) == 0;
    config.layers.push_back(is_full ? full : local);
  }
}

ModelConfig draw_config(const TinyOptions& options, Prng& prng) {
  ModelConfig config;
  config.arch = options.arch;
  const std::uint32_t step = std::max(32u, layout(options.dtype).block_elements);
  config.layer_count = draw(prng, options.layer_count, 2, 4);
  config.hidden_size =
      draw(prng, options.hidden_size, std::max(64u, step), std::max(128u, step), step);
  draw_heads(options, prng, config);
  config.ffn_size = draw(prng, options.ffn_size, std::max(64u, step), std::max(192u, step), step);
  config.vocab_size = draw(prng, options.vocab_size, 64, 320);
  config.context_length = 2048;
  config.rms_norm_epsilon = double{prng.below(2) == 0 ? 1e-5f : 1e-6f};
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  config.tied_embeddings = prng.below(2) == 0;
  switch (options.arch) {
    case Arch::Llama:
      config.rope_pairing = prng.below(2) == 0 ? RopePairing::Half : RopePairing::Interleaved;
      config.activation = Activation::Silu;
      draw_llama_layers(prng, config);
      break;
    case Arch::Gemma3:
      config.rope_pairing = RopePairing::Half;
      config.activation = Activation::GeluTanh;
      config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
      config.qk_norm = true;
      config.post_norms = true;
      config.norm_weight_plus_one = prng.below(2) == 0;
      if (prng.below(2) == 0) config.attention_scale = 1 / std::sqrt(24.0);
      draw_gemma3_layers(options, prng, config);
      break;
  }
  return config;
}

// What a matrix times activations near 1 keeps near 1; the embedding's rows are activations.
double weight_rms(const ModelConfig& config, const WeightSpec& spec) {
  const bool is_row = spec.role == WeightRole::TokenEmbedding;
  if (is_row && config.embedding_scale == 1 && !config.tied_embeddings) return 1;
  return 1 / std::sqrt(static_cast<double>(spec.shape.back()));
}

// All that a forward pass depends on beside the weights, for the content hash.
std::string config_text(const ModelConfig& config) {
  std::string text;
  const auto add = [&text](double value) {
    text += std::to_string(std::bit_cast<std::uint64_t>(value)) + " ";
  };
  for (const std::uint32_t value :
       {static_cast<std::uint32_t>(config.arch), config.layer_count, config.hidden_size,
        config.head_count, config.kv_head_count, config.head_size, config.ffn_size,
        config.vocab_size, static_cast<std::uint32_t>(config.rope_pairing),
        static_cast<std::uint32_t>(config.norm_weight_plus_one),
        static_cast<std::uint32_t>(config.tied_embeddings)}) {
    add(value);
  }
  for (const double value :
       {config.rms_norm_epsilon, config.attention_scale, config.embedding_scale}) {
    add(value);
  }
  for (const LayerAttention& layer : config.layers) {
    add(layer.window);
    add(layer.rope_theta);
    add(static_cast<double>(layer.rope_scaling.kind));
    add(layer.rope_scaling.factor);
  }
  for (const double value : config.rope_frequency_divisors) add(value);
  return text;
}

struct MadeTensor {
  TensorInfo info;
  std::vector<std::byte> bytes;
};

std::vector<MadeTensor> make_tensors(const TinyOptions& options, const ModelConfig& config,
                                     Prng& prng) {
  std::vector<MadeTensor> made;
  for (const WeightSpec& spec : weight_specs(config, FileFormat::Gguf)) {
    MadeTensor next;
    next.info.name = spec.name;
    next.info.shape = spec.shape;
    Writer writer(prng.next());
    if (spec.shape.size() == 1) {
      next.info.dtype = DType::F32;
      const double center = config.norm_weight_plus_one ? 0 : 1;
      next.bytes = writer.numbers(DType::F32, spec.shape[0], 0.1, center);
    } else {
      const bool fits = spec.shape[1] % layout(options.dtype).block_elements == 0;
      next.info.dtype = fits ? options.dtype : DType::F32;
      next.bytes = writer.numbers(next.info.dtype, spec.shape[0] * spec.shape[1],
                                  weight_rms(config, spec), 0);
    }
    made.push_back(std::move(next));
  }
  return made;
}

}  // namespace

Model make_tiny(const TinyOptions& options) {
  Prng prng(options.seed);
  Model model;
  const std::string label = std::string(name(options.arch)) + ":" +
                            std::string(name(options.dtype)) + ":" + std::to_string(options.seed);
  model.path = "tiny:" + label;
  model.display_name = model.path;
  model.config = draw_config(options, prng);
  const base::Status valid = check_config(model.config, model.path, {});
  LS_CHECK(valid.ok(), valid.ok() ? "" : valid.error().message());

  constexpr std::size_t kAlignmentBytes = 32;
  std::vector<MadeTensor> made = make_tensors(options, model.config, prng);
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (MadeTensor& tensor : made) {
    bytes->resize((bytes->size() + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes);
    tensor.info.offset_bytes = bytes->size();
    bytes->insert(bytes->end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  for (MadeTensor& tensor : made) {
    tensor.info.data = std::span(*bytes).subspan(tensor.info.offset_bytes, tensor.bytes.size());
    LS_CHECK(model.tensors.insert(std::move(tensor.info)));
  }
  const std::string text = config_text(model.config);
  model.content_hash = base::hash_combine(base::hash_bytes(std::as_bytes(std::span(text))),
                                          base::hash_bytes(*bytes));
  model.storage = std::move(bytes);
  ModelConfig without_divisors = model.config;
  without_divisors.rope_frequency_divisors.clear();
  auto weights = bind_weights(without_divisors, model.tensors, FileFormat::Gguf, model.path);
  model.weights = std::move(weights).value();
  return model;
}

}  // namespace lockstep::model
