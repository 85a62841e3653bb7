// Vocabulary: the tokens of a GGUF's tokenizer, by id and by text, and the split of a text at its
// user-defined tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "model/gguf.h"
#include "model/tokenizer.h"

namespace lockstep::model {

// tokenizer.ggml.token_type; the numbers are SentencePiece's.
enum class TokenKind : std::uint8_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

class Vocabulary {
 public:
  // tokenizer.ggml.tokens and .token_type. Two tokens of one text, or of no text, are refused.
  // Tokens whose text llama.cpp takes for an end of generation are control tokens, whatever their
  // type.
  static base::Result<Vocabulary> read(const GgufFile& gguf, const base::Limits& limits);

  std::uint32_t size() const { return static_cast<std::uint32_t>(kinds_.size()); }
  std::string_view text(TokenId token) const;
  TokenKind kind(TokenId token) const;
  std::optional<TokenId> find(std::string_view text) const;
  std::size_t longest_bytes() const { return longest_bytes_; }

  // A stretch of text, or a user-defined token that stood there.
  struct Fragment {
    std::string_view text;
    std::optional<TokenId> token;
  };
  // User-defined tokens are found in a text before it is tokenized: longer ones first, then from
  // left to right (llama.cpp, tokenizer_st_partition). Time O(n (log n + longest of them)), memory
  // O(n).
  std::vector<Fragment> split(std::string_view text) const;

 private:
  struct Match {
    std::size_t begin = 0;
    TokenId token = 0;
  };
  void add_user_defined(TokenId token);
  void link_shorter_tokens();
  std::optional<TokenId> longest_user_defined(std::string_view text) const;
  std::vector<Match> user_defined_matches(std::string_view text) const;

  std::vector<char> bytes_;          // all texts, one after the other
  std::vector<std::size_t> begins_;  // size() + 1 offsets into bytes_
  std::vector<TokenKind> kinds_;
  std::unordered_map<std::string_view, TokenId> ids_;  // looked up only; views into bytes_
  std::size_t longest_bytes_ = 0;
  // Trie of the user-defined tokens: node << 8 | byte -> node; the root is 0. Looked up only.
  std::unordered_map<std::uint64_t, std::uint32_t> trie_;
  std::vector<std::optional<TokenId>> trie_tokens_ = {std::nullopt};
  // The longest user-defined token that begins a user-defined token and is shorter than it.
  std::unordered_map<TokenId, TokenId> shorter_;
};

}  // namespace lockstep::model
