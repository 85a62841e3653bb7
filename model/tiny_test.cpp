// Tiny models: the same bits for a seed, all variants within a few seeds, finite blocks.
#include "model/tiny.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace lockstep::model {
namespace {

constexpr std::array kDTypes = {DType::F32,  DType::F16,  DType::BF16, DType::Q4_0, DType::Q4_1,
                                DType::Q5_0, DType::Q8_0, DType::Q4_K, DType::Q6_K};

TEST(Tiny, SameOptionsSameBits) {
  for (const DType dtype : kDTypes) {
    const TinyOptions options{.arch = Arch::Gemma3, .seed = 9, .dtype = dtype};
    const Model a = make_tiny(options), b = make_tiny(options);
    EXPECT_EQ(a.content_hash, b.content_hash);
    TinyOptions other = options;
    other.seed = 10;
    EXPECT_NE(a.content_hash, make_tiny(other).content_hash);
    for (const auto& [label, tensor] : a.tensors.all()) {
      const TensorInfo* twin = b.tensors.find(label);
      ASSERT_NE(twin, nullptr);
      EXPECT_TRUE(
          std::equal(tensor.data.begin(), tensor.data.end(), twin->data.begin(), twin->data.end()));
    }
  }
}

TEST(Tiny, GivenSizesAreKept) {
  const Model model = make_tiny({.arch = Arch::Gemma3,
                                 .seed = 3,
                                 .dtype = DType::Q8_0,
                                 .layer_count = 5,
                                 .hidden_size = 96,
                                 .head_count = 6,
                                 .kv_head_count = 3,
                                 .head_size = 32,
                                 .ffn_size = 160,
                                 .vocab_size = 77,
                                 .window = 7});
  const ModelConfig& config = model.config;
  EXPECT_EQ(config.layer_count, 5u);
  EXPECT_EQ(config.hidden_size, 96u);
  EXPECT_EQ(config.head_count, 6u);
  EXPECT_EQ(config.kv_head_count, 3u);
  EXPECT_EQ(config.head_size, 32u);
  EXPECT_EQ(config.ffn_size, 160u);
  EXPECT_EQ(config.vocab_size, 77u);
  EXPECT_EQ(model.weight(WeightRole::Down, 4)->shape, (std::vector<std::uint64_t>{96, 160}));
  EXPECT_EQ(model.weight(WeightRole::Key, 0)->shape, (std::vector<std::uint64_t>{96, 96}));
  for (const LayerAttention& layer : config.layers) {
    EXPECT_TRUE(layer.window == 0 || layer.window == 7);
  }
}

TEST(Tiny, EverySeedGivesAWholeModelOfTheAskedType) {
  for (const Arch arch : {Arch::Llama, Arch::Gemma3}) {
    for (const DType dtype : kDTypes) {
      for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const Model model = make_tiny({.arch = arch, .seed = seed, .dtype = dtype});
        EXPECT_GE(model.config.vocab_size, 64u);
        EXPECT_LE(model.config.vocab_size, 320u);
        EXPECT_EQ(model.weight(WeightRole::Gate, 0)->dtype, dtype);
        EXPECT_EQ(model.weight(WeightRole::FinalNorm)->dtype, DType::F32);
        EXPECT_EQ(model.weight(WeightRole::Head) == nullptr, model.config.tied_embeddings);
        EXPECT_EQ(model.weight(WeightRole::QueryNorm, 0) != nullptr, arch == Arch::Gemma3);
      }
    }
  }
}

// Seeds reach both values of each choice that a kernel can get wrong.
TEST(Tiny, SeedsReachEveryVariant) {
  std::array<int, 2> pairing{}, tied{}, plus_one{}, scale{}, window{}, divisors{}, grouped{};
  std::array<int, 3> scaling{};
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    TinyOptions options{.seed = seed, .hidden_size = 32, .ffn_size = 32, .vocab_size = 64};
    const Model llama = make_tiny(options);
    options.arch = Arch::Gemma3;
    const Model gemma = make_tiny(options);
    ++pairing[llama.config.rope_pairing == RopePairing::Half ? 0 : 1];
    ++tied[llama.config.tied_embeddings ? 1 : 0];
    ++divisors[llama.config.rope_frequency_divisors.empty() ? 0 : 1];
    ++grouped[llama.config.head_count == llama.config.kv_head_count ? 0 : 1];
    ++scaling[static_cast<std::size_t>(llama.config.layers[0].rope_scaling.kind)];
    ++plus_one[gemma.config.norm_weight_plus_one ? 1 : 0];
    ++scale[gemma.config.attention_scale == 1 / std::sqrt(24.0) ? 1 : 0];
    for (const LayerAttention& layer : gemma.config.layers) ++window[layer.window == 0 ? 0 : 1];
  }
  for (const auto& counts : {pairing, tied, plus_one, scale, window, divisors, grouped}) {
    EXPECT_GT(counts[0], 0);
    EXPECT_GT(counts[1], 0);
  }
  for (const int count : scaling) EXPECT_GT(count, 0);
}

// Block scales are binary16 numbers at known places: none is infinite or NaN.
TEST(Tiny, BlockScalesAreFinite) {
  struct Place {
    DType dtype;
    std::vector<std::size_t> offsets;
  };
  for (const Place& place :
       {Place{DType::Q4_0, {0}}, Place{DType::Q4_1, {0, 2}}, Place{DType::Q5_0, {0}},
        Place{DType::Q8_0, {0}}, Place{DType::Q4_K, {0, 2}}, Place{DType::Q6_K, {208}}}) {
    const Model model = make_tiny({.seed = 2, .dtype = place.dtype});
    const TensorInfo& gate = *model.weight(WeightRole::Gate, 0);
    const std::size_t block_bytes = layout(place.dtype).block_bytes;
    for (std::size_t at = 0; at < gate.data.size(); at += block_bytes) {
      for (const std::size_t offset : place.offsets) {
        std::uint16_t half = 0;
        std::memcpy(&half, gate.data.data() + at + offset, sizeof half);
        EXPECT_NE(half & 0x7c00, 0x7c00);
        EXPECT_NE(half & 0x7fff, 0);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::model
