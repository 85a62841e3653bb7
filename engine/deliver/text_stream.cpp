#include "engine/deliver/text_stream.h"

#include <algorithm>
#include <cstdint>

namespace lockstep::engine {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

// Length of the character that a lead byte begins; 0: it begins none (Unicode 15, table 3-7).
std::size_t character_length(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

// Whether `next` may follow the bytes of a well-formed, unfinished character (the same table).
bool may_follow(const std::string& begun, std::uint8_t next) {
  if (next < 0x80 || next > 0xbf) return false;
  if (begun.size() > 1) return true;
  switch (static_cast<std::uint8_t>(begun[0])) {
    case 0xe0:
      return next >= 0xa0;
    case 0xed:
      return next <= 0x9f;
    case 0xf0:
      return next >= 0x90;
    case 0xf4:
      return next <= 0x8f;
    default:
      return true;
  }
}

}  // namespace

std::string TextStream::push(trace::TokenId token) {
  if (token >= 256) return "";
  const auto byte = static_cast<std::uint8_t>(token);
  std::string out;
  if (!pending_.empty() && !may_follow(pending_, byte)) {
    out += kReplacement;
    pending_.clear();
  }
  if (pending_.empty() && character_length(byte) == 0) return out + kReplacement;
  pending_ += static_cast<char>(byte);
  if (pending_.size() == character_length(static_cast<std::uint8_t>(pending_[0]))) {
    out += pending_;
    pending_.clear();
  }
  return out;
}

std::string TextStream::finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return kReplacement;
}

}  // namespace lockstep::engine
