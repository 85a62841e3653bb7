// The tokenizers against llama.cpp's recorded answers: always on the small vocabularies of
// golden/tiny_gguf, and on the two real models where the cache folder has them.
#include "model/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/prng.h"
#include "model/model.h"
#include "model/pre_tokenizer.h"
#include "model/test_files.h"

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

// A GGUF that holds a tokenizer only, and what reading it gives.
base::Result<std::unique_ptr<Tokenizer>> tokenizer_of(
    const std::function<void(test_files::GgufWriter&)>& write) {
  test_files::GgufWriter writer;
  write(writer);
  const test_files::Bytes bytes = writer.finish();
  LS_ASSIGN(const GgufFile gguf, read_gguf(bytes, "a.gguf"));
  return tokenizer_from_gguf(gguf, {});
}

void write_vocabulary(test_files::GgufWriter& writer, const std::vector<std::string>& tokens,
                      const std::vector<std::int32_t>& types) {
  writer.strings("tokenizer.ggml.tokens", tokens);
  writer.numbers("tokenizer.ggml.token_type", GgufType::Int32,
                 std::span<const std::int32_t>(types));
}

// Byte-level BPE over all 256 bytes, with merges of runs of 'a' and a user-defined token.
void write_byte_vocabulary(test_files::GgufWriter& writer) {
  std::vector<std::string> tokens;
  for (std::uint32_t next = 0x100, byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    const std::uint32_t code = prints ? byte : next++;
    std::string text;
    if (code >= 0x80) text += static_cast<char>(0xc0 | code >> 6);
    text += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3f));
    tokens.push_back(text);
  }
  std::vector<std::string> merges;
  for (std::size_t length = 1; length <= 512; length *= 2) {
    const std::string half(length, 'a');
    merges.push_back(half + " " + half);
    tokens.push_back(half + half);
  }
  std::vector<std::int32_t> types(tokens.size(), 1);
  tokens.push_back("<user>");
  types.push_back(4);
  writer.string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", "smollm");
  write_vocabulary(writer, tokens, types);
  writer.strings("tokenizer.ggml.merges", merges);
}

std::string random_bytes(std::uint64_t seed, std::size_t count) {
  base::Prng prng(seed);
  std::string text;
  while (text.size() < count) text += static_cast<char>(prng.below(256));
  return text;
}

TEST(Tokenizer, AnyBytesComeBackFromByteLevelBpe) {
  auto tokenizer = tokenizer_of(write_byte_vocabulary);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string text = random_bytes(seed, seed * 10) + "<user>";
    const auto tokens = (*tokenizer)->encode(text);
    EXPECT_EQ((*tokenizer)->decode(tokens), text) << seed;
    EXPECT_EQ(tokens.back(), (*tokenizer)->size() - 1);
  }
}

TEST(Tokenizer, AnyBytesComeBackFromSpm) {
  auto model = load(kGolden + "/tiny_gguf/gemma3_legacy/model.gguf");
  ASSERT_TRUE(model.ok());
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::string text = random_bytes(seed, seed * 10);  // U+2581 is not among them
    EXPECT_EQ(model->tokenizer->decode(model->tokenizer->encode(text)), text) << seed;
  }
}

// A quadratic algorithm would take 10^12 steps, and the test's time would run out.
TEST(Tokenizer, LongInputsAreNotQuadratic) {
  auto model = load(kGolden + "/tiny_gguf/llama_kquants/model.gguf");
  auto bpe = tokenizer_of(write_byte_vocabulary);
  ASSERT_TRUE(model.ok() && bpe.ok());
  constexpr std::size_t kBytes = 1 << 20;
  for (const char c : {'a', ' ', '\n', 't', '\xff'}) {
    const std::string text(kBytes, c);
    EXPECT_EQ(model->tokenizer->decode(model->tokenizer->encode(text)), text);
    const auto tokens = (*bpe)->encode(text);
    EXPECT_EQ((*bpe)->decode(tokens), text);
    if (c == 'a') {
      EXPECT_EQ(tokens, std::vector<TokenId>(kBytes / 1024, 256 + 9));
    }
  }
}

TEST(Tokenizer, UserDefinedTokensAreFoundLongestFirst) {
  const std::vector<std::string> tokens = {"<unk>", "a", "b", "aa", "aab", "ba", "</s>"};
  const std::vector<std::int32_t> types = {2, 1, 1, 4, 4, 4, 4};
  auto tokenizer = tokenizer_of([&](test_files::GgufWriter& w) {
    w.string("tokenizer.ggml.model", "llama");
    write_vocabulary(w, tokens, types);
    const std::vector<float> scores(tokens.size(), -1);
    w.numbers("tokenizer.ggml.scores", GgufType::Float32, std::span<const float>(scores));
    w.u32("tokenizer.ggml.unknown_token_id", 0);
    w.boolean("tokenizer.ggml.add_bos_token", false);
    w.boolean("tokenizer.ggml.add_space_prefix", false);
  });
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  const auto encode = [&](const char* text) { return (*tokenizer)->encode(text); };
  using Tokens = std::vector<TokenId>;
  EXPECT_EQ(encode("aaab"), (Tokens{1, 4}));    // "aab" before the "aa" that starts earlier
  EXPECT_EQ(encode("aaaa"), (Tokens{3, 3}));    // of equals, the leftmost
  EXPECT_EQ(encode("aaba"), (Tokens{4, 1}));    // "ba" is overlapped
  EXPECT_EQ(encode("aabaab"), (Tokens{4, 4}));  // and so is the "ba" between
  EXPECT_EQ(encode("baab"), (Tokens{2, 4}));    // a shorter one in the way of a longer
  EXPECT_EQ(encode("x"), (Tokens{0}));          // no token, no byte token: unknown
  EXPECT_EQ(encode("</s>").size(), 4u);         // ends a generation: control, not parsed
}

