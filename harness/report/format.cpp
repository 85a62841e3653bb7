#include "harness/report/format.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace lockstep::harness {
namespace {

struct Piece {
  std::size_t bytes;  // of the input
  bool valid;
};

// Length of the well-formed UTF-8 sequence at `at`, or of the maximal invalid part.
Piece next_piece(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {1, true};
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) length = 2;
  if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  }
  if (length == 0) return {1, false};
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

}  // namespace

std::string format_count(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f} G", value / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f} M", value / 1e6);
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string format_ratio(std::optional<double> ratio) {
  if (!ratio) return "-";
  if (std::isinf(*ratio)) return "inf";
  return *ratio < 1000 ? fmt::format("{:.2f}", *ratio) : fmt::format("{:.1e}", *ratio);
}

std::string format_error(double value) { return fmt::format("{:.1e}", value); }

std::string valid_utf8(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const Piece piece = next_piece(text, at);
    result += piece.valid ? std::string(text.substr(at, piece.bytes)) : std::string("\xef\xbf\xbd");
    at += piece.bytes;
  }
  return result;
}

std::string quote(std::string_view text, std::size_t width) {
  const std::string valid = valid_utf8(text);
  std::vector<std::string> cells;
  for (std::size_t at = 0; at < valid.size();) {
    const std::size_t bytes = next_piece(valid, at).bytes;
    const std::string_view cell = std::string_view(valid).substr(at, bytes);
    if (cell == "\n") {
      cells.emplace_back("\\n");
    } else if (cell == "\t") {
      cells.emplace_back("\\t");
    } else if (cell == "\"" || cell == "\\") {
      cells.push_back("\\" + std::string(cell));
    } else if (bytes == 1 && (static_cast<unsigned char>(cell[0]) < 0x20 || cell[0] == 0x7f)) {
      cells.push_back(fmt::format("\\x{:02x}", static_cast<unsigned char>(cell[0])));
    } else {
      cells.emplace_back(cell);
    }
    at += bytes;
  }
  std::string result = "\"";
  std::size_t used = 0;
  for (const std::string& cell : cells) {
    const std::size_t columns = static_cast<unsigned char>(cell[0]) < 0x80 ? cell.size() : 1;
    if (used + columns > width) return result + "...\"";
    used += columns;
    result += cell;
  }
  return result + "\"";
}

}  // namespace lockstep::harness
