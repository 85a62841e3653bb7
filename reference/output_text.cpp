// Follows table 3-7 of the Unicode Standard byte by byte.
#include "reference/output_text.h"

#include <cstdint>

namespace lockstep::reference {
namespace {

struct ByteRange {
  unsigned char low = 0x80, high = 0xbf;
};

// Row of table 3-7 that a first byte opens: how many bytes follow, and what the first of these may
// be (the others are 80..BF).
struct SequenceStart {
  int following = -1;  // -1: no sequence starts so
  ByteRange second;
};

SequenceStart start_of(unsigned char byte) {
  if (byte < 0x80) return {0, {}};
  if (byte < 0xc2) return {};
  if (byte < 0xe0) return {1, {}};
  if (byte == 0xe0) return {2, {0xa0, 0xbf}};  // no overlong forms
  if (byte == 0xed) return {2, {0x80, 0x9f}};  // no surrogates
  if (byte < 0xf0) return {2, {}};
  if (byte == 0xf0) return {3, {0x90, 0xbf}};
  if (byte < 0xf4) return {3, {}};
  if (byte == 0xf4) return {3, {0x80, 0x8f}};  // up to U+10FFFF
  return {};
}

}  // namespace

std::string decode_utf8(std::string_view bytes) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string text;
  text.reserve(bytes.size());
  std::size_t i = 0;
  while (i < bytes.size()) {
    const SequenceStart start = start_of(static_cast<unsigned char>(bytes[i]));
    ByteRange range = start.second;
    std::size_t length = 1;
    int missing = start.following;
    while (missing > 0 && i + length < bytes.size()) {
      const auto byte = static_cast<unsigned char>(bytes[i + length]);
      if (byte < range.low || byte > range.high) break;
      range = {};
      ++length;
      --missing;
    }
    text += missing == 0 ? bytes.substr(i, length) : kReplacement;
    i += length;
  }
  return text;
}

std::string output_text(std::span<const trace::TokenId> tokens) {
  std::string bytes;
  bytes.reserve(tokens.size());
  for (const trace::TokenId token : tokens) {
    if (token < 256) bytes.push_back(static_cast<char>(token));
  }
  return decode_utf8(bytes);
}

}  // namespace lockstep::reference
