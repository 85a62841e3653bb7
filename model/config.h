// ModelConfig: what a model file says about its architecture, resolved to plain numbers. Nothing is
// guessed: a value that the file must give and doesn't is an Error of the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::model {

enum class Arch : std::uint8_t { Llama, Gemma3 };
std::string_view name(Arch arch);

// Which elements of a head form a rotated pair: (i, i + D/2), or (2i, 2i + 1).
enum class RopePairing : std::uint8_t { Half, Interleaved };
enum class Activation : std::uint8_t { Silu, GeluTanh };

enum class RopeScalingKind : std::uint8_t { None, Linear, Llama3 };
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::None;
  double factor = 1;
  // Llama3 only
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_context_length = 8192;
};

// Attention of one layer.
struct LayerAttention {
  std::uint32_t window = 0;  // keys seen, the query's own included; 0: all before it
  double rope_theta = 10000;
  RopeScaling rope_scaling;
};

struct ModelConfig {
  Arch arch = Arch::Llama;
  std::uint32_t layer_count = 0;
  std::uint32_t hidden_size = 0;    // H
  std::uint32_t head_count = 0;     // query heads
  std::uint32_t kv_head_count = 0;  // divides head_count
  std::uint32_t head_size = 0;      // D, even
  std::uint32_t ffn_size = 0;
  std::uint32_t vocab_size = 0;  // rows of the embedding
  std::uint32_t context_length = 0;
  // GGUF stores float32: its exact value. config.json: the double that the text denotes.
  double rms_norm_epsilon = 0;
  double attention_scale = 0;  // scores = scale * q.k
  double embedding_scale = 1;  // sqrt(H) for Gemma
  RopePairing rope_pairing = RopePairing::Half;
  Activation activation = Activation::Silu;
  bool qk_norm = false;     // RMSNorm per head on q and k, before RoPE
  bool post_norms = false;  // RMSNorm after attention and after the MLP, before the residual add
  bool norm_weight_plus_one =
      false;                     // norms multiply by (1 + w): config.json Gemma; GGUF holds 1 + w
  bool tied_embeddings = false;  // the head is the embedding
  std::vector<LayerAttention> layers;  // layer_count of them
  std::optional<std::uint32_t> bos_token_id;
  std::vector<std::uint32_t> eos_token_ids;
  // Explicit RoPE frequency divisors [D/2] from the file (rope_freqs.weight), empty if none.
  std::vector<double> rope_frequency_divisors;
};

// Which tensor of a model; layer roles exist once a layer.
enum class WeightRole : std::uint8_t {
  TokenEmbedding,
  FinalNorm,
  Head,
  AttnNorm,
  Query,
  Key,
  Value,
  AttnOutput,
  QueryNorm,
  KeyNorm,
  PostAttnNorm,
  FfnNorm,
  Gate,
  Up,
  Down,
  PostFfnNorm,
};
std::string_view name(WeightRole role);

}  // namespace lockstep::model
