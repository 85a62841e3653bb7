// BlockKey: names the content of a full KV block. Injective by construction: a chain over blocks,
// each link the hash of a tagged, length-prefixed encoding of all that a cell's content depends on:
// model, group, adapter, salt, media, and every token from the sequence's start to the block's end.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "trace/ids.h"

namespace lockstep::engine {

// All 256 bits are compared on a hit; a pool's map keeps `prefix_hash_bits` of them, and a second
// content with the same kept bits is not published: fewer bits cost hits, never a wrong one.
struct BlockKey {
  base::Hash128 first, second;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

std::string hex(const BlockKey& key);  // 64 digits

struct KeyScope {  // of a request: the same for all of its blocks
  std::uint64_t model = 0;
  std::optional<std::uint64_t> adapter;  // distinct for distinct tensors
  std::optional<std::string> salt;
};

// Encodings, all integers little-endian; a key is the hash of 0x01 + encoding, then of 0x02 +
// encoding:
//   root   'R', model u64, group u32, block_size u32, adapter: 0 | 1 u64, salt: 0 | 1, length u64,
//          bytes
//   block  'B', previous key 4 * u64, token count u64, tokens u32 each
// Absent and empty differ; no field can end where another begins.
class BlockKeyChain {
 public:
  // The key before a request's first block.
  BlockKey root(const KeyScope& scope, std::uint32_t group, std::uint32_t block_size);
  // The key of the block with these tokens, after the block (or root) of key `previous`.
  BlockKey next(const BlockKey& previous, std::span<const trace::TokenId> tokens);

 private:
  void begin(char tag);
  void put(std::uint64_t value, std::size_t byte_count);
  BlockKey finish();

  std::vector<std::byte> bytes_;  // kept between calls, so that few of them allocate
};

}  // namespace lockstep::engine
