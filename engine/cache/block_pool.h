// BlockPool: the blocks of one KV pool: who holds them, which may be handed out, which have keys.
//
// A block is in exactly one state:
//   free       count 0, no key, in the free queue
//   evictable  count 0, a key, in the free queue: handed out only when its turn comes
//   used       count > 0
//   reserved   count 0, but a launch in flight may still read or write it: in no queue
// free + evictable + used + reserved = block_count, always. One queue, at first 0, 1, 2, ...;
// blocks are handed out from its head and join its tail.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/cache/block_key.h"
#include "trace/ids.h"

namespace lockstep::engine {

using trace::BlockId;

class BlockPool {
 public:
  explicit BlockPool(std::uint32_t block_count);

  std::uint32_t block_count() const { return static_cast<std::uint32_t>(blocks_.size()); }
  std::uint32_t free_count() const { return queued_ - evictable_; }
  std::uint32_t evictable_count() const { return evictable_; }
  std::uint32_t used_count() const { return used_; }
  std::uint32_t reserved_count() const { return static_cast<std::uint32_t>(reserved_.size()); }
  // Blocks that take() can hand out.
  std::uint32_t available() const { return queued_; }

  // The head of the queue, with count 1. Its key is dropped; `dropped` says so. available() > 0.
  BlockId take(bool* dropped_key = nullptr);
  // One holder more. A block of count 0 leaves its queue (it keeps its key).
  void pin(BlockId block);
  // One holder fewer. At 0 the block joins the tail of the queue, or is reserved while in flight.
  void unpin(BlockId block);
  std::uint32_t count(BlockId block) const;

  // A launch that may read or write the block was made; has completed (or was given up). A reserved
  // block of no launch joins the queue, those that were reserved first, first.
  void begin_use(BlockId block);
  void end_use(BlockId block);

  // The block may be found by `key` from now on. False, and no change, if the key is taken.
  bool publish(BlockId block, const BlockKey& key);
  std::optional<BlockId> find(const BlockKey& key) const;
  const BlockKey* key(BlockId block) const;  // null: none
  // The key is dropped, the block stays where it is. No effect without a key.
  void drop_key(BlockId block);
  // Drops the keys of up to `count` evictable blocks in queue order; returns those blocks.
  std::vector<BlockId> evict(std::uint32_t count);

  // Hand-out order, and reserved blocks in the order in which they were released.
  std::vector<BlockId> free_queue() const;
  const std::vector<BlockId>& reserved() const { return reserved_; }
  // Depends on everything above: queue order, counts, keys.
  base::Hash128 digest() const;
};

}  // namespace lockstep::engine
