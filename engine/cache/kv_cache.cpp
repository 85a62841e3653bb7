#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace lockstep::engine {
namespace {

std::uint32_t blocks_for(std::uint32_t token_count, std::uint32_t block_size) {
  return token_count / block_size + (token_count % block_size != 0);
}

std::uint32_t most_step_tokens(const trace::EngineSettings& settings) {
  if (!settings.enable_chunked_prefill) return std::numeric_limits<std::uint32_t>::max();
  const std::uint32_t budget = settings.max_num_batched_tokens;
  const std::uint32_t chunk = settings.chunked_prefill_size;
  return chunk == 0 ? budget : std::min(budget, chunk);
}

// Block sizes are at most 4096, but of several groups the least common multiple may be large: then
// nothing is ever hit.
std::uint32_t common_multiple(const std::vector<trace::GroupSpec>& groups) {
  std::uint64_t multiple = 1;
  for (const trace::GroupSpec& group : groups) {
    multiple = std::lcm(multiple, std::uint64_t{group.block_size});
    if (multiple > std::numeric_limits<std::uint32_t>::max()) return 0xffffffff;
  }
  return static_cast<std::uint32_t>(multiple);
}

}  // namespace

KvCache::KvCache(const trace::EngineSettings& settings, EventSink sink, PoolPolicy policy)
    : groups_(settings.groups),
      prefix_caching_(settings.enable_prefix_caching),
      fill_(settings.fill_new_blocks != trace::BlockFill::None),
      step_tokens_max_(most_step_tokens(settings)),
      hit_granularity_(common_multiple(settings.groups)),
      sink_(std::move(sink)) {
  LS_CHECK(!groups_.empty());
  for (const trace::PoolSpec& pool : settings.pools) {
    pools_.emplace_back(pool.num_blocks, settings.prefix_hash_bits, policy);
  }
  for (const trace::GroupSpec& group : groups_) {
    LS_CHECK(group.block_size > 0 && group.pool < pools_.size());
    LS_CHECK(group.type != trace::GroupType::SlidingWindow || group.window > 0);
  }
  plan_.needed.resize(pools_.size());
  plan_.handed_out.resize(pools_.size());
  runs_.resize(groups_.size());
}

KvCache::Entry& KvCache::entry(trace::RequestId request) {
  const auto found = entries_.find(request);
  LS_CHECK(found != entries_.end(), "a request that is not open");
  return found->second;
}

const KvCache::Entry& KvCache::entry(trace::RequestId request) const {
  const auto found = entries_.find(request);
  LS_CHECK(found != entries_.end(), "a request that is not open");
  return found->second;
}

void KvCache::send(trace::Event event) const {
  if (sink_) sink_(std::move(event));
}

void KvCache::settle() {
  if (!pending_) return;
  PendingHit hit = std::move(*pending_);
  pending_.reset();
  for (trace::BlocksHit& event : hit.events) send(std::move(event));
}

void KvCache::open(trace::RequestId request, const KeyScope& scope) {
  LS_CHECK(!entries_.contains(request), "a request id is used twice");
  Entry opened{scope, std::vector<GroupState>(groups_.size())};
  for (std::uint32_t i = 0; i < group_count(); ++i) {
    opened.groups[i].root = chain_.root(scope, i, groups_[i].block_size);
  }
  entries_.emplace(request, std::move(opened));
}

bool KvCache::step_fits(std::uint32_t first, std::uint32_t end) const {
  for (std::uint32_t pool = 0; pool < pool_count(); ++pool) {
    std::uint64_t needed = 0;
    for (const trace::GroupSpec& group : groups_) {
      if (group.pool != pool) continue;
      needed += blocks_for(end, group.block_size) - first_needed(group, first);
    }
    if (needed > pools_[pool].block_count()) return false;
  }
  return true;
}

bool KvCache::can_ever_hold(std::uint32_t prompt_count, std::uint32_t token_count) const {
  for (std::uint32_t first = 0; first < prompt_count;) {
    const std::uint32_t end = first + std::min(step_tokens_max_, prompt_count - first);
    if (!step_fits(first, end)) return false;
    first = end;
  }
  // What one token needs grows with its position, but for how windows lie in their blocks, and that
  // repeats: the last positions of all need the most.
  const bool windows = std::ranges::any_of(groups_, [](const trace::GroupSpec& group) {
    return group.type == trace::GroupType::SlidingWindow;
  });
  const std::uint32_t period = std::min(windows ? hit_granularity_ : 1, token_count);
  for (std::uint32_t i = 1; i <= period; ++i) {
    if (!step_fits(token_count - i, token_count - i + 1)) return false;
  }
  return true;
}

std::uint32_t KvCache::fitting(std::uint32_t first, std::uint32_t count) const {
  if (step_fits(first, first + count)) return count;
  std::uint32_t fits = 0;  // of two steps from `first` the shorter needs no more
  while (count - fits > 1) {
    const std::uint32_t middle = fits + (count - fits) / 2;
    (step_fits(first, first + middle) ? fits : count) = middle;
  }
  return fits;
}

std::uint32_t KvCache::first_needed(const trace::GroupSpec& group, std::uint32_t next) {
  if (group.type != trace::GroupType::SlidingWindow || next < group.window) return 0;
  return (next - group.window + 1) / group.block_size;
}

