// Tokens of PTX text; lexer.h has their shapes.
#include "device/vgpu/ptx/lexer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <system_error>

namespace lockstep::device::vgpu::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

constexpr std::string_view kPunctuation = "{}[]()<>,;:+-*/|!@=~&^?";

std::string shown(char c) {
  if (c > ' ' && c < '\x7f') return std::string("'") + c + "'";
  return "byte " + std::to_string(static_cast<unsigned char>(c));
}

}  // namespace

Token Lexer::bad(std::string problem) {
  problem_ = std::move(problem);
  return {Token::Kind::Bad, line_, {}, 0};
}

bool Lexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++position_;
    } else if (c == '/' && at(position_ + 1) == '/') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == '/' && at(position_ + 1) == '*') {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) return false;
      for (; position_ < end; ++position_) line_ += text_[position_] == '\n';
      position_ = end + 2;
    } else {
      return true;
    }
  }
  return true;
}

Token Lexer::next() {
  if (!problem_.empty()) return {Token::Kind::Bad, line_, {}, 0};
  if (!skip_space()) return bad("a comment /* must end with */");
  if (position_ == text_.size()) return {Token::Kind::End, line_, {}, 0};
  const std::size_t start = position_;
  const char c = text_[start];
  std::size_t end = start + 1;
  if (is_letter(c) || c == '_' || c == '$' || (c == '%' && is_word(at(end)))) {
    while (is_word(at(end))) ++end;
    return token(Token::Kind::Identifier, start, end);
  }
  if (c == '.' && is_word(at(end))) {
    for (;;) {
      while (is_word(at(end))) ++end;
      if (at(end) != ':' || at(end + 1) != ':' || !is_word(at(end + 2))) break;
      end += 2;
    }
    return token(Token::Kind::Dotted, start + 1, end);
  }
  if (is_digit(c)) return number();
  if (c == '"') return string();
  if (kPunctuation.find(c) != std::string_view::npos) {
    return token(Token::Kind::Punctuation, start, end);
  }
  return bad("unexpected " + shown(c));
}

bool Lexer::skip_past(char wanted) {
  bool in_string = false;
  while (position_ < text_.size()) {
    const char c = text_[position_++];
    line_ += c == '\n';
    if (c == '"' || c == '\n') in_string = c == '"' && !in_string;
    if (c == wanted && !in_string) return true;
  }
  return false;
}

Token Lexer::prefixed_float(std::size_t start) {
  const bool is_double = (text_[start + 1] | 0x20) == 'd';
  const std::size_t digits = is_double ? 16 : 8;
  std::uint64_t bits = 0;
  const std::string_view hex = text_.substr(start + 2, digits);
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  const std::size_t past = start + 2 + digits;
  if (error != std::errc() || hex.size() != digits || end != hex.data() + digits ||
      is_word(at(past))) {
    return bad(is_double ? "0d must be followed by 16 hexadecimal digits"
                         : "0f must be followed by 8 hexadecimal digits");
  }
  return token(is_double ? Token::Kind::Float64 : Token::Kind::Float32, start, past, bits);
}

Token Lexer::decimal_float(std::size_t start, std::size_t end) {
  if (at(end) == '.') {
    ++end;
    while (is_digit(at(end))) ++end;
  }
  if ((at(end) | 0x20) == 'e') {
    ++end;
    if (at(end) == '+' || at(end) == '-') ++end;
    if (!is_digit(at(end))) return bad("an exponent must have digits");
    while (is_digit(at(end))) ++end;
  }
  if (is_word(at(end))) return bad("a number must not run into a word");
  double value = 0;
  const auto [stop, error] = std::from_chars(text_.data() + start, text_.data() + end, value);
  if (error != std::errc() || stop != text_.data() + end) {
    return bad("a decimal number must fit a float64");
  }
  return token(Token::Kind::Float64, start, end, std::bit_cast<std::uint64_t>(value));
}

Token Lexer::number() {
  const std::size_t start = position_;
  const char second = static_cast<char>(at(start + 1) | 0x20);
  int base = 10;
  std::size_t digits = start;
  if (text_[start] == '0') {
    if (second == 'f' || second == 'd') return prefixed_float(start);
    if (second == 'x' || second == 'b') {
      base = second == 'x' ? 16 : 2;
      digits += 2;
    } else if (is_digit(at(start + 1))) {
      base = 8;
      digits += 1;
    }
  }
  std::size_t end = start;
  if (base == 10 || base == 8) {
    while (is_digit(at(end))) ++end;
    const char after = at(end);
    if (after == '.' || after == 'e' || after == 'E') return decimal_float(start, end);
  }
  std::uint64_t bits = 0;
  const auto [stop, error] =
      std::from_chars(text_.data() + digits, text_.data() + text_.size(), bits, base);
  if (error == std::errc::result_out_of_range) return bad("an integer must fit 64 bits");
  if (error != std::errc()) return bad("a number must have digits");
  end = static_cast<std::size_t>(stop - text_.data());
  const std::size_t digits_end = end;
  if ((at(end) | 0x20) == 'u') ++end;
  if (is_word(at(end))) return bad("a number must not run into a word");
  Token result = token(Token::Kind::Integer, start, end, bits);
  result.text = text_.substr(start, digits_end - start);
  return result;
}

Token Lexer::string() {
  const std::size_t start = position_;
  std::size_t end = start + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' && at(end + 1) != '\n' ? 2 : 1;
  }
  if (at(end) != '"') return bad("a string must end on its line");
  Token result = token(Token::Kind::String, start, end + 1);
  result.text = text_.substr(start + 1, end - start - 1);
  return result;
}

}  // namespace lockstep::device::vgpu::ptx