TEST(Tokenizer, ASpacePrefixIsAddedAndTakenAway) {
  const std::vector<std::string> tokens = {"<unk>", "<s>", "\xe2\x96\x81", "a",
                                           "\xe2\x96\x81"
                                           "a"};
  const std::vector<std::int32_t> types = {2, 3, 1, 1, 1};
  auto tokenizer = tokenizer_of([&](test_files::GgufWriter& w) {
    w.string("tokenizer.ggml.model", "llama");
    write_vocabulary(w, tokens, types);
    const std::vector<float> scores(tokens.size(), -1);
    w.numbers("tokenizer.ggml.scores", GgufType::Float32, std::span<const float>(scores));
    w.u32("tokenizer.ggml.unknown_token_id", 0);
    w.u32("tokenizer.ggml.bos_token_id", 1);
  });
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message();
  EXPECT_EQ((*tokenizer)->prefix(), std::vector<TokenId>{1});  // llama.cpp's defaults for SPM
  EXPECT_EQ((*tokenizer)->encode("a a"), (std::vector<TokenId>{4, 4}));
  EXPECT_EQ((*tokenizer)->decode(std::vector<TokenId>{1, 4, 4}), "a a");
  EXPECT_TRUE((*tokenizer)->encode("").empty());
}

TEST(Tokenizer, TablesThatContradictThemselvesAreRefused) {
  const auto refuses = [](const char* text,
                          const std::function<void(test_files::GgufWriter&)>& write) {
    const auto tokenizer = tokenizer_of(write);
    ASSERT_FALSE(tokenizer.ok()) << text;
    EXPECT_NE(tokenizer.error().message().find(text), std::string::npos)
        << tokenizer.error().message();
  };
  const auto spm = [](std::vector<std::string> tokens, std::vector<std::int32_t> types,
                      std::vector<float> scores) {
    return [=](test_files::GgufWriter& w) {
      w.string("tokenizer.ggml.model", "llama");
      write_vocabulary(w, tokens, types);
      w.numbers("tokenizer.ggml.scores", GgufType::Float32, std::span<const float>(scores));
      w.u32("tokenizer.ggml.unknown_token_id", 0);
      w.boolean("tokenizer.ggml.add_bos_token", false);
    };
  };
  refuses("token 1 has the text of token 0", spm({"a", "a"}, {1, 1}, {0, 0}));
  refuses("token 1 has no text", spm({"a", ""}, {1, 1}, {0, 0}));
  refuses("one for each token", spm({"a", "b"}, {1}, {0, 0}));
  refuses("one for each token", spm({"a", "b"}, {1, 1}, {0}));
  refuses("token 1: unknown type 7", spm({"a", "b"}, {1, 7}, {0, 0}));
  refuses("token 1 has no number", spm({"a", "b"}, {1, 1}, {0, std::nanf("")}));
  refuses("token 1 is a byte, but", spm({"a", "<0xzz>"}, {1, 6}, {0, 0}));
  const auto changed = [](const std::function<void(test_files::GgufWriter&)>& add) {
    return [=](test_files::GgufWriter& w) { write_byte_vocabulary(w), add(w); };
  };
  refuses("unknown_token_id: is outside", changed([](test_files::GgufWriter& w) {
            w.u32("tokenizer.ggml.unknown_token_id", 267);
          }));
  refuses("bos_token_id: is missing", changed([](test_files::GgufWriter& w) {
            w.boolean("tokenizer.ggml.add_bos_token", true);
          }));
  refuses("add_eos_token: this feature is not built", changed([](test_files::GgufWriter& w) {
            w.boolean("tokenizer.ggml.add_eos_token", true);
          }));
  refuses("tokenizer.ggml.precompiled_charsmap: no meaning", changed([](test_files::GgufWriter& w) {
            w.string("tokenizer.ggml.precompiled_charsmap", "x");
          }));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : split_words(PreTokenizer::Smollm, text)) {
    words.emplace_back(word);
  }
  return words;
}

TEST(PreTokenizer, SmollmCutsAsItsPatternSays) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of(""), Words{});
  EXPECT_EQ(words_of("Hello, world!"), (Words{"Hello", ",", " world", "!"}));
  EXPECT_EQ(words_of("it's we'll 'tis"), (Words{"it", "'s", " we", "'ll", " '", "tis"}));
  EXPECT_EQ(words_of("IT'S"), (Words{"IT", "'", "S"}));
  EXPECT_EQ(words_of("a12 3"), (Words{"a", "1", "2", " ", "3"}));
  EXPECT_EQ(words_of("x\xc2\xb2"), (Words{"x", "\xc2\xb2"}));  // superscript two is a number
  EXPECT_EQ(words_of("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(words_of("a \n b  "), (Words{"a", " \n", " b", "  "}));
  EXPECT_EQ(words_of("a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(words_of(" \xe4\xb8\xad\xe6\x96\x87!?"), (Words{" \xe4\xb8\xad\xe6\x96\x87", "!?"}));
  EXPECT_EQ(words_of("a\xe3\x80\x80"
                     "b"),
            (Words{"a", "\xe3\x80\x80", "b"}));  // ideographic space
  EXPECT_EQ(words_of("a\xff\xfe b"), (Words{"a", "\xff\xfe", " b"}));
}

TEST(PreTokenizer, WordsTogetherAreTheText) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = random_bytes(seed, seed);
    std::string joined;
    for (const std::string& word : words_of(text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace lockstep::model
