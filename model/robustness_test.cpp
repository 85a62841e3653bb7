// Damaged files: an Error or a valid model, never a crash, a hang or a large allocation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "model/model.h"
#include "model/test_files.h"

namespace {

// The largest single allocation of this thread since the last reset.
thread_local std::size_t largest_allocation = 0;

}  // namespace

// Not inlined: compilers would pair the inlined halves of new and delete, and warn.
__attribute__((noinline)) void* operator new(std::size_t size) {
  largest_allocation = std::max(largest_allocation, size);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  largest_allocation = std::max(largest_allocation, size);
  return std::malloc(size == 0 ? 1 : size);
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace lockstep::model {
namespace {

using test_files::Bytes;

// Reads all that a valid model offers, so that a wrong size inside it shows.
void use(const Model& model) {
  unsigned sum = 0;
  for (const auto& [label, tensor] : model.tensors.all()) {
    for (std::uint64_t row = 0; row < tensor.rows(); ++row) {
      const auto bytes = tensor.row(row);
      if (!bytes.empty())
        sum += static_cast<unsigned>(bytes.front()) + static_cast<unsigned>(bytes.back());
    }
  }
  for (std::uint32_t layer = 0; layer < model.config.layer_count; ++layer) {
    ASSERT_NE(model.weight(WeightRole::Query, layer), nullptr);
  }
  ASSERT_EQ(model.config.layers.size(), model.config.layer_count);
  if (model.tokenizer) {
    for (TokenId token = 0; token < model.tokenizer->size(); ++token) {
      sum += static_cast<unsigned>(model.tokenizer->piece(token).size());
    }
    for (const TokenId token : model.tokenizer->encode("the abc\n\n\n 12 \xe2\x96 it's")) {
      ASSERT_LT(token, model.tokenizer->size());
    }
  }
  EXPECT_LT(sum, ~0u);
}

// A loader keeps a few words beside each byte of the file, and one record a layer; a vector that
// grows takes twice its size.
std::size_t allocation_bound(std::size_t file_bytes) {
  return 16 * file_bytes + 2 * base::Limits{}.layer_count * sizeof(LayerAttention);
}

template <class Load>
void expect_survives(std::size_t file_bytes, const std::string& what, Load load_file) {
  largest_allocation = 0;
  const base::Result<Model> model = load_file();
  ASSERT_LE(largest_allocation, allocation_bound(file_bytes)) << what;
  if (model.ok()) {
    use(*model);
  } else {
    ASSERT_FALSE(model.error().rule.empty()) << what;
    ASSERT_FALSE(model.error().file.empty()) << what;
  }
}

// Each prefix of `bytes`, and `bytes` with each bit flipped: all 8 bits of a byte before
// `header_bytes`, one (which the place decides) of those behind.
template <class Load>
void expect_damage_survived(const Bytes& bytes, std::size_t header_bytes, Load load_bytes) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Bytes prefix(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    expect_survives(bytes.size(), "truncated to " + std::to_string(size),
                    [&] { return load_bytes(prefix); });
    if (testing::Test::HasFatalFailure()) return;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if (at >= header_bytes && bit != at % 8) continue;
      Bytes flipped = bytes;
      flipped[at] ^= static_cast<std::byte>(1u << bit);
      expect_survives(bytes.size(), "bit " + std::to_string(bit) + " of byte " + std::to_string(at),
                      [&] { return load_bytes(flipped); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void expect_gguf_damage_survived(const Bytes& bytes) {
  ASSERT_LE(bytes.size(), 65536u);
  const auto load_bytes = [](const Bytes& damaged) { return load_gguf(damaged, "a.gguf"); };
  const auto intact = load_bytes(bytes);
  ASSERT_TRUE(intact.ok()) << intact.error().message();
  std::uint64_t header = bytes.size();
  for (const auto& [label, tensor] : intact->tensors.all()) {
    header = std::min(header, tensor.offset_bytes);
  }
  expect_damage_survived(bytes, header, load_bytes);
}

TEST(Robustness, DamagedLlamaGgufWithSpmTokenizer) {
  expect_gguf_damage_survived(
      test_files::small_gguf(Arch::Llama, DType::Q4_0, test_files::write_spm_tokenizer));
}

TEST(Robustness, DamagedGemma3GgufWithBpeTokenizer) {
  expect_gguf_damage_survived(
      test_files::small_gguf(Arch::Gemma3, DType::Q8_0, test_files::write_bpe_tokenizer));
}

TEST(Robustness, DamagedSafetensorsAndConfig) {
  TinyOptions options = test_files::small_options(Arch::Llama, DType::BF16);
  options.hidden_size = options.ffn_size = options.vocab_size = 16;
  options.head_size = 8;
  const Model model = make_tiny(options);
  const Bytes data = test_files::small_safetensors(model);
  const std::string text = test_files::small_config_json(model.config);
  const auto config_span = test_files::as_bytes(text);
  const Bytes config(config_span.begin(), config_span.end());
  const auto intact = load_safetensors(config, data, "folder");
  ASSERT_TRUE(intact.ok()) << intact.error().message();
  ASSERT_LE(data.size(), 65536u);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data.data(), sizeof header_bytes);
  expect_damage_survived(data, 8 + header_bytes, [&](const Bytes& damaged) {
    return load_safetensors(config, damaged, "folder");
  });
  expect_damage_survived(config, config.size(), [&](const Bytes& damaged) {
    return load_safetensors(damaged, data, "folder");
  });
}

TEST(Robustness, NoPrefixOfAValidFileIsValid) {
  const Bytes bytes = test_files::small_gguf(Arch::Llama, DType::F32, nullptr);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(load_gguf(std::span(bytes).first(size), "a.gguf").ok()) << size;
  }
}

TEST(Robustness, ClaimedCountsAllocateNothing) {
  // Each of these claims far more than the file holds; the limits alone would let them pass.
  const auto expect_small = [](const Bytes& bytes) {
    expect_survives(bytes.size(), "claim", [&] { return load_gguf(bytes, "a.gguf"); });
  };
  Bytes many_tensors = test_files::GgufWriter().finish();
  const std::uint64_t count = 1 << 20;
  std::memcpy(many_tensors.data() + 8, &count, sizeof count);
  expect_small(many_tensors);
  for (const GgufType type : {GgufType::Uint8, GgufType::Float64, GgufType::String}) {
    test_files::GgufWriter writer;
    writer.array("k", type, 1 << 24);
    expect_small(writer.finish());
  }
  test_files::GgufWriter layers;
  const Model model = make_tiny(test_files::small_options(Arch::Llama, DType::F32));
  ModelConfig config = model.config;
  config.layer_count = 4096;
  test_files::write_sizes(layers, config);
  test_files::write_tensors(layers, model.tensors);
  const Bytes bytes = layers.finish();
  const auto loaded = load_gguf(bytes, "a.gguf");
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message().find("blk.1.attn_norm.weight"), std::string::npos)
      << loaded.error().message();
}

}  // namespace
}  // namespace lockstep::model
