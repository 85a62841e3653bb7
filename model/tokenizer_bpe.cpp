// Byte-level BPE: GPT-2's alphabet of bytes, merging by rank.
#include "model/tokenizer_bpe.h"

#include <array>
#include <limits>
#include <queue>
#include <unordered_map>

#include "base/check.h"
#include "model/unicode_classes.h"

namespace lockstep::model {
namespace {

// GPT-2's alphabet: a byte that prints is its own character; the others are U+0100 on, in order.
std::array<std::uint32_t, 256> byte_characters() {
  std::array<std::uint32_t, 256> characters{};
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
                        (byte >= 0xae && byte <= 0xff);
    characters[byte] = prints ? byte : next++;
  }
  return characters;
}

std::string utf8(std::uint32_t code_point) {
  LS_CHECK(code_point < 0x800);
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

struct Merge {
  std::uint32_t rank = 0;
  TokenId token = 0;
};
using MergeTable = std::unordered_map<std::uint64_t, Merge>;  // looked up only
std::uint64_t merge_key(TokenId left, TokenId right) { return std::uint64_t{left} << 32 | right; }

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr TokenId kNoToken = std::numeric_limits<TokenId>::max();

// One word on its way from bytes to tokens.
class Merger {
 public:
  Merger(std::vector<TokenId> symbols, const MergeTable& merges) : merges_(merges) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      symbols_.push_back({symbols[i], i - 1, i + 1});
    }
    symbols_.front().previous = kNone;
    symbols_.back().next = kNone;
    for (std::size_t i = 1; i < symbols_.size(); ++i) offer(i - 1, i);
  }

  void run(std::vector<TokenId>& out) {
    while (!pairs_.empty()) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      Symbol& left = symbols_[pair.left];
      if (left.token != pair.left_token || left.next != pair.right ||
          symbols_[pair.right].token != pair.right_token) {
        continue;  // one of the two was merged since
      }
      left.token = pair.token;
      left.next = symbols_[pair.right].next;
      symbols_[pair.right].token = kNoToken;
      if (left.next != kNone) symbols_[left.next].previous = pair.left;
      offer(left.previous, pair.left);
      offer(pair.left, left.next);
    }
    for (std::size_t i = 0; i != kNone; i = symbols_[i].next) {
      if (symbols_[i].token != kNoToken) out.push_back(symbols_[i].token);
    }
  }

 private:
  struct Symbol {
    TokenId token;
    std::size_t previous, next;
  };
  struct Pair {
    std::uint32_t rank;
    TokenId token, left_token, right_token;
    std::size_t left, right;
    bool operator<(const Pair& other) const {  // the heap's top is the largest
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  void offer(std::size_t left, std::size_t right) {
    if (left == kNone || right == kNone) return;
    const TokenId a = symbols_[left].token, b = symbols_[right].token;
    if (a == kNoToken || b == kNoToken) return;
    const auto found = merges_.find(merge_key(a, b));
    if (found == merges_.end()) return;
    pairs_.push({found->second.rank, found->second.token, a, b, left, right});
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Pair> pairs_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(Vocabulary vocabulary, TokenizerSettings settings, PreTokenizer pre_tokenizer,
               MergeTable merges)
      : vocabulary_(std::move(vocabulary)),
        settings_(std::move(settings)),
        pre_tokenizer_(pre_tokenizer),
        merges_(std::move(merges)) {
    const auto characters = byte_characters();
    for (unsigned byte = 0; byte < 256; ++byte) {
      byte_tokens_[byte] = vocabulary_.find(utf8(characters[byte])).value_or(kNoToken);
      bytes_.emplace(characters[byte], static_cast<unsigned char>(byte));
    }
  }

  std::vector<TokenId> encode(std::string_view text) const override;
  std::string piece(TokenId token) const override;
  std::uint32_t size() const override { return vocabulary_.size(); }
  std::vector<TokenId> prefix() const override { return settings_.prefix; }

 private:
  std::string decode_characters(std::string_view text) const;

  Vocabulary vocabulary_;
  TokenizerSettings settings_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_{};
  std::map<std::uint32_t, unsigned char> bytes_;  // character -> byte
};

std::vector<TokenId> BpeTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> out;
  for (const Vocabulary::Fragment& fragment : vocabulary_.split(text)) {
    if (fragment.token) {
      out.push_back(*fragment.token);
      continue;
    }
    for (const std::string_view word : split_words(pre_tokenizer_, fragment.text)) {
      std::vector<TokenId> symbols;
      for (const char c : word) symbols.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
      Merger(std::move(symbols), merges_).run(out);
    }
  }
  return out;
}

std::string BpeTokenizer::decode_characters(std::string_view text) const {
  std::string result;
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    const auto byte = bytes_.find(next.code_point);
    if (byte != bytes_.end()) {
      result += static_cast<char>(byte->second);
    } else {
      result += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return result;
}

std::string BpeTokenizer::piece(TokenId token) const {
  const std::string_view text = vocabulary_.text(token);
  switch (vocabulary_.kind(token)) {
    case TokenKind::Normal:
      return decode_characters(text);
    case TokenKind::UserDefined:
      return std::string(text);
    case TokenKind::Byte:
    case TokenKind::Unknown:
    case TokenKind::Control:
    case TokenKind::Unused:
      return {};
  }
  LS_CHECK(false);
  return {};
}

base::Result<MergeTable> read_merges(const GgufFile& gguf, const Vocabulary& vocabulary) {
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  const GgufEntry* entry = gguf.find(kMerges);
  const auto error = [&](std::string rule) {
    base::Error result = base::input_error(gguf.file, std::move(rule));
    result.where = kMerges;
    if (entry != nullptr) result.offset = entry->offset_bytes;
    return result;
  };
  const auto* array = entry == nullptr ? nullptr : std::get_if<GgufArray>(&entry->value);
  if (array == nullptr || array->element_type != GgufType::String) {
    return error("must be an array of strings");
  }
  MergeTable merges;
  merges.reserve(array->count);
  for (std::uint32_t rank = 0; rank < array->count; ++rank) {
    const std::string_view text = array->strings[rank];
    const std::string place = "merge " + std::to_string(rank);
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return error(place + ": must be two texts with one space between");
    }
    const std::string_view left_text = text.substr(0, space), right_text = text.substr(space + 1);
    const auto left = vocabulary.find(left_text), right = vocabulary.find(right_text);
    const auto token = vocabulary.find(std::string(left_text) + std::string(right_text));
    if (!left || !right || !token) return error(place + ": a text of it is no token");
    if (!merges.try_emplace(merge_key(*left, *right), Merge{rank, *token}).second) {
      return error(place + ": occurs twice");
    }
  }
  return merges;
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> bpe_tokenizer(const GgufFile& gguf, Vocabulary vocabulary,
                                                       TokenizerSettings settings,
                                                       PreTokenizer pre_tokenizer) {
  LS_ASSIGN(MergeTable merges, read_merges(gguf, vocabulary));
  return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(
      std::move(vocabulary), std::move(settings), pre_tokenizer, std::move(merges)));
}

}  // namespace lockstep::model
