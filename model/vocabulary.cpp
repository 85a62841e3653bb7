// Tables of the vocabulary, and the search for user-defined tokens.
#include "model/vocabulary.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace lockstep::model {
namespace {

base::Error entry_error(const GgufFile& gguf, std::string_view key, std::string rule) {
  base::Error error = base::input_error(gguf.file, std::move(rule));
  error.where = key;
  if (const GgufEntry* entry = gguf.find(key)) error.offset = entry->offset_bytes;
  return error;
}

// llama.cpp (llama-vocab.cpp, special_eog_ids) knows these by their text and overrides their type:
// files in use mark some of them as user-defined (Gemma 3: "</s>").
bool ends_generation(std::string_view text) {
  constexpr auto kTexts = std::to_array<std::string_view>({
      "<|eot_id|>",
      "<|im_end|>",
      "<|end|>",
      "<|return|>",
      "<|call|>",
      "<|flush|>",
      "<|calls|>",
      "<end_of_turn>",
      "<|endoftext|>",
      "</s>",
      "<|eom_id|>",
      "<EOT>",
      "_<EOT>",
      "[EOT]",
      "[EOS]",
      "<|end_of_text|>",
      "<end_of_utterance>",
      "<eos>",
      "<turn|>",
      "<|tool_response>",
      "<\uff5cend\u2581of\u2581sentence\uff5c>",
      "[e~[",
  });
  return std::find(kTexts.begin(), kTexts.end(), text) != kTexts.end();
}

}  // namespace

base::Result<Vocabulary> Vocabulary::read(const GgufFile& gguf, const base::Limits& limits) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
  const auto array = [&](std::string_view key) -> const GgufArray* {
    const GgufEntry* entry = gguf.find(key);
    return entry == nullptr ? nullptr : std::get_if<GgufArray>(&entry->value);
  };
  const GgufArray* tokens = array(kTokens);
  if (tokens == nullptr || tokens->element_type != GgufType::String || tokens->count == 0) {
    return entry_error(gguf, kTokens, "must be an array of strings, with at least one");
  }
  if (tokens->count > limits.vocabulary_size) {
    return entry_error(gguf, kTokens,
                       "more tokens than the limit vocabulary_size (" +
                           std::to_string(limits.vocabulary_size) + ")");
  }
  const GgufArray* types = array(kTypes);
  if (types == nullptr || types->element_type != GgufType::Int32 || types->count != tokens->count) {
    return entry_error(gguf, kTypes, "must be an array of Int32, one for each token");
  }
  Vocabulary result;
  std::size_t total = 0;
  for (const std::string_view text : tokens->strings) total += text.size();
  result.bytes_.reserve(total);
  result.begins_.reserve(tokens->count + 1);
  result.ids_.reserve(tokens->count);
  for (std::uint32_t token = 0; token < tokens->count; ++token) {
    const std::string_view text = tokens->strings[token];
    const std::int64_t type = types->integer(token);
    const std::string place = "token " + std::to_string(token);
    if (type < 1 || type > 6) {
      return entry_error(gguf, kTypes, place + ": unknown type " + std::to_string(type));
    }
    if (text.empty()) return entry_error(gguf, kTokens, place + " has no text");
    result.begins_.push_back(result.bytes_.size());
    result.bytes_.insert(result.bytes_.end(), text.begin(), text.end());
    result.kinds_.push_back(ends_generation(text) ? TokenKind::Control
                                                  : static_cast<TokenKind>(type));
    const std::string_view stored(result.bytes_.data() + result.begins_.back(), text.size());
    if (!result.ids_.emplace(stored, token).second) {
      return entry_error(
          gguf, kTokens,
          place + " has the text of token " + std::to_string(result.ids_.at(stored)));
    }
    result.longest_bytes_ = std::max(result.longest_bytes_, text.size());
  }
  LS_CHECK(result.bytes_.size() == total, "the texts must not have moved");
  result.begins_.push_back(total);
  for (TokenId token = 0; token < result.size(); ++token) {
    if (result.kind(token) == TokenKind::UserDefined) result.add_user_defined(token);
  }
  result.link_shorter_tokens();
  return result;
}

