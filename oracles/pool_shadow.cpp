#include "oracles/pool_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "oracles/serving_law.h"

namespace lockstep::oracles {

PoolFold::PoolFold(const trace::Scenario& scenario, Report report) : report_(std::move(report)) {
  for (const trace::PoolSpec& spec : scenario.engine.pools) {
    Pool pool;
    pool.block_count = spec.num_blocks;
    pool.counts.free = spec.num_blocks;
    pools_.push_back(std::move(pool));
  }
}

// --- what others ask -----------------------------------------------------------------------------

bool PoolFold::contains(std::uint32_t pool, trace::BlockId block) const {
  return pool < pools_.size() && block.value < pools_[pool].block_count;
}

const std::vector<PoolFold::Holder>& PoolFold::holders(std::uint32_t pool,
                                                       trace::BlockId block) const {
  static const std::vector<Holder> nobody;
  const std::vector<Block>& blocks = pools_[pool].blocks;
  return block.value < blocks.size() ? blocks[block.value].holders : nobody;
}

bool PoolFold::named_by(trace::LaunchIndex launch, std::uint32_t pool, trace::BlockId block) const {
  const std::vector<Block>& blocks = pools_[pool].blocks;
  if (block.value >= blocks.size()) return false;
  const std::vector<std::uint32_t>& uses = blocks[block.value].uses;
  return std::find(uses.begin(), uses.end(), launch.value) != uses.end();
}

bool PoolFold::has_key(std::uint32_t pool, trace::BlockId block) const {
  const std::vector<Block>& blocks = pools_[pool].blocks;
  return block.value < blocks.size() && blocks[block.value].key.has_value();
}

PoolFold::Balance PoolFold::balance(std::uint32_t pool) const { return pools_[pool].counts; }

// --- the queue -----------------------------------------------------------------------------------

std::uint32_t PoolFold::head_of(const Pool& pool) {
  return pool.fresh < pool.block_count ? pool.fresh : pool.head;
}

void PoolFold::name_all(Pool& pool) {
  touch(pool, pool.block_count - 1);
  for (std::uint32_t block = pool.block_count; block-- > pool.fresh;) {
    link_after(pool, block, kNone);
  }
  pool.fresh = pool.block_count;
}

void PoolFold::link_after(Pool& pool, std::uint32_t block, std::uint32_t previous) {
  Block& self = pool.blocks[block];
  self.previous = previous;
  self.next = previous == kNone ? pool.head : pool.blocks[previous].next;
  (previous == kNone ? pool.head : pool.blocks[previous].next) = block;
  (self.next == kNone ? pool.tail : pool.blocks[self.next].previous) = block;
}

void PoolFold::unlink(Pool& pool, std::uint32_t block) {
  Block& self = pool.blocks[block];
  (self.previous == kNone ? pool.head : pool.blocks[self.previous].next) = self.next;
  (self.next == kNone ? pool.tail : pool.blocks[self.next].previous) = self.previous;
}

std::uint32_t& PoolFold::count_of(Pool& pool, BlockState state) {
  switch (state) {
    case BlockState::Free:
      return pool.counts.free;
    case BlockState::Evictable:
      return pool.counts.evictable;
    case BlockState::Used:
      return pool.counts.used;
    case BlockState::Reserved:
      return pool.counts.reserved;
  }
  return pool.counts.free;
}

void PoolFold::move(Pool& pool, std::uint32_t block, BlockState state) {
  --count_of(pool, pool.states[block]);
  pool.states[block] = state;
  ++count_of(pool, state);
}

PoolFold::Block& PoolFold::touch(Pool& pool, std::uint32_t block) {
  grown(pool.states, block);
  return grown(pool.blocks, block);
}

void PoolFold::leave(Pool& pool, std::uint32_t block) {
  switch (pool.states[block]) {
    case BlockState::Free:
    case BlockState::Evictable:
      if (block < pool.fresh) {
        unlink(pool, block);
      } else if (block == pool.fresh) {
        ++pool.fresh;
      } else {
        name_all(pool);
        unlink(pool, block);
      }
      return;
    case BlockState::Used:
      return;
    case BlockState::Reserved:
      std::erase(pool.reserved, block);
      return;
  }
}

void PoolFold::enqueue(Pool& pool, std::uint32_t block) {
  link_after(pool, block, pool.tail);
  move(pool, block, pool.blocks[block].key ? BlockState::Evictable : BlockState::Free);
}

// --- events --------------------------------------------------------------------------------------

void PoolFold::report(const char* kind, trace::RequestId request, std::uint32_t pool,
                      trace::BlockId block, std::string text) {
  if (report_) report_({kind, request, pool, block, std::move(text)});
}

PoolFold::Block* PoolFold::find(const char* kind, trace::RequestId request, std::uint32_t pool,
                                trace::BlockId block) {
  if (!contains(pool, block)) {
    report(kind, request, pool, block, "no such block");
    return nullptr;
  }
  return &touch(pools_[pool], block.value);
}

std::string PoolFold::describe(std::uint32_t pool, trace::BlockId id) const {
  const Block& block = pools_[pool].blocks[id.value];
  switch (state(pool, id)) {
    case BlockState::Free:
      return "is free";
    case BlockState::Evictable:
      return "is free (cached)";
    case BlockState::Used:
      return fmt::format("is held by request #{}", block.holders.front().request.value);
    case BlockState::Reserved:
      return fmt::format("is reserved: launch {} of request #{} is in flight", block.uses.front(),
                         block.last_holder.value);
  }
  return "";
}

void PoolFold::drop_key(Pool& pool, std::uint32_t block) {
  std::optional<base::Hash128>& key = pool.blocks[block].key;
  if (!key) return;
  const auto named = pool.keys.find(*key);
  if (named != pool.keys.end() && named->second == block) pool.keys.erase(named);
  key.reset();
  if (pool.states[block] == BlockState::Evictable) move(pool, block, BlockState::Free);
}

void PoolFold::take(trace::RequestId request, std::uint32_t group, std::uint32_t pool_index,
                    trace::BlockId id) {
  if (find("no_such_block", request, pool_index, id) == nullptr) return;
  Pool& pool = pools_[pool_index];
  const BlockState before = state(pool_index, id);
  if (before == BlockState::Used) {
    report("handed_out_used", request, pool_index, id, describe(pool_index, id));
  } else if (before == BlockState::Reserved) {
    report("handed_out_reserved", request, pool_index, id, describe(pool_index, id));
  } else if (head_of(pool) != id.value) {
    report("not_head", request, pool_index, id,
           fmt::format("is not the head of the free queue, which is block {}", head_of(pool)));
  }
  leave(pool, id.value);
  drop_key(pool, id.value);
  move(pool, id.value, BlockState::Used);
  pool.blocks[id.value].holders.push_back({request, group, made_});
}

void PoolFold::taken(const trace::BlocksTaken& event) {
  for (const trace::BlockId block : event.blocks) {
    take(event.request, event.group, event.pool, block);
  }
}

void PoolFold::hit(const trace::BlocksHit& event) {
  for (const trace::BlockId id : event.blocks) {
    if (id == trace::kNoBlock) continue;
    const Block* block = find("no_such_block", event.request, event.pool, id);
    if (block == nullptr) continue;
    if (!block->key) report("hit_unpublished", event.request, event.pool, id, "has no key");
    hold(event.request, event.group, event.pool, id);
  }
}

void PoolFold::shared(const trace::BlocksShared& event) {
  for (const trace::BlockId id : event.blocks) {
    if (id == trace::kNoBlock) continue;
    if (find("no_such_block", event.request, event.pool, id) == nullptr) continue;
    if (state(event.pool, id) != BlockState::Used) {
      report("shared_unheld", event.request, event.pool, id, describe(event.pool, id));
    }
    hold(event.request, event.group, event.pool, id);
  }
}

void PoolFold::hold(trace::RequestId request, std::uint32_t group, std::uint32_t pool_index,
                    trace::BlockId id) {
  Pool& pool = pools_[pool_index];
  if (state(pool_index, id) != BlockState::Used) {
    leave(pool, id.value);
    move(pool, id.value, BlockState::Used);
  }
  pool.blocks[id.value].holders.push_back({request, group, made_});
}

void PoolFold::release(trace::RequestId request, std::uint32_t group, std::uint32_t pool_index,
                       trace::BlockId id, std::optional<std::uint32_t> extra_use) {
  Block* block = find("no_such_block", request, pool_index, id);
  if (block == nullptr) return;
  const auto mine = std::find_if(
      block->holders.begin(), block->holders.end(),
      [&](const Holder& holder) { return holder.request == request && holder.group == group; });
  if (mine == block->holders.end()) {
    const bool twice = block->holders.empty();
    report(twice ? "freed_twice" : "freed_by_stranger", request, pool_index, id,
           describe(pool_index, id));
    return;
  }
  std::erase_if(block->uses, [this](std::uint32_t launch) { return !live_use(launch); });
  for (const Flight& flight : flights_) {
    const bool names_it =
        flight.launch >= mine->since &&
        std::find(flight.requests.begin(), flight.requests.end(), request) != flight.requests.end();
    if (names_it) block->uses.push_back(flight.launch);
  }
  if (extra_use) block->uses.push_back(*extra_use);
  block->holders.erase(mine);
  block->last_holder = request;
  if (!block->holders.empty()) return;
  if (block->uses.empty()) {
    enqueue(pools_[pool_index], id.value);
  } else {
    move(pools_[pool_index], id.value, BlockState::Reserved);
    pools_[pool_index].reserved.push_back(id.value);
  }
}

void PoolFold::released(const trace::BlocksReleased& event) {
  for (const trace::BlockId block : event.blocks) {
    if (block == trace::kNoBlock) continue;
    release(event.request, event.group, event.pool, block, std::nullopt);
  }
}

void PoolFold::replaced(const trace::BlockReplaced& event) {
  take(event.request, event.group, event.pool, event.destination);
  release(event.request, event.group, event.pool, event.source, event.launch.value);
}

void PoolFold::published(const trace::BlockPublished& event) {
  const std::uint32_t id = event.block.value;
  const Block* block = find("no_such_block", event.request, event.pool, event.block);
  if (block == nullptr) return;
  Pool& pool = pools_[event.pool];
  if (block->key) {
    report("published_twice", event.request, event.pool, event.block, "has a key already");
    drop_key(pool, id);
  }
  base::Hash128 key;
  if (report_) {
    key = base::hash_bytes(std::as_bytes(std::span(event.key)));
    const auto [named, is_new] = pool.keys.try_emplace(key, id);
    if (!is_new) {
      const std::uint32_t other = std::exchange(named->second, id);
      report("key_of_two_blocks", event.request, event.pool, event.block,
             fmt::format("gets the key of block {}", other));
      drop_key(pool, other);  // not from the map: there it names this block now
    }
  }
  if (state(event.pool, event.block) == BlockState::Free) {
    report("published_free", event.request, event.pool, event.block, "is free");
    move(pool, id, BlockState::Evictable);
  }
  pool.blocks[id].key = key;
}

void PoolFold::key_dropped(const trace::KeyDropped& event) {
  if (find("no_such_block", {}, event.pool, event.block) == nullptr) return;
  drop_key(pools_[event.pool], event.block.value);
}

void PoolFold::made(const trace::LaunchMade& event) {
  made_ = std::max(made_, event.launch.value + 1);
  flights_.push_back({event.launch.value, event.requests});
}

// The next launch gets this ordinal: what copies for this one would have read is not in use.
void PoolFold::failed(const trace::LaunchFailed& event) {
  for (Pool& pool : pools_) {
    for (Block& block : pool.blocks) std::erase(block.uses, event.launch.value);
  }
  settle();
}

void PoolFold::completed(const trace::LaunchCompleted& event) {
  std::erase_if(flights_,
                [&](const Flight& flight) { return flight.launch == event.launch.value; });
  settle();
}

// Launches are over one by one, the oldest first.
void PoolFold::reset() {
  while (!flights_.empty()) {
    flights_.erase(
        std::min_element(flights_.begin(), flights_.end(),
                         [](const Flight& a, const Flight& b) { return a.launch < b.launch; }));
    settle();
  }
}

bool PoolFold::live_use(std::uint32_t launch) const {
  if (launch >= made_) return true;  // being planned
  return std::any_of(flights_.begin(), flights_.end(),
                     [launch](const Flight& flight) { return flight.launch == launch; });
}

void PoolFold::settle() {
  for (Pool& pool : pools_) {
    if (pool.reserved.empty()) continue;
    std::vector<std::uint32_t> still;
    for (const std::uint32_t block : pool.reserved) {
      std::vector<std::uint32_t>& uses = pool.blocks[block].uses;
      std::erase_if(uses, [this](std::uint32_t launch) { return !live_use(launch); });
      if (uses.empty()) {
        enqueue(pool, block);
      } else {
        still.push_back(block);
      }
    }
    pool.reserved = std::move(still);
  }
}

}  // namespace lockstep::oracles
