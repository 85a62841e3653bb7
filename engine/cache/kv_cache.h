// KvCache: which blocks hold which positions of which request, in every group, over shared pools;
// prefixes that may be reused; copy-on-write between forks.
//
// Laws: after reserve() a request holds, per paged group, exactly the blocks that its tokens need
// (less those out of a window). Admission and growth are all or nothing: a refusal leaves
// everything as it was, order included. A block is written only by a request that alone holds it.
// Only full blocks whose cells are all written and whose launch has completed are published. A hit
// is pinned when it is looked up: no other request can be handed its blocks.
//
// What a group's table holds, position by position (entry i: [i * block_size, (i + 1) *
// block_size)):
//   full attention   every block
//   sliding window   the same, less those that trim() gave back or a hit or fork left out
//   (kNoBlock) mamba            every block, but after a hit only the one whose state goes on;
//   block i holds
//                    the state after the last token of the last launch that ended in its range
// Order of hand-out: group after group, in each by position. Order of release: group after group,
// in each the last position first (vLLM's free and remove_skipped_blocks).
//
// Events are sent when a change is complete, in the order of the change. Those of look_up() are
// held back until the next change succeeds, and never sent if undo_look_up() takes it back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
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
  KvCache(const trace::EngineSettings& settings, EventSink sink, PoolPolicy policy = {});

  // A request begins, holding nothing.
  void open(trace::RequestId request, const KeyScope& scope);
  bool is_open(trace::RequestId request) const { return entries_.contains(request); }
  // Whether a request of `token_count` tokens can run alone in empty pools: its first
  // `prompt_count` in steps as large as settings allow, the others one by one; and, from any
  // position on, a step of one token, so that one that begins elsewhere (behind a hit, or less
  // than a budget) can go on in steps cut by fitting().
  bool can_ever_hold(std::uint32_t prompt_count, std::uint32_t token_count) const;
  // At most `count` tokens, as many as one step from position `first` on may have in empty pools.
  std::uint32_t fitting(std::uint32_t first, std::uint32_t count) const;

  // The longest hit of `tokens`: a whole number of blocks of every group, valid in every group, at
  // most `limit` tokens. Pins it: the request holds those blocks. The request held nothing before.
  // A request's tokens only ever grow: what was looked up or committed once is not read again.
  std::uint32_t look_up(trace::RequestId request, std::span<const trace::TokenId> tokens,
                        std::uint32_t limit);
  // The admission that began with look_up() was refused (reserve() said no): the request holds
  // nothing again, and every pool is exactly as before look_up(), queue order included. Nothing
  // else may have happened in between. AllocationRefused is sent by the caller with pools_digest().
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
  // Whether the parent holds what a child needs that goes on at position `token_count`. (Of a mamba
  // group only that it has the block: whether its state is of that position, the caller knows.)
  bool can_fork(trace::RequestId parent, std::uint32_t token_count) const;
  // The child holds the parent's blocks of its first `token_count` tokens, less those out of the
  // window of the next. It is opened with the parent's scope, unless it is open and holds nothing.
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
  void reset_prefix_cache();  // drops all keys, of blocks in use too

  std::uint32_t group_count() const { return static_cast<std::uint32_t>(groups_.size()); }
  std::uint32_t pool_count() const { return static_cast<std::uint32_t>(pools_.size()); }
  const trace::GroupSpec& group(std::uint32_t index) const { return groups_.at(index); }
  const BlockPool& pool(std::uint32_t index) const { return pools_.at(index); }
  void count_pools();  // sends PoolCounted of each

 private:
  struct GroupState {
    std::vector<BlockId> table;
    BlockKey root;
    std::vector<BlockKey> keys;   // of the request's first blocks, as far as they were needed
    std::uint32_t published = 0;  // blocks before this one were published or passed over
  };
  struct Entry {
    KeyScope scope;
    std::vector<GroupState> groups;
  };
  struct PendingHit {  // a look_up() that can still be undone
    trace::RequestId request;
    std::vector<std::pair<std::uint32_t, BlockPool::Pinned>> pins;  // pool, in order
    std::vector<trace::BlocksHit> events;
  };
  // One table entry that reserve() fills: a new block, or a copy of `source`.
  struct Step {
    std::uint32_t group = 0, index = 0;
    BlockId source = trace::kNoBlock;
  };
  struct Plan {  // of one reserve(); kept between calls, so that few of them allocate
    std::vector<Step> steps;
    std::vector<std::pair<std::uint32_t, BlockId>> key_drops;  // written in place
    std::vector<std::uint32_t> needed;                         // blocks of each pool
    std::vector<trace::Event> events;
    std::vector<std::vector<BlockId>> handed_out;  // of each pool
  };

  Entry& entry(trace::RequestId request);
  const Entry& entry(trace::RequestId request) const;
  void settle();  // a pending hit is final: its events are sent
  void send(trace::Event event) const;
  // Whether empty pools have the blocks of a step of positions [first, end): of a window group
  // those that the window of `first` reaches and later ones, of the others all.
  bool step_fits(std::uint32_t first, std::uint32_t end) const;
  // First block that position `next` (and later ones) still needs.
  static std::uint32_t first_needed(const trace::GroupSpec& group, std::uint32_t next);
  // The first block that a launch of [first, end) writes.
  static std::uint32_t first_written(const trace::GroupSpec& group, std::uint32_t first,
                                     std::uint32_t end);

  const BlockKey& key_of(Entry& entry, std::uint32_t group, std::uint32_t index,
                         std::span<const trace::TokenId> tokens);
  std::uint32_t longest_hit(Entry& entry, std::span<const trace::TokenId> tokens,
                            std::uint32_t limit);
  void publish(trace::RequestId request, std::uint32_t group, std::uint32_t index,
               std::span<const trace::TokenId> tokens);

  void plan_group(const Entry& entry, std::uint32_t group, std::uint32_t first, std::uint32_t end);
  std::optional<Growth> refusal(const AllocationFault& fault) const;
  void plan_events(trace::RequestId request, const Entry& entry, trace::LaunchIndex launch);
  void make_room(Entry& entry, CacheOps& ops);
  void apply(Entry& entry, CacheOps& ops);

  std::vector<trace::GroupSpec> groups_;
  std::vector<BlockPool> pools_;
  bool prefix_caching_, fill_;
  std::uint32_t step_tokens_max_;  // of one request
  std::uint32_t hit_granularity_;  // tokens: least common multiple of all block sizes
  EventSink sink_;
  std::map<trace::RequestId, Entry> entries_;
  std::optional<PendingHit> pending_;
  BlockKeyChain chain_;
  Plan plan_;
  // Of longest_hit(): for each group and block, how many blocks in a row end there that are found.
  std::vector<std::vector<std::uint32_t>> runs_;
};

}  // namespace lockstep::engine
