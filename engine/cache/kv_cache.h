// KvCache: which blocks hold which positions of which request, in every group, over shared pools;
// prefixes that may be reused; copy-on-write between forks.
//
// Laws: after reserve() a request holds, per paged group, exactly the blocks that its tokens need
// (less those out of a window). Admission and growth are all or nothing: a refusal leaves
// everything as it was, order included. A block is written only by a request that alone holds it.
// Only full blocks whose cells are all written and whose launch has completed are published. A hit
// is pinned when it is looked up: no other request can be handed its blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/cache/block_pool.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::engine {

using EventSink = std::function<void(trace::Event)>;

struct CopyOp {  // on the compute stream, before the launch that was planned with it
  std::uint32_t pool = 0;
  BlockId source, destination;
};
struct FillOp {
  std::uint32_t pool = 0;
  BlockId block;
};
// What a plan needs done before its launch.
struct CacheOps {
  std::vector<FillOp> fills;  // of blocks newly handed out, in hand-out order
  std::vector<CopyOp> copies;
};

// Asked before each block is handed out; true: this call fails (an injected fault).
using AllocationFault = std::function<bool(std::uint32_t pool)>;

enum class Growth : std::uint8_t {
  Done,
  Short,     // too few blocks; enough with those reserved
  Starved,   // too few even so: somebody must give blocks back
  Injected,  // an injected fault: try again later
};

class KvCache {
 public:
  KvCache(const trace::EngineSettings& settings, EventSink sink);

  // A request begins, holding nothing.
  void open(trace::RequestId request, const KeyScope& scope);
  // Whether `token_count` tokens of one request fit in empty pools.
  bool can_ever_hold(std::uint64_t token_count) const;

  // The longest hit of `tokens`: a whole number of blocks of every group, valid in every group, at
  // most `limit` tokens. Pins it: the request holds those blocks. The request held nothing before.
  std::uint32_t look_up(trace::RequestId request, std::span<const trace::TokenId> tokens,
                        std::uint32_t limit);
  // The admission that began with look_up() was refused (reserve() said no): the request holds
  // nothing again, and every pool is exactly as before look_up(), queue order included. Nothing else
  // may have happened in between. AllocationRefused is sent by the caller with pools_digest().
  void undo_look_up(trace::RequestId request);
  base::Hash128 pools_digest() const;
  // Makes room for positions [0, end) of which [first, end) will be written by `launch`: takes
  // blocks, and copies those that others hold too. All or nothing. `ops` gets what to do before it.
  Growth reserve(trace::RequestId request, std::uint32_t first, std::uint32_t end,
                 trace::LaunchIndex launch, const AllocationFault& fault, CacheOps& ops);
  // Cells of positions [0, tokens.size()) are written and their launches have completed: publishes
  // full blocks. Mamba: `launch_end` is the position after the launch's last token; only a block
  // that ends there holds its state.
  void commit(trace::RequestId request, std::span<const trace::TokenId> tokens,
              std::uint32_t launch_end);
  // Blocks wholly before the window of position `next` and later go back.
  void trim(trace::RequestId request, std::uint32_t next);
  // The child holds the parent's blocks of its first `token_count` tokens.
  void fork(trace::RequestId parent, trace::RequestId child, std::uint32_t token_count);
  // Gives back everything; the request holds nothing (it stays open). Its last block first, group
  // after group.
  void release(trace::RequestId request);
  void close(trace::RequestId request);  // release, and forget

  // Blocks in order of positions; kNoBlock: given back, or before a window.
  std::span<const BlockId> table(trace::RequestId request, std::uint32_t group) const;
  // All blocks that the request's tables name are in use by a launch; no longer.
  void begin_use(std::span<const std::pair<std::uint32_t, BlockId>> pool_blocks);
  void end_use(std::span<const std::pair<std::uint32_t, BlockId>> pool_blocks);

  std::vector<BlockId> evict(std::uint32_t pool, std::uint32_t count);
  void reset_prefix_cache();

  std::uint32_t group_count() const;
  const BlockPool& pool(std::uint32_t index) const;
  void count_pools();  // sends PoolCounted of each
};

}  // namespace lockstep::engine
