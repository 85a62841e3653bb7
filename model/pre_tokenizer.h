// Pre-tokenizers of byte-level BPE: they cut a text into words, and no token spans two words.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::model {

enum class PreTokenizer : std::uint8_t {
  // SmolLM: first each \p{N} alone, then GPT-2's
  //   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  // (tokenizer.json of SmolLM: Digits(individual_digits), ByteLevel; llama.cpp's pre "smollm")
  Smollm,
};
// By tokenizer.ggml.pre.
std::optional<PreTokenizer> pre_tokenizer_from_name(std::string_view name);

// Views that together are the text, in order, none empty. A byte that is no UTF-8 counts as a
// symbol. Linear in the text's length.
std::vector<std::string_view> split_words(PreTokenizer kind, std::string_view text);

}  // namespace lockstep::model
