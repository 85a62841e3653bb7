// Tokenizer: text <-> token ids, from what the model file says. Two kinds: SentencePiece-style
// byte-pair merging by score with byte fallback (`llama` in GGUF: Gemma), and byte-level BPE with a
// pre-tokenizer (`gpt2` in GGUF: SmolLM2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::model {

using TokenId = std::uint32_t;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Tokens of `text` alone: no BOS, special tokens not parsed.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  // Bytes of one token; control tokens have none.
  virtual std::string piece(TokenId token) const = 0;
  virtual std::uint32_t size() const = 0;
  // Tokens that the model's settings put before a prompt (BOS or nothing).
  virtual std::vector<TokenId> prefix() const = 0;

  std::string decode(std::span<const TokenId> tokens) const;
};

}  // namespace lockstep::model
