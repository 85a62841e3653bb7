// BlockKey: names the content of a full KV block. Injective by construction: a chain over blocks,
// each link the hash of a tagged, length-prefixed encoding of all that a cell's content depends on:
// model, group, adapter, salt, media, and every token from the sequence's start to the block's end.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/hash.h"
#include "trace/ids.h"

namespace lockstep::engine {

// All 256 bits are compared on a hit; a pool's map keeps `prefix_hash_bits` of them, and a second
// content with the same kept bits is not published: fewer bits cost hits, never a wrong one.
struct BlockKey {
  base::Hash128 first, second;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

struct KeyScope {  // of a request: the same for all of its blocks
  std::uint64_t model = 0;
  std::optional<std::uint64_t> adapter;  // distinct for distinct tensors
  std::optional<std::string> salt;
};

}  // namespace lockstep::engine
