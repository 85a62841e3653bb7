// Loading from paths and from memory: names, hashes, lifetimes, paths that hold no model.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/file.h"
#include "model/test_files.h"

namespace lockstep::model {
namespace {

using test_files::Bytes;
using testing::HasSubstr;

const std::string kGolden = LOCKSTEP_GOLDEN_DIR;

// A folder of its own for each test, removed afterwards.
class Load : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("lockstep_model_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& file, std::span<const std::byte> bytes) const {
    const std::filesystem::path path = folder_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return path.string();
  }
  std::string error_of(const std::string& path, const base::Limits& limits = {}) const {
    const auto model = load(path, limits);
    return model.ok() ? "loaded" : model.error().message();
  }

  std::filesystem::path folder_;
};

TEST_F(Load, GoldenModelsHaveNamesAndWeights) {
  const auto name_of = [](const std::string& path) {
    auto model = load(kGolden + path);
    EXPECT_TRUE(model.ok()) << model.error().message();
    EXPECT_NE(model->weight(WeightRole::TokenEmbedding), nullptr);
    EXPECT_EQ(model->weight(WeightRole::Query, model->config.layer_count), nullptr);
    return model->display_name;
  };
  EXPECT_EQ(name_of("/tiny_models/llama"), "llama BF16");
  EXPECT_EQ(name_of("/tiny_models/gemma3_text/"), "gemma3_text BF16");
  EXPECT_EQ(name_of("/tiny_gguf/gemma3_legacy/model.gguf"), "gemma3_legacy mixed");
  EXPECT_EQ(name_of("/tiny_gguf/llama_kquants/model.gguf"), "llama_kquants mixed");
}

TEST_F(Load, TheFileNameKeepsItsTypeOnce) {
  const Bytes bytes = test_files::small_gguf(Arch::Llama, DType::Q4_0, nullptr);
  EXPECT_EQ(load(write("some-model-q4_0.gguf", bytes))->display_name, "some-model Q4_0");
  EXPECT_EQ(load(write("Some.Q4_0.gguf", bytes))->display_name, "Some Q4_0");
  EXPECT_EQ(load(write("q4_0.gguf", bytes))->display_name, "q4_0 Q4_0");
  EXPECT_EQ(load(write("some.gguf", bytes))->display_name, "some Q4_0");
}

TEST_F(Load, TheHashIsThatOfTheContentWhereverItLies) {
  const Bytes bytes = test_files::small_gguf(Arch::Llama, DType::Q4_0, nullptr);
  const auto a = load(write("a.gguf", bytes)), b = load(write("b.gguf", bytes));
  EXPECT_EQ(a->content_hash, b->content_hash);
  EXPECT_EQ(a->content_hash, base::hash_bytes(bytes));
  Bytes changed = bytes;
  changed.back() ^= std::byte{1};
  EXPECT_NE(load(write("c.gguf", changed))->content_hash, a->content_hash);
}

TEST_F(Load, MemoryAndFileGiveTheSame) {
  const std::string path = kGolden + "/tiny_gguf/llama_kquants/model.gguf";
  const auto file = MappedFile::open(path, {});
  const auto from_memory = load_gguf((*file)->bytes(), path), from_file = load(path);
  ASSERT_TRUE(from_memory.ok() && from_file.ok());
  EXPECT_EQ(from_memory->content_hash, from_file->content_hash);
  EXPECT_EQ(from_memory->display_name, from_file->display_name);
  EXPECT_EQ(from_memory->tensors.all().size(), from_file->tensors.all().size());
}

TEST_F(Load, AModelOutlivesItsMove) {
  auto loaded = load(kGolden + "/tiny_models/llama");
  ASSERT_TRUE(loaded.ok());
  const TensorInfo* before = loaded->weight(WeightRole::Down, 2);
  const Model moved = std::move(loaded).value();
  EXPECT_EQ(moved.weight(WeightRole::Down, 2), before);
  EXPECT_EQ(moved.tensors.find("model.layers.2.mlp.down_proj.weight"), before);
}

TEST_F(Load, PathsThatAreNoModelAreNamed) {
  const std::string folder = folder_.string();
  EXPECT_THAT(error_of(folder + "/none.gguf"), HasSubstr("none.gguf: cannot open: No such file"));
  EXPECT_THAT(error_of(folder), HasSubstr("/config.json: cannot open"));
  EXPECT_THAT(error_of(write("empty.gguf", {})), HasSubstr("empty.gguf: offset 0: magic"));
  EXPECT_THAT(error_of(write("text.gguf", test_files::as_bytes("hello"))), HasSubstr("not a GGUF"));
  ASSERT_EQ(::mkfifo((folder + "/pipe.gguf").c_str(), 0600), 0);
  EXPECT_THAT(error_of(folder + "/pipe.gguf"), HasSubstr("not a regular file"));
  write("half/config.json", test_files::as_bytes("{}"));
  EXPECT_THAT(error_of(folder + "/half"), HasSubstr("model.safetensors: cannot open"));
  write("half/model.safetensors.index.json", test_files::as_bytes("{}"));
  EXPECT_THAT(error_of(folder + "/half"), HasSubstr("weights in several files are not built"));
  const std::string large = write("large.gguf", Bytes(100));
  EXPECT_THAT(error_of(large, {.file_bytes = 99}), HasSubstr("the limit file_bytes is 99"));
}

TEST_F(Load, AVocabularyMustFitTheEmbedding) {
  const Model model = make_tiny(test_files::small_options(Arch::Llama, DType::F32));
  test_files::GgufWriter writer;
  test_files::write_sizes(writer, model.config);
  writer.string("tokenizer.ggml.model", "llama");
  const std::vector<std::string> tokens = {"<unk>", "a"};
  const std::vector<float> scores = {0, 0};
  const std::vector<std::int32_t> types = {2, 1};
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.numbers("tokenizer.ggml.scores", GgufType::Float32, std::span<const float>(scores));
  writer.numbers("tokenizer.ggml.token_type", GgufType::Int32,
                 std::span<const std::int32_t>(types));
  writer.u32("tokenizer.ggml.unknown_token_id", 0);
  writer.boolean("tokenizer.ggml.add_bos_token", false);
  test_files::write_tensors(writer, model.tensors);
  EXPECT_THAT(error_of(write("a.gguf", writer.finish())),
              HasSubstr("tokenizer.ggml.tokens: 2 tokens, but token_embd.weight has 64 rows"));
}

}  // namespace
}  // namespace lockstep::model
