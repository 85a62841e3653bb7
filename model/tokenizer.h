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

#include "base/error.h"
#include "base/limits.h"

namespace lockstep::model {

using TokenId = std::uint32_t;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Tokens of `text` alone: no BOS, control tokens not parsed, user-defined tokens found first. Any
  // bytes are allowed. A byte that the vocabulary has no token for becomes the unknown token (SPM)
  // or is left out (byte-level BPE), as in llama.cpp. Time O(n log n) for n bytes.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  // Bytes of one token; control tokens have none.
  virtual std::string piece(TokenId token) const = 0;
  virtual std::uint32_t size() const = 0;
  // Tokens that the model's settings put before a prompt (BOS or nothing).
  virtual std::vector<TokenId> prefix() const = 0;

  // The pieces, one after the other, less the space that encode() put before the text.
  std::string decode(std::span<const TokenId> tokens) const;

 protected:
  virtual bool adds_space_prefix() const { return false; }
};

struct GgufFile;

// From tokenizer.ggml.*; null where the file has none. A tokenizer, pre-tokenizer or setting that
// is not built is Unsupported, inconsistent tables are Input errors. The tokenizer keeps no view
// into the file.
base::Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufFile& gguf,
                                                             const base::Limits& limits);

}  // namespace lockstep::model
