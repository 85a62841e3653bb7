#include "engine/cache/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kEdge = 1, kCount = 2, kKey = 3, kReserved = 4;  // tags of terms

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t scramble(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t term(std::uint64_t seed, std::uint64_t tag, std::uint64_t a, std::uint64_t b) {
  return scramble(scramble(seed + tag * 0x9e3779b97f4a7c15u + a) + b);
}

constexpr std::uint64_t kHighSeed = 0x243f6a8885a308d3u;  // digits of pi
constexpr std::uint64_t kLowSeed = 0x13198a2e03707344u;

std::uint64_t low_bits(std::uint32_t bits) {
  return bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - std::min(bits, 64u));
}

}  // namespace

void BlockPool::Sum::add(std::uint64_t tag, std::uint64_t a, std::uint64_t b) {
  high += term(kHighSeed, tag, a, b);
  low += term(kLowSeed, tag, a, b);
}

void BlockPool::Sum::subtract(std::uint64_t tag, std::uint64_t a, std::uint64_t b) {
  high -= term(kHighSeed, tag, a, b);
  low -= term(kLowSeed, tag, a, b);
}

BlockPool::BlockPool(std::uint32_t block_count, std::uint32_t key_bits, PoolPolicy policy)
    : block_count_(block_count), policy_(policy), queued_(block_count) {
  LS_CHECK(block_count < 0x80000000u);
  LS_CHECK(key_bits >= 8 && key_bits <= 256);
  const auto part = [key_bits](std::uint32_t from) {
    return low_bits(key_bits > from ? key_bits - from : 0);
  };
  key_mask_ = {{part(64), part(0)}, {part(192), part(128)}};
  keys_.resize(block_count);
  reserved_.reserve(block_count);
  slots_.assign(std::bit_ceil(std::size_t{2} * block_count + 1), kEmptySlot);
  slot_mask_ = slots_.size() - 1;
  if (policy.equal_contents) equals_.assign(block_count, {kEmptySlot, kEmptySlot});
  nodes_.resize(std::size_t{block_count} + 1);
  for (std::uint32_t i = 0; i <= block_count; ++i) {
    nodes_[i].next = i == block_count ? 0 : i + 1;
    nodes_[i].previous = i == 0 ? block_count : i - 1;
    nodes_[i].queued = i < block_count;
    sum_.add(kEdge, i, nodes_[i].next);
  }
}

BlockPool::Node& BlockPool::at(BlockId block) {
  LS_CHECK(block.value < block_count_);
  return nodes_[block.value];
}

const BlockPool::Node& BlockPool::at(BlockId block) const {
  LS_CHECK(block.value < block_count_);
  return nodes_[block.value];
}

void BlockPool::link_after(std::uint32_t previous, std::uint32_t block) {
  const std::uint32_t next = nodes_[previous].next;
  sum_.subtract(kEdge, previous, next);
  sum_.add(kEdge, previous, block);
  sum_.add(kEdge, block, next);
  nodes_[previous].next = nodes_[next].previous = block;
  Node& node = nodes_[block];
  node.previous = previous;
  node.next = next;
  node.queued = true;
  ++queued_;
  evictable_ += node.has_key;
}

void BlockPool::unlink(std::uint32_t block) {
  Node& node = nodes_[block];
  sum_.subtract(kEdge, node.previous, block);
  sum_.subtract(kEdge, block, node.next);
  sum_.add(kEdge, node.previous, node.next);
  nodes_[node.previous].next = node.next;
  nodes_[node.next].previous = node.previous;
  node.queued = false;
  --queued_;
  evictable_ -= node.has_key;
}

void BlockPool::set_count(std::uint32_t block, std::uint32_t count) {
  std::uint32_t& old = nodes_[block].count;
  if (old > 0) sum_.subtract(kCount, block, old);
  if (count > 0) sum_.add(kCount, block, count);
  if (old == 0 && count > 0) ++used_;
  if (old > 0 && count == 0) --used_;
  old = count;
}

BlockId BlockPool::take(bool* dropped_key) {
  LS_CHECK(queued_ > 0, "no block to hand out");
  const std::uint32_t block = nodes_[block_count_].next;
  LS_CHECK(nodes_[block].count == 0 && nodes_[block].uses == 0);
  if (dropped_key) *dropped_key = nodes_[block].has_key;
  drop_key({block});
  unlink(block);
  set_count(block, 1);
  return {block};
}