std::string_view Vocabulary::text(TokenId token) const {
  LS_CHECK(token < size());
  return {bytes_.data() + begins_[token], begins_[token + 1] - begins_[token]};
}

TokenKind Vocabulary::kind(TokenId token) const {
  LS_CHECK(token < size());
  return kinds_[token];
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void Vocabulary::add_user_defined(TokenId token) {
  std::uint64_t node = 0;
  for (const char c : text(token)) {
    const auto next = static_cast<std::uint32_t>(trie_tokens_.size());
    const auto [edge, added] = trie_.try_emplace(node << 8 | static_cast<unsigned char>(c), next);
    if (added) trie_tokens_.emplace_back();
    node = edge->second;
  }
  trie_tokens_[node] = token;
}

void Vocabulary::link_shorter_tokens() {
  for (TokenId token = 0; token < size(); ++token) {
    if (kind(token) != TokenKind::UserDefined) continue;
    const std::string_view whole = text(token);
    const auto shorter = longest_user_defined(whole.substr(0, whole.size() - 1));
    if (shorter) shorter_.emplace(token, *shorter);
  }
}

std::optional<TokenId> Vocabulary::longest_user_defined(std::string_view text) const {
  std::optional<TokenId> longest;
  std::uint64_t node = 0;
  for (const char c : text) {
    const auto edge = trie_.find(node << 8 | static_cast<unsigned char>(c));
    if (edge == trie_.end()) break;
    node = edge->second;
    if (trie_tokens_[node]) longest = trie_tokens_[node];
  }
  return longest;
}

// Each place has one match in the heap at a time: its longest, and a shorter one only when that
// is in the way of what was taken before.
std::vector<Vocabulary::Match> Vocabulary::user_defined_matches(std::string_view text) const {
  if (trie_.empty()) return {};
  const auto bytes_of = [this](const Match& match) { return this->text(match.token).size(); };
  const auto comes_later = [&](const Match& a, const Match& b) {
    const std::size_t a_bytes = bytes_of(a), b_bytes = bytes_of(b);
    return a_bytes != b_bytes ? a_bytes < b_bytes : a.begin > b.begin;
  };
  std::vector<Match> heap;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (const auto token = longest_user_defined(text.substr(begin)))
      heap.push_back({begin, *token});
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  std::vector<bool> taken(heap.empty() ? 0 : text.size());
  std::vector<Match> kept;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Match match = heap.back();
    heap.pop_back();
    if (taken[match.begin]) continue;
    const std::size_t end = match.begin + bytes_of(match);
    // What was taken before is at least as long, so an overlap shows at one of the two ends.
    if (taken[end - 1]) {
      const auto shorter = shorter_.find(match.token);
      if (shorter == shorter_.end()) continue;
      heap.push_back({match.begin, shorter->second});
      std::push_heap(heap.begin(), heap.end(), comes_later);
      continue;
    }
    for (std::size_t i = match.begin; i < end; ++i) taken[i] = true;
    kept.push_back(match);
  }
  std::sort(kept.begin(), kept.end(),
            [](const Match& a, const Match& b) { return a.begin < b.begin; });
  return kept;
}

std::vector<Vocabulary::Fragment> Vocabulary::split(std::string_view text) const {
  std::vector<Fragment> fragments;
  std::size_t at = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > at) fragments.push_back({text.substr(at, end - at), std::nullopt});
  };
  for (const Match& match : user_defined_matches(text)) {
    const std::size_t bytes = this->text(match.token).size();
    add_text(match.begin);
    fragments.push_back({text.substr(match.begin, bytes), match.token});
    at = match.begin + bytes;
  }
  add_text(text.size());
  return fragments;
}

}  // namespace lockstep::model
