// KvCache: prefixes that may be reused: keys, hits, publication, eviction.
#include <algorithm>

#include "base/check.h"
#include "engine/cache/kv_cache.h"

namespace lockstep::engine {

// Keys form a chain: each is computed once, when it is first needed.
const BlockKey& KvCache::key_of(Entry& entry, std::uint32_t group, std::uint32_t index,
                                std::span<const trace::TokenId> tokens) {
  GroupState& state = entry.groups[group];
  const std::size_t size = groups_[group].block_size;
  while (state.keys.size() <= index) {
    const std::size_t next = state.keys.size();
    LS_CHECK((next + 1) * size <= tokens.size(), "a key of a block that is not full");
    const BlockKey& previous = next == 0 ? state.root : state.keys.back();
    state.keys.push_back(chain_.next(previous, tokens.subspan(next * size, size)));
  }
  return state.keys[index];
}

// Groups that need every block bound the search; for the others one pass finds where runs of found
// blocks end, and the longest length that all of them accept is taken.
std::uint32_t KvCache::longest_hit(Entry& entry, std::span<const trace::TokenId> tokens,
                                   std::uint32_t limit) {
  std::uint32_t length = std::min(limit, static_cast<std::uint32_t>(tokens.size()));
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    if (groups_[g].type != trace::GroupType::FullAttention) continue;
    const std::uint32_t block_count = length / groups_[g].block_size;
    std::uint32_t found = 0;
    while (found < block_count && pools_[groups_[g].pool].find(key_of(entry, g, found, tokens))) {
      ++found;
    }
    length = found * groups_[g].block_size;
  }
  length -= length % hit_granularity_;
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    std::vector<std::uint32_t>& runs = runs_[g];
    runs.clear();
    if (groups_[g].type == trace::GroupType::FullAttention) continue;
    for (std::uint32_t i = 0; i < length / groups_[g].block_size; ++i) {
      const bool found = pools_[groups_[g].pool].find(key_of(entry, g, i, tokens)).has_value();
      runs.push_back(found ? (i == 0 ? 0 : runs.back()) + 1 : 0);
    }
  }
  const auto valid = [this](std::uint32_t g, std::uint32_t candidate) {
    if (groups_[g].type == trace::GroupType::FullAttention) return true;
    const std::uint32_t end = candidate / groups_[g].block_size;
    const bool mamba = groups_[g].type == trace::GroupType::Mamba;
    const std::uint32_t needed = mamba ? 1 : end - first_needed(groups_[g], candidate);
    return runs_[g][end - 1] >= needed;
  };
  for (; length > 0; length -= hit_granularity_) {
    bool all = true;
    for (std::uint32_t g = 0; all && g < group_count(); ++g) all = valid(g, length);
    if (all) break;
  }
  return length;
}

std::uint32_t KvCache::look_up(trace::RequestId request, std::span<const trace::TokenId> tokens,
                               std::uint32_t limit) {
  settle();
  Entry& looked_up = entry(request);
  for (const GroupState& state : looked_up.groups) LS_CHECK(state.table.empty());
  const std::uint32_t length = prefix_caching_ ? longest_hit(looked_up, tokens, limit) : 0;
  PendingHit hit{request, {}, {}};
  std::size_t pin_count = 0;
  for (std::uint32_t g = 0; length > 0 && g < group_count(); ++g) {
    const trace::GroupSpec& group = groups_[g];
    const std::uint32_t end = length / group.block_size;
    const std::uint32_t begin =
        group.type == trace::GroupType::Mamba ? end - 1 : first_needed(group, length);
    hit.events.push_back({request, g, group.pool, length, {}});
    std::vector<BlockId>& blocks = hit.events.back().blocks;
    blocks.assign(end, trace::kNoBlock);
    for (std::uint32_t i = begin; i < end; ++i) {
      blocks[i] = pools_[group.pool].find(looked_up.groups[g].keys[i]).value();
    }
    pin_count += end - begin;
    looked_up.groups[g].table.reserve(end);
  }
  hit.pins.reserve(pin_count);
  // Nothing fails from here on.
  for (trace::BlocksHit& event : hit.events) {
    GroupState& state = looked_up.groups[event.group];
    state.table.assign(event.blocks.begin(), event.blocks.end());
    state.published = static_cast<std::uint32_t>(event.blocks.size());
    for (const BlockId block : event.blocks) {
      if (block == trace::kNoBlock) continue;
      hit.pins.emplace_back(event.pool, pools_[event.pool].pin(block));
    }
  }
  pending_ = std::move(hit);
  return length;
}

void KvCache::undo_look_up(trace::RequestId request) {
  LS_CHECK(pending_ && pending_->request == request, "the look-up is not the latest change");
  for (auto pin = pending_->pins.rbegin(); pin != pending_->pins.rend(); ++pin) {
    pools_[pin->first].undo(pin->second);
  }
  for (GroupState& state : entry(request).groups) {
    state.table.clear();
    state.published = 0;
  }
  pending_.reset();
}

void KvCache::publish(trace::RequestId request, std::uint32_t group, std::uint32_t index,
                      std::span<const trace::TokenId> tokens) {
  Entry& publisher = entry(request);
  const BlockId block = publisher.groups[group].table[index];
  if (block == trace::kNoBlock) return;
  BlockPool& pool = pools_[groups_[group].pool];
  const BlockKey& key = key_of(publisher, group, index, tokens);
  if (!pool.can_publish(block, key)) return;
  settle();
  trace::BlockPublished event{request, group, groups_[group].pool,
                              index,   block, sink_ ? hex(key) : std::string()};
  LS_CHECK(pool.publish(block, key));
  send(std::move(event));
}

void KvCache::commit(trace::RequestId request, std::span<const trace::TokenId> tokens,
                     std::uint32_t launch_end) {
  if (!prefix_caching_) return;
  Entry& committed = entry(request);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    GroupState& state = committed.groups[g];
    const std::uint32_t size = groups_[g].block_size;
    const auto full =
        static_cast<std::uint32_t>(std::min(tokens.size() / size, state.table.size()));
    if (groups_[g].type == trace::GroupType::Mamba) {
      const std::uint32_t index = launch_end / size;
      if (launch_end % size == 0 && index > 0 && index <= full) {
        publish(request, g, index - 1, tokens);
      }
      continue;
    }
    for (; state.published < full; ++state.published) publish(request, g, state.published, tokens);
  }
}

std::vector<BlockId> KvCache::evict(std::uint32_t pool, std::uint32_t count) {
  settle();
  std::vector<BlockId> evicted = pools_.at(pool).evict(count);
  for (const BlockId block : evicted) send(trace::KeyDropped{pool, block});
  return evicted;
}

void KvCache::reset_prefix_cache() {
  settle();
  for (std::uint32_t i = 0; i < pool_count(); ++i) {
    for (std::uint32_t block = 0; block < pools_[i].block_count(); ++block) {
      if (!pools_[i].key({block})) continue;
      pools_[i].drop_key({block});
      send(trace::KeyDropped{i, {block}});
    }
  }
}

}  // namespace lockstep::engine