void BlockPool::peek(std::uint32_t count, std::vector<BlockId>& blocks) const {
  LS_CHECK(count <= queued_);
  std::uint32_t block = block_count_;
  for (std::uint32_t i = 0; i < count; ++i) {
    block = nodes_[block].next;
    blocks.push_back({block});
  }
}

BlockPool::Pinned BlockPool::pin(BlockId block) {
  Node& node = at(block);
  Pinned pinned{block, Pinned::From::Used, 0};
  if (node.count == 0 && node.queued) {
    pinned.from = Pinned::From::Queue;
    pinned.place = node.previous;
    unlink(block.value);
  } else if (node.count == 0) {
    const auto found = std::find(reserved_.begin(), reserved_.end(), block);
    LS_CHECK(found != reserved_.end());
    pinned.from = Pinned::From::Reserved;
    pinned.place = static_cast<std::uint32_t>(found - reserved_.begin());
    reserved_.erase(found);
  }
  set_count(block.value, node.count + 1);
  return pinned;
}

void BlockPool::undo(const Pinned& pinned) {
  Node& node = at(pinned.block);
  LS_CHECK(node.count > 0 && (node.count == 1 || pinned.from == Pinned::From::Used));
  set_count(pinned.block.value, node.count - 1);
  switch (pinned.from) {
    case Pinned::From::Used:
      LS_CHECK(node.count > 0);
      break;
    case Pinned::From::Queue:
      LS_CHECK(pinned.place == block_count_ || at({pinned.place}).queued);
      link_after(pinned.place, pinned.block.value);
      break;
    case Pinned::From::Reserved:
      LS_CHECK(node.uses > 0 && pinned.place <= reserved_.size());
      reserved_.insert(reserved_.begin() + pinned.place, pinned.block);
      break;
  }
}

void BlockPool::enqueue(std::uint32_t block, std::uint32_t& at_head) {
  if (policy_.unkeyed_to_head && !nodes_[block].has_key) {
    link_after(at_head, block);
    at_head = block;
  } else {
    link_after(nodes_[block_count_].previous, block);
  }
}

void BlockPool::unpin(std::span<const BlockId> blocks) {
  std::uint32_t at_head = block_count_;
  for (const BlockId block : blocks) {
    Node& node = at(block);
    LS_CHECK(node.count > 0, "a block is given back that nobody holds");
    set_count(block.value, node.count - 1);
    if (node.count > 0) continue;
    if (node.uses > 0) {
      reserved_.push_back(block);
    } else {
      enqueue(block.value, at_head);
    }
  }
}

bool BlockPool::end_one_use(BlockId block) {
  Node& node = at(block);
  LS_CHECK(node.uses > 0, "a launch ended that did not begin");
  return --node.uses == 0 && node.count == 0;
}

void BlockPool::queue_ended() {
  std::size_t kept_count = 0;
  std::uint32_t at_head = block_count_;
  for (const BlockId block : reserved_) {
    if (nodes_[block.value].uses > 0) {
      reserved_[kept_count++] = block;
    } else {
      enqueue(block.value, at_head);
    }
  }
  reserved_.resize(kept_count);
}

void BlockPool::end_use(BlockId block) {
  if (end_one_use(block)) queue_ended();
}

// --- Keys ---

BlockKey BlockPool::kept(const BlockKey& key) const {
  return {{key.first.high & key_mask_.first.high, key.first.low & key_mask_.first.low},
          {key.second.high & key_mask_.second.high, key.second.low & key_mask_.second.low}};
}

std::size_t BlockPool::home(const BlockKey& key) const {
  const BlockKey bits = kept(key);
  std::uint64_t word = scramble(bits.first.low);
  word = scramble(word ^ bits.first.high);
  word = scramble(word ^ bits.second.low ^ std::rotl(bits.second.high, 32));
  return static_cast<std::size_t>(word) & slot_mask_;
}

std::size_t BlockPool::slot_of(const BlockKey& key) const {
  const BlockKey bits = kept(key);
  std::size_t slot = home(key);
  while (slots_[slot] != kEmptySlot && kept(keys_[slots_[slot]]) != bits) {
    slot = (slot + 1) & slot_mask_;
  }
  return slot;
}

