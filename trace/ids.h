// Distinct id types: a request is no page, an index is no count.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace lockstep::trace {

template <class Tag>
struct Id {
  std::uint32_t value = 0;
  friend auto operator<=>(Id, Id) = default;
};

using RequestId = Id<struct RequestTag>;  // one life of one request; never used again in a run
using LayerIndex = Id<struct LayerTag>;   // 0-based; model-wide taps use layer 0
using BlockId = Id<struct BlockTag>;      // of one pool
using PageId = BlockId;
inline constexpr BlockId kNoBlock{0xffffffff};  // given back, or never held
using LaunchIndex = Id<struct LaunchTag>;       // ordinal of an engine step

using Tick = std::uint64_t;
using TokenId = std::uint32_t;
using Position = std::uint32_t;  // of a token in its request's sequence, 0-based

// One token of one request: what a row of a batch stands for.
struct RowId {
  RequestId request;
  Position position = 0;
  friend auto operator<=>(const RowId&, const RowId&) = default;
};

}  // namespace lockstep::trace
