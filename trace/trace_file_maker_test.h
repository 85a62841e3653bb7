// .lstrace files of any frames, right in their hashes and sizes or not: for tests and fuzz targets.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace lockstep::trace {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

// A file of given frames (kind, raw bytes), right in all that is not said.
class FileMaker {
 public:
  FileMaker() : bytes_(bytes_of(std::string_view("\x89LST\r\n\x1a\n\x01\0\0\0", 12))) {}
  FileMaker& frame(std::string_view kind, std::string_view raw) {
    return frame_of(kind, raw.size(), compressed(raw));
  }
  FileMaker& frame_of(std::string_view kind, std::uint64_t raw_size, const Bytes& stored) {
    const std::size_t start = bytes_.size();
    add(bytes_of(kind));
    add_number(raw_size);
    add_number(stored.size());
    add(stored);
    add(hash(start));
    ++frames_;
    return *this;
  }
  Bytes end() {
    const Bytes digest = hash(0);
    std::string raw;
    for (int i = 0; i < 8; ++i) raw += static_cast<char>(frames_ >> (8 * i));
    for (const std::byte byte : digest) raw += static_cast<char>(byte);
    return frame("END ", raw).bytes_;
  }
  static Bytes compressed(std::string_view raw) {
    Bytes stored(ZSTD_compressBound(raw.size()));
    stored.resize(ZSTD_compress(stored.data(), stored.size(), raw.data(), raw.size(), 1));
    return stored;
  }
  Bytes bytes_;

 private:
  void add(const Bytes& more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  void add_number(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  Bytes hash(std::size_t start) const {
    const std::string hex = base::hash_bytes(std::span(bytes_).subspan(start)).hex();
    Bytes result;
    for (std::size_t i = 0; i < 32; i += 2) {
      result.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    return result;
  }
  std::uint64_t frames_ = 0;
};

}  // namespace lockstep::trace
