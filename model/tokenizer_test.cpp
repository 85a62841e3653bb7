// The tokenizers against llama.cpp's recorded answers: always on the small vocabularies of
// golden/tiny_gguf, and on the two real models where the cache folder has them.
#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/prng.h"
#include "model/model.h"

namespace lockstep::model {
namespace {

using nlohmann::json;

const std::string kGolden = LOCKSTEP_GOLDEN_DIR;

json read_json(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return json::parse(in);
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Empty if the cache has no such file.
std::string cached_model(const std::string& name) {
  const auto variable = [](const char* key) {
    const char* value = std::getenv(key);
    return std::string(value == nullptr ? "" : value);
  };
  std::string cache = variable("LOCKSTEP_CACHE");
  if (cache.empty()) {
    cache = variable("XDG_CACHE_HOME");
    cache = (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/lockstep";
  }
  const std::string path = cache + "/models/" + name;
  return std::filesystem::exists(path) ? path : "";
}

void expect_recorded_tokens(const Tokenizer& tokenizer, const std::string& record) {
  const json cases = read_json(kGolden + record)["cases"];
  EXPECT_EQ(cases.size(), 152u);
  for (const json& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode(text), ids) << entry["text"];
    EXPECT_EQ(tokenizer.decode(ids), from_hex(entry["decoded_hex"].get<std::string>()))
        << entry["text"];
  }
}

TEST(Tokenizer, SmallVocabulariesGiveLlamaCppsTokens) {
  for (const std::string folder : {"/tiny_gguf/gemma3_legacy", "/tiny_gguf/llama_kquants"}) {
    auto model = load(kGolden + folder + "/model.gguf");
    ASSERT_TRUE(model.ok()) << model.error().message();
    const json record = read_json(kGolden + folder + "/ref.json")["llama_cpp"]["tokenizer"];
    EXPECT_EQ(record.size(), 9u);
    for (const auto& [text, ids] : record.items()) {
      std::vector<TokenId> tokens = model->tokenizer->prefix();
      for (const TokenId token : model->tokenizer->encode(text)) tokens.push_back(token);
      EXPECT_EQ(tokens, ids.get<std::vector<TokenId>>()) << text;
      EXPECT_EQ(model->tokenizer->decode(tokens), text);
    }
  }
}

TEST(Tokenizer, GemmaGivesLlamaCppsTokens) {
  const std::string path = cached_model("gemma-3-270m-q4_k_m.gguf");
  if (path.empty()) GTEST_SKIP() << "gemma-3-270m-q4_k_m.gguf is not in the cache";
  auto model = load(path);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->display_name, "gemma-3-270m Q4_K_M");
  EXPECT_EQ(model->tokenizer->prefix(), std::vector<TokenId>{2});
  expect_recorded_tokens(*model->tokenizer, "/gemma3_270m_llama_cpp/tokenize.json");
}

TEST(Tokenizer, SmolLm2GivesLlamaCppsTokens) {
  const std::string path = cached_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (path.empty()) GTEST_SKIP() << "SmolLM2-135M-Instruct.Q4_1.gguf is not in the cache";
  auto model = load(path);
  ASSERT_TRUE(model.ok()) << model.error().message();
  EXPECT_EQ(model->display_name, "SmolLM2-135M-Instruct Q4_1");
  EXPECT_TRUE(model->tokenizer->prefix().empty());
  expect_recorded_tokens(*model->tokenizer, "/smollm2_135m_llama_cpp/tokenize.json");
}

}  // namespace
}  // namespace lockstep::model