// Closes the gap by moving back entries that a probe from their home would no longer reach.
void BlockPool::erase_slot(std::size_t slot) {
  std::size_t gap = slot;
  for (std::size_t i = (slot + 1) & slot_mask_; slots_[i] != kEmptySlot; i = (i + 1) & slot_mask_) {
    const std::size_t wanted = home(keys_[slots_[i]]);
    if (((i - wanted) & slot_mask_) >= ((i - gap) & slot_mask_)) {
      slots_[gap] = slots_[i];
      gap = i;
    }
  }
  slots_[gap] = kEmptySlot;
}

void BlockPool::add_key_term(std::uint32_t block, bool add) {
  const BlockKey& key = keys_[block];
  const std::uint64_t word =
      term(term(key.first.high, kKey, key.first.low, key.second.high), kKey, key.second.low, block);
  if (add) {
    sum_.add(kKey, block, word);
  } else {
    sum_.subtract(kKey, block, word);
  }
}

bool BlockPool::can_publish(BlockId block, const BlockKey& key) const {
  if (at(block).has_key) return false;
  const std::uint32_t first = slots_[slot_of(key)];
  return first == kEmptySlot || (policy_.equal_contents && keys_[first] == key);
}

void BlockPool::join_equals(std::uint32_t block, std::uint32_t first) {
  std::uint32_t last = first;
  while (equals_[last].next != kEmptySlot) last = equals_[last].next;
  equals_[last].next = block;
  equals_[block] = {kEmptySlot, last};
}

void BlockPool::leave_equals(std::uint32_t block) {
  const auto [next, previous] = equals_[block];
  if (next != kEmptySlot) equals_[next].previous = previous;
  if (previous != kEmptySlot) equals_[previous].next = next;
  equals_[block] = {kEmptySlot, kEmptySlot};
}

bool BlockPool::publish(BlockId block, const BlockKey& key) {
  if (!can_publish(block, key)) return false;
  std::uint32_t& slot = slots_[slot_of(key)];
  if (slot == kEmptySlot) {
    slot = block.value;
  } else {
    join_equals(block.value, slot);
  }
  Node& node = at(block);
  node.has_key = true;
  keys_[block.value] = key;
  evictable_ += node.queued;
  add_key_term(block.value, true);
  return true;
}

std::optional<BlockId> BlockPool::find(const BlockKey& key) const {
  const std::uint32_t block = slots_[slot_of(key)];
  if (block == kEmptySlot || keys_[block] != key) return std::nullopt;
  return BlockId{block};
}

const BlockKey* BlockPool::key(BlockId block) const {
  return at(block).has_key ? &keys_[block.value] : nullptr;
}

void BlockPool::drop_key(BlockId block) {
  Node& node = at(block);
  if (!node.has_key) return;
  const std::size_t slot = slot_of(keys_[block.value]);
  if (!equals_.empty() && equals_[block.value].previous != kEmptySlot) {
    leave_equals(block.value);  // another one is found by the key
  } else {
    LS_CHECK(slots_[slot] == block.value, "a key names another block");
    const std::uint32_t next = equals_.empty() ? kEmptySlot : equals_[block.value].next;
    if (next == kEmptySlot) {
      erase_slot(slot);
    } else {
      leave_equals(block.value);
      slots_[slot] = next;
    }
  }
  add_key_term(block.value, false);
  node.has_key = false;
  evictable_ -= node.queued;
}

std::vector<BlockId> BlockPool::evict(std::uint32_t count) {
  std::vector<BlockId> evicted;
  evicted.reserve(std::min(count, evictable_));
  for (std::uint32_t block = nodes_[block_count_].next;
       block != block_count_ && evicted.size() < count; block = nodes_[block].next) {
    if (!nodes_[block].has_key) continue;
    drop_key({block});
    evicted.push_back({block});
  }
  return evicted;
}

std::vector<BlockId> BlockPool::free_queue() const {
  std::vector<BlockId> queue;
  queue.reserve(queued_);
  peek(queued_, queue);
  return queue;
}

base::Hash128 BlockPool::digest() const {
  Sum sum = sum_;
  for (std::size_t i = 0; i < reserved_.size(); ++i) sum.add(kReserved, i, reserved_[i].value);
  return {sum.high, sum.low};
}

}  // namespace lockstep::engine
