// Content hash: 128-bit XXH3 of bytes. It names files, rows and traces; it is no security measure.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep::base {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  std::string hex() const;  // 32 digits
};

Hash128 hash_bytes(std::span<const std::byte> bytes);
// Hash of a pair, for folding: depends on the order.
Hash128 hash_combine(Hash128 a, Hash128 b);

}  // namespace lockstep::base