void KvCache::trim(trace::RequestId request, std::uint32_t next) {
  Entry& trimmed = entry(request);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    std::vector<BlockId>& table = trimmed.groups[g].table;
    const auto end = std::min<std::size_t>(first_needed(groups_[g], next), table.size());
    std::size_t begin = end;
    while (begin > 0 && table[begin - 1] != trace::kNoBlock) --begin;
    if (begin == end) continue;
    settle();
    trace::BlocksReleased event{request, g, groups_[g].pool, {}};
    event.blocks.assign(table.rend() - static_cast<std::ptrdiff_t>(end),
                        table.rend() - static_cast<std::ptrdiff_t>(begin));
    pools_[groups_[g].pool].unpin(event.blocks);
    std::fill(table.begin() + static_cast<std::ptrdiff_t>(begin),
              table.begin() + static_cast<std::ptrdiff_t>(end), trace::kNoBlock);
    send(std::move(event));
  }
}

bool KvCache::can_fork(trace::RequestId parent, std::uint32_t token_count) const {
  const Entry& from = entry(parent);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    const std::vector<BlockId>& table = from.groups[g].table;
    const std::uint32_t end = blocks_for(token_count, groups_[g].block_size);
    if (table.size() < end) return false;
    const bool only_last = groups_[g].type == trace::GroupType::Mamba;
    const std::uint32_t begin =
        only_last ? end - (end > 0) : std::min(first_needed(groups_[g], token_count), end);
    if (std::find(table.begin() + begin, table.begin() + end, trace::kNoBlock) !=
        table.begin() + end) {
      return false;
    }
  }
  return true;
}

void KvCache::fork(trace::RequestId parent, trace::RequestId child, std::uint32_t token_count) {
  LS_CHECK(can_fork(parent, token_count));
  settle();
  const Entry& from = entry(parent);
  Entry shared{from.scope, std::vector<GroupState>(groups_.size())};
  std::vector<trace::BlocksShared> events;
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    const GroupState& source = from.groups[g];
    GroupState& state = shared.groups[g];
    const std::uint32_t size = groups_[g].block_size;
    const auto count = static_cast<std::ptrdiff_t>(blocks_for(token_count, size));
    state.root = source.root;
    state.table.assign(source.table.begin(), source.table.begin() + count);
    const std::ptrdiff_t outside =
        std::min<std::ptrdiff_t>(first_needed(groups_[g], token_count), count);
    std::fill(state.table.begin(), state.table.begin() + outside, trace::kNoBlock);
    const std::uint32_t full = token_count / size;
    state.keys.assign(source.keys.begin(),
                      source.keys.begin() + static_cast<std::ptrdiff_t>(
                                                std::min<std::size_t>(source.keys.size(), full)));
    state.published = std::min(source.published, full);
    events.push_back({child, g, groups_[g].pool, state.table});
  }
  const auto [place, is_new] = entries_.try_emplace(child);
  if (!is_new) {
    for (const GroupState& state : place->second.groups) LS_CHECK(state.table.empty());
  }
  place->second = std::move(shared);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    for (const BlockId block : place->second.groups[g].table) {
      if (block != trace::kNoBlock) pools_[groups_[g].pool].pin(block);
    }
  }
  for (trace::BlocksShared& event : events) {
    if (!event.blocks.empty()) send(std::move(event));
  }
}

void KvCache::release(trace::RequestId request) {
  settle();
  Entry& released = entry(request);
  std::vector<trace::BlocksReleased> events;
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    const std::vector<BlockId>& table = released.groups[g].table;
    events.push_back({request, g, groups_[g].pool, {}});
    std::copy_if(table.rbegin(), table.rend(), std::back_inserter(events.back().blocks),
                 [](BlockId block) { return block != trace::kNoBlock; });
  }
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    pools_[groups_[g].pool].unpin(events[g].blocks);
    released.groups[g].table.clear();
    released.groups[g].published = 0;
  }
  for (trace::BlocksReleased& event : events) {
    if (!event.blocks.empty()) send(std::move(event));
  }
}

void KvCache::close(trace::RequestId request) {
  release(request);
  entries_.erase(request);
}

std::span<const BlockId> KvCache::table(trace::RequestId request, std::uint32_t group) const {
  return entry(request).groups.at(group).table;
}

void KvCache::begin_use(std::span<const std::pair<std::uint32_t, BlockId>> pool_blocks) {
  for (const auto& [pool, block] : pool_blocks) pools_.at(pool).begin_use(block);
}

void KvCache::end_use(std::span<const std::pair<std::uint32_t, BlockId>> pool_blocks) {
  settle();
  bool ended = false;
  for (const auto& [pool, block] : pool_blocks) ended |= pools_.at(pool).end_one_use(block);
  if (!ended) return;
  for (BlockPool& pool : pools_) pool.queue_ended();
}

base::Hash128 KvCache::pools_digest() const {
  base::Hash128 digest;
  for (const BlockPool& pool : pools_) digest = base::hash_combine(digest, pool.digest());
  return digest;
}

void KvCache::count_pools() {
  settle();
  for (std::uint32_t i = 0; i < pool_count(); ++i) {
    const BlockPool& pool = pools_[i];
    send(trace::PoolCounted{i, pool.free_count(), pool.evictable_count(), pool.used_count(),
                            pool.reserved_count()});
  }
}

}  // namespace lockstep::engine
