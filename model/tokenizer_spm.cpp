// SPM: merging by score, byte fallback, spaces as U+2581.
#include "model/tokenizer_spm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <queue>

#include "base/check.h"
#include "model/unicode_classes.h"

namespace lockstep::model {
namespace {

// U+2581, which stands for a space in the tokens' texts.
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    const std::size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

// "<0x41>": the byte that a token of kind Byte stands for.
std::optional<unsigned char> byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return static_cast<unsigned char>(value);
}

class SpmTokenizer final : public Tokenizer {
 public:
  SpmTokenizer(Vocabulary vocabulary, TokenizerSettings settings, std::vector<float> scores,
               std::array<std::optional<TokenId>, 256> byte_tokens)
      : vocabulary_(std::move(vocabulary)),
        settings_(std::move(settings)),
        scores_(std::move(scores)),
        byte_tokens_(byte_tokens) {}

  std::vector<TokenId> encode(std::string_view text) const override;
  std::string piece(TokenId token) const override;
  std::uint32_t size() const override { return vocabulary_.size(); }
  std::vector<TokenId> prefix() const override { return settings_.prefix; }

 protected:
  bool adds_space_prefix() const override { return settings_.add_space_prefix; }

 private:
  void encode_fragment(std::string_view text, std::vector<TokenId>& out) const;

  Vocabulary vocabulary_;
  TokenizerSettings settings_;
  std::vector<float> scores_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

// One fragment on its way from characters to tokens: a list of symbols, and a heap of the pairs of
// neighbours that make a token.
class Merger {
 public:
  Merger(std::string_view text, const Vocabulary& vocabulary, const std::vector<float>& scores)
      : text_(text), vocabulary_(vocabulary), scores_(scores) {
    for (std::size_t at = 0; at < text.size(); at += symbols_.back().bytes) {
      // A byte that is no UTF-8 is a symbol by itself, so that it swallows no space mark.
      const std::size_t bytes = first_character(text.substr(at)).bytes;
      symbols_.push_back({at, bytes, symbols_.size() - 1, symbols_.size() + 1});
    }
    if (symbols_.empty()) return;
    symbols_.front().previous = kNone;
    symbols_.back().next = kNone;
    for (std::size_t i = 1; i < symbols_.size(); ++i) offer(i - 1, i);
  }

  std::vector<std::string_view> run() {
    while (!pairs_.empty()) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      Symbol& left = symbols_[pair.left];
      Symbol& right = symbols_[pair.right];
      // Merged away, or grown since the pair was offered.
      if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != pair.bytes) continue;
      left.bytes += right.bytes;
      right.bytes = 0;
      left.next = right.next;
      if (left.next != kNone) symbols_[left.next].previous = pair.left;
      offer(left.previous, pair.left);
      offer(pair.left, left.next);
    }
    std::vector<std::string_view> pieces;
    for (std::size_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next) {
      pieces.push_back(text_.substr(symbols_[i].begin, symbols_[i].bytes));
    }
    return pieces;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Symbol {
    std::size_t begin, bytes, previous, next;
  };
  struct Pair {
    float score;
    std::size_t left, right, bytes;
    bool operator<(const Pair& other) const {  // the heap's top is the largest
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  void offer(std::size_t left, std::size_t right) {
    if (left == kNone || right == kNone) return;
    const std::size_t bytes = symbols_[left].bytes + symbols_[right].bytes;
    if (bytes > vocabulary_.longest_bytes()) return;  // and so each look-up is short
    const auto token = vocabulary_.find(text_.substr(symbols_[left].begin, bytes));
    if (token) pairs_.push({scores_[*token], left, right, bytes});
  }

  std::string_view text_;
  const Vocabulary& vocabulary_;
  const std::vector<float>& scores_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Pair> pairs_;
};

void SpmTokenizer::encode_fragment(std::string_view text, std::vector<TokenId>& out) const {
  for (const std::string_view piece : Merger(text, vocabulary_, scores_).run()) {
    if (const auto token = vocabulary_.find(piece)) {
      out.push_back(*token);
      continue;
    }
    for (const char c : piece) {
      const auto token = byte_tokens_[static_cast<unsigned char>(c)];
      LS_CHECK(token || settings_.unknown, "checked when the tokenizer was read");
      out.push_back(token ? *token : *settings_.unknown);
    }
  }
}

std::vector<TokenId> SpmTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> out;
  bool after_token = true;  // the text's start counts as one
  for (const Vocabulary::Fragment& fragment : vocabulary_.split(text)) {
    if (fragment.token) {
      out.push_back(*fragment.token);
      after_token = true;
      continue;
    }
    std::string escaped = replace_all(fragment.text, " ", kSpaceMark);
    if (settings_.add_space_prefix && after_token) escaped.insert(0, kSpaceMark);
    encode_fragment(escaped, out);
    after_token = false;
  }
  return out;
}

std::string SpmTokenizer::piece(TokenId token) const {
  const std::string_view text = vocabulary_.text(token);
  switch (vocabulary_.kind(token)) {
    case TokenKind::Normal:
      return replace_all(text, kSpaceMark, " ");
    case TokenKind::UserDefined:
      return std::string(text);
    case TokenKind::Byte:
      return {static_cast<char>(byte_of(text).value())};
    case TokenKind::Unknown:
    case TokenKind::Control:
    case TokenKind::Unused:
      return {};
  }
  LS_CHECK(false);
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Tokenizer>> spm_tokenizer(const GgufFile& gguf, Vocabulary vocabulary,
                                                       TokenizerSettings settings) {
  const auto error = [&](const char* key, std::string rule) {
    base::Error result = base::input_error(gguf.file, std::move(rule));
    result.where = key;
    if (const GgufEntry* entry = gguf.find(key)) result.offset = entry->offset_bytes;
    return result;
  };
  constexpr const char* kScores = "tokenizer.ggml.scores";
  const GgufEntry* entry = gguf.find(kScores);
  const auto* array = entry == nullptr ? nullptr : std::get_if<GgufArray>(&entry->value);
  if (array == nullptr || array->element_type != GgufType::Float32 ||
      array->count != vocabulary.size()) {
    return error(kScores, "must be an array of Float32, one for each token");
  }
  std::vector<float> scores;
  for (std::uint64_t i = 0; i < array->count; ++i) {
    scores.push_back(static_cast<float>(array->real(i)));
    if (std::isnan(scores.back())) {
      return error(kScores, "token " + std::to_string(i) + " has no number");
    }
  }
  std::array<std::optional<TokenId>, 256> byte_tokens;
  for (TokenId token = 0; token < vocabulary.size(); ++token) {
    if (vocabulary.kind(token) != TokenKind::Byte) continue;
    const auto byte = byte_of(vocabulary.text(token));
    if (!byte) {
      return error("tokenizer.ggml.tokens",
                   "token " + std::to_string(token) + " is a byte, but its text isn't <0xNN>");
    }
    byte_tokens[*byte] = token;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!byte_tokens[byte] && !settings.unknown) {
      return error("tokenizer.ggml.unknown_token_id",
                   "is needed, because byte " + std::to_string(byte) + " has no token");
    }
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<SpmTokenizer>(
      std::move(vocabulary), std::move(settings), std::move(scores), byte_tokens));
}

}  // namespace lockstep::model
