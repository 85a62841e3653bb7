// The patterns, written out: each is linear and has no recursion.
#include "model/pre_tokenizer.h"

#include <array>

#include "model/unicode_classes.h"

namespace lockstep::model {
namespace {

// GPT-2's pattern by hand: std::regex knows no Unicode classes and recurses over long inputs.
class Gpt2Splitter {
 public:
  Gpt2Splitter(std::string_view text, std::vector<std::string_view>& words)
      : text_(text), words_(words) {}

  void run() {
    while (!text_.empty()) {
      const std::size_t bytes = word_bytes();
      words_.push_back(text_.substr(0, bytes));
      text_.remove_prefix(bytes);
    }
  }

 private:
  std::size_t word_bytes() const {
    if (const std::size_t bytes = contraction_bytes()) return bytes;
    // " ?X+" for a class X other than Space
    const std::size_t space = text_.front() == ' ' && text_.size() > 1 ? 1 : 0;
    const CharacterClass kind = character_class(first_character(text_.substr(space)).code_point);
    if (kind != CharacterClass::Space) return space + run_bytes(text_.substr(space), kind).total;
    const Run run = run_bytes(text_, CharacterClass::Space);
    // \s+(?!\S): before a word, a run of spaces leaves the last one to it.
    const bool before_word = run.total < text_.size();
    return before_word && run.total > run.last ? run.total - run.last : run.total;
  }

  std::size_t contraction_bytes() const {
    constexpr std::array<std::string_view, 7> kEndings = {"'s", "'t",  "'re", "'ve",
                                                          "'m", "'ll", "'d"};
    for (const std::string_view ending : kEndings) {
      if (text_.starts_with(ending)) return ending.size();
    }
    return 0;
  }

  struct Run {
    std::size_t total = 0;  // bytes of all its characters
    std::size_t last = 0;   // bytes of the last one
  };
  static Run run_bytes(std::string_view text, CharacterClass kind) {
    Run run;
    while (run.total < text.size()) {
      const Utf8Character next = first_character(text.substr(run.total));
      if (character_class(next.code_point) != kind) break;
      run.last = next.bytes;
      run.total += next.bytes;
    }
    return run;
  }

  std::string_view text_;
  std::vector<std::string_view>& words_;
};

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_from_name(std::string_view name) {
  if (name == "smollm") return PreTokenizer::Smollm;
  return std::nullopt;
}

std::vector<std::string_view> split_words(PreTokenizer kind, std::string_view text) {
  std::vector<std::string_view> words;
  switch (kind) {
    case PreTokenizer::Smollm: {
      std::size_t start = 0;
      for (std::size_t at = 0; at < text.size();) {
        const Utf8Character next = first_character(text.substr(at));
        if (character_class(next.code_point) == CharacterClass::Number) {
          Gpt2Splitter(text.substr(start, at - start), words).run();
          words.push_back(text.substr(at, next.bytes));
          start = at + next.bytes;
        }
        at += next.bytes;
      }
      Gpt2Splitter(text.substr(start), words).run();
      break;
    }
  }
  return words;
}

}  // namespace lockstep::model
