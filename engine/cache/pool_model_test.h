// The simplest thing that a block pool can be: what tests compare BlockPool and KvCache with.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "engine/cache/block_pool.h"

namespace lockstep::engine {

using Blocks = std::vector<BlockId>;

struct ModelBlock {
  std::uint32_t count = 0, uses = 0;
  std::optional<std::uint64_t> key;
};

struct PoolModel {
  std::vector<ModelBlock> blocks;
  std::deque<BlockId> queue;
  Blocks reserved;
  std::map<std::uint64_t, std::vector<BlockId>> keys;  // in the order in which they got it
  PoolPolicy policy;

  PoolModel(std::uint32_t block_count, PoolPolicy policy_in) : policy(policy_in) {
    blocks.resize(block_count);
    for (std::uint32_t i = 0; i < block_count; ++i) queue.push_back({i});
  }
  BlockId take() {
    const BlockId block = queue.front();
    queue.pop_front();
    drop(block);
    blocks[block.value].count = 1;
    return block;
  }
  void pin(BlockId block) {
    if (blocks[block.value].count++ > 0) return;
    std::erase(queue, block);
    std::erase(reserved, block);
  }
  void unpin(const Blocks& released) {
    Blocks joining;
    for (const BlockId block : released) {
      ModelBlock& own = blocks[block.value];
      if (--own.count > 0) continue;
      (own.uses > 0 ? reserved : joining).push_back(block);
    }
    join(joining);
  }
  void queue_ended() {
    Blocks ended, still;
    for (const BlockId own : reserved) {
      (blocks[own.value].uses > 0 ? still : ended).push_back(own);
    }
    reserved = still;
    join(ended);
  }
  bool publish(BlockId block, std::uint64_t key) {
    if (blocks[block.value].key || (!policy.equal_contents && keys.contains(key))) return false;
    blocks[block.value].key = key;
    keys[key].push_back(block);
    return true;
  }
  std::optional<BlockId> find(std::uint64_t key) const {
    const auto found = keys.find(key);
    return found == keys.end() ? std::nullopt : std::optional(found->second.front());
  }
  Blocks evict(std::uint32_t count) {
    Blocks evicted;
    for (const BlockId block : queue) {
      if (evicted.size() < count && blocks[block.value].key) evicted.push_back(block);
    }
    for (const BlockId block : evicted) drop(block);
    return evicted;
  }
  void drop(BlockId block) {
    ModelBlock& own = blocks[block.value];
    if (!own.key) return;
    std::vector<BlockId>& holders = keys[*own.key];
    holders.erase(std::find(holders.begin(), holders.end(), block));
    if (holders.empty()) keys.erase(*own.key);
    own.key.reset();
  }
  void join(const Blocks& joining) {
    Blocks front;
    for (const BlockId block : joining) {
      if (policy.unkeyed_to_head && !blocks[block.value].key) {
        front.push_back(block);
      } else {
        queue.push_back(block);
      }
    }
    queue.insert(queue.begin(), front.begin(), front.end());
  }
};

}  // namespace lockstep::engine
