// Tokens of PTX text (PTX ISA 9.0, chapter 4 "Syntax"): identifiers, dotted words, numbers, strings
// and single characters. Comments and white space are skipped; lines are counted from 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::device::vgpu::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    End,
    Identifier,   // text: "%r1", "$L__BB0_1", "ld", "_"
    Dotted,       // text without the first dot: "global", "shared::cta", "16x256b"
    Integer,      // bits
    Float32,      // 0f...: bits of the float32
    Float64,      // 0d... or decimal: bits of the float64
    String,       // text between the quotes, escapes as written
    Punctuation,  // text: one character
    Bad,          // the lexer's problem() says what is wrong
  };
  Kind kind = Kind::End;
  std::uint32_t line = 1;
  std::string_view text = {};
  std::uint64_t bits = 0;

  bool is(char punctuation) const { return kind == Kind::Punctuation && text[0] == punctuation; }
};

// Views into `text`, which must outlive the tokens. After Bad or End it returns the same again.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();
  // Goes on after the next `wanted` outside strings, without making tokens of what lies before;
  // false: there is none.
  bool skip_past(char wanted);
  const std::string& problem() const { return problem_; }

 private:
  bool skip_space();  // false: an unclosed comment
  Token number();
  Token prefixed_float(std::size_t start);
  Token decimal_float(std::size_t start, std::size_t end);
  Token string();
  Token bad(std::string problem);
  char at(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }
  Token token(Token::Kind kind, std::size_t start, std::size_t end, std::uint64_t bits = 0) {
    position_ = end;
    return {kind, line_, text_.substr(start, end - start), bits};
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  std::string problem_ = {};
};

}  // namespace lockstep::device::vgpu::ptx
