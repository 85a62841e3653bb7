// BlockPool: the blocks of one KV pool: who holds them, which may be handed out, which have keys.
//
// A block is in exactly one state:
//   free       count 0, no key, in the free queue
//   evictable  count 0, a key, in the free queue: handed out only when its turn comes
//   used       count > 0
//   reserved   count 0, but a launch in flight may still read or write it: in no queue
// free + evictable + used + reserved = block_count, always. One queue, at first 0, 1, 2, ...;
// blocks are handed out from its head and join its tail.
//
// Nothing but the constructor (and what returns a vector) allocates: no operation can fail
// half-way. All take constant time, but pin() of a reserved block and end_use() that frees one
// (linear in the reserved blocks), evict(), free_queue() and peek().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/block_key.h"
#include "trace/ids.h"

namespace lockstep::engine {

using trace::BlockId;

// Where other block managers decide otherwise; the defaults are the engine's (docs/scenario.md,
// rule 3). vLLM since 0.24 does both; see docs/block_managers.md.
struct PoolPolicy {
  // Blocks without a key, which nobody can hit, join the head of the queue, not its tail.
  bool unkeyed_to_head = false;
  // Blocks of equal content all have the key; the one that got it first is found. Otherwise the
  // map is bijective, and a second block of equal content stays without a key.
  bool equal_contents = false;
};

class BlockPool {
 public:
  // At most 2^31 - 1 blocks. `key_bits`, 8..256: bits of a key that the map keeps.
  explicit BlockPool(std::uint32_t block_count, std::uint32_t key_bits = 256,
                     PoolPolicy policy = {});

  std::uint32_t block_count() const { return block_count_; }
  std::uint32_t free_count() const { return queued_ - evictable_; }
  std::uint32_t evictable_count() const { return evictable_; }
  std::uint32_t used_count() const { return used_; }
  std::uint32_t reserved_count() const { return static_cast<std::uint32_t>(reserved_.size()); }
  // Blocks that take() can hand out.
  std::uint32_t available() const { return queued_; }

  // The head of the queue, with count 1. Its key is dropped; `dropped` says so. available() > 0.
  BlockId take(bool* dropped_key = nullptr);
  // The first blocks of the queue, which the next calls of take() will give.
  void peek(std::uint32_t count, std::vector<BlockId>& blocks) const;
  // What a pin() changed, for undo(): `place` is the block before it in the queue (block_count():
  // none), or its index in reserved().
  struct Pinned {
    BlockId block;
    enum class From : std::uint8_t { Used, Queue, Reserved } from = From::Used;
    std::uint32_t place = 0;
  };
  // One holder more. A block of count 0 leaves its queue (it keeps its key).
  Pinned pin(BlockId block);
  // Takes back the latest pin() not yet undone, order included. Nothing else changed since.
  void undo(const Pinned& pinned);
  // One holder fewer. At 0 the block joins the tail of the queue, or is reserved while in flight.
  void unpin(BlockId block) { unpin(std::span(&block, 1)); }
  void unpin(std::span<const BlockId> blocks);  // released together, in this order
  std::uint32_t count(BlockId block) const { return at(block).count; }
  // Launches in flight that may read or write the block.
  std::uint32_t uses(BlockId block) const { return at(block).uses; }

  // A launch that may read or write the block was made; has completed (or was given up). A reserved
  // block of no launch joins the queue, those that were reserved first, first.
  void begin_use(BlockId block) { ++at(block).uses; }
  void end_use(BlockId block);
  // The same in two parts, for all blocks of a launch: first each of them ends, then the reserved
  // blocks of no launch join. end_one_use() says whether there is one more of these.
  bool end_one_use(BlockId block);
  void queue_ended();

  // The block may be found by `key` from now on. False, and no change, if the key is taken (also by
  // another one with the same kept bits), or if the block has one.
  // With `equal_contents` a block of the same whole key is no obstacle.
  bool publish(BlockId block, const BlockKey& key);
  bool can_publish(BlockId block, const BlockKey& key) const;
  std::optional<BlockId> find(const BlockKey& key) const;
  const BlockKey* key(BlockId block) const;  // null: none
  // The key is dropped, the block stays where it is. No effect without a key.
  void drop_key(BlockId block);
  // Drops the keys of up to `count` evictable blocks in queue order; returns those blocks.
  std::vector<BlockId> evict(std::uint32_t count);

  // Hand-out order, and reserved blocks in the order in which they were released.
  std::vector<BlockId> free_queue() const;
  const std::vector<BlockId>& reserved() const { return reserved_; }
  // Depends on queue order, counts, keys and reserved blocks, and on nothing else: pools in equal
  // states have equal digests, whatever their past. Constant time (linear in reserved blocks).
  base::Hash128 digest() const;

 private:
  static constexpr std::uint32_t kEmptySlot = 0xffffffff;

  struct Node {
    std::uint32_t next = 0, previous = 0;  // in the queue, a ring closed by the node block_count_
    std::uint32_t count = 0;               // holders
    std::uint32_t uses = 0;                // launches in flight
    bool queued = false, has_key = false;
  };
  // Sums over edges of the queue (neighbour pairs determine its order), counts and keys: each
  // change adds and subtracts terms.
  struct Sum {
    std::uint64_t high = 0, low = 0;
    void add(std::uint64_t tag, std::uint64_t a, std::uint64_t b);
    void subtract(std::uint64_t tag, std::uint64_t a, std::uint64_t b);
  };

  Node& at(BlockId block);
  const Node& at(BlockId block) const;
  void link_after(std::uint32_t previous, std::uint32_t block);
  // The block joins the queue by the policy; `at_head`: after which node, if at the head.
  void enqueue(std::uint32_t block, std::uint32_t& at_head);
  void unlink(std::uint32_t block);
  void set_count(std::uint32_t block, std::uint32_t count);
  void add_key_term(std::uint32_t block, bool add);

  // The map from kept bits of keys to blocks: open addressing, linear probing; it never grows, as
  // each block is in it at most once.
  BlockKey kept(const BlockKey& key) const;
  std::size_t home(const BlockKey& key) const;
  std::size_t slot_of(const BlockKey& key) const;  // of the key's kept bits, or an empty one
  void erase_slot(std::size_t slot);
  void join_equals(std::uint32_t block, std::uint32_t first);
  void leave_equals(std::uint32_t block);

  struct Equals {  // blocks of one key, in the order in which they got it; an end: kEmptySlot
    std::uint32_t next, previous;
  };

  std::uint32_t block_count_;
  PoolPolicy policy_;
  std::uint32_t queued_ = 0, evictable_ = 0, used_ = 0;
  std::vector<Node> nodes_;     // of the blocks, and the queue's end
  std::vector<BlockKey> keys_;  // where has_key
  std::vector<BlockId> reserved_;
  BlockKey key_mask_;
  std::vector<std::uint32_t> slots_;  // blocks; a power of two, at most half full
  std::size_t slot_mask_;
  std::vector<Equals> equals_;  // with equal_contents
  Sum sum_;
};

}  // namespace lockstep::engine
