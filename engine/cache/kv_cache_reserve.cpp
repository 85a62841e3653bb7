// KvCache: growth. All or nothing: what a request needs is planned and counted first, memory for it
// is set aside, and only then anything changes; from there on nothing can fail.
#include <algorithm>

#include "base/check.h"
#include "engine/cache/kv_cache.h"

namespace lockstep::engine {
namespace {

template <class T>
void make_room_for(std::vector<T>& vector, std::size_t more) {
  const std::size_t needed = vector.size() + more;
  if (needed > vector.capacity()) vector.reserve(std::max(needed, 2 * vector.capacity()));
}

}  // namespace

std::uint32_t KvCache::first_written(const trace::GroupSpec& group, std::uint32_t first,
                                     std::uint32_t end) {
  return (group.type == trace::GroupType::Mamba ? end - 1 : first) / group.block_size;
}

// The blocks that the launch writes: those of others too are copied, those of its own lose their
// key (their content will be another), those that it lacks are new.
void KvCache::plan_group(const Entry& entry, std::uint32_t group, std::uint32_t first,
                         std::uint32_t end) {
  const trace::GroupSpec& spec = groups_[group];
  const std::vector<BlockId>& table = entry.groups[group].table;
  const BlockPool& pool = pools_[spec.pool];
  const auto held = static_cast<std::uint32_t>(table.size());
  const std::uint32_t last = (end - 1) / spec.block_size;
  LS_CHECK(first <= std::uint64_t{held} * spec.block_size, "a gap between held and new positions");
  for (std::uint32_t i = first_written(spec, first, end); i < held && i <= last; ++i) {
    LS_CHECK(table[i] != trace::kNoBlock, "a launch would write where nothing is held");
    if (pool.count(table[i]) > 1) {
      plan_.steps.push_back({group, i, table[i]});
      ++plan_.needed[spec.pool];
    } else if (pool.key(table[i])) {
      plan_.key_drops.emplace_back(spec.pool, table[i]);
    }
  }
  for (std::uint32_t i = held; i <= last; ++i) {
    plan_.steps.push_back({group, i, trace::kNoBlock});
    ++plan_.needed[spec.pool];
  }
}

std::optional<Growth> KvCache::refusal(const AllocationFault& fault) const {
  bool enough = true, enough_later = true;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    enough &= plan_.needed[i] <= pools_[i].available();
    enough_later &= plan_.needed[i] <= pools_[i].available() + pools_[i].reserved_count();
  }
  if (!enough) return enough_later ? Growth::Short : Growth::Starved;
  if (!fault) return std::nullopt;
  for (const Step& step : plan_.steps) {
    if (fault(groups_[step.group].pool)) return Growth::Injected;
  }
  return std::nullopt;
}

// The events of the plan, from the blocks that the pools will hand out.
void KvCache::plan_events(trace::RequestId request, const Entry& entry, trace::LaunchIndex launch) {
  plan_.events.clear();
  for (const auto& [pool, block] : plan_.key_drops) {
    plan_.events.push_back(trace::KeyDropped{pool, block});
  }
  std::vector<std::size_t> next(pools_.size(), 0);
  trace::BlocksTaken taken;
  const auto flush = [&] {
    if (!taken.blocks.empty()) plan_.events.push_back(std::move(taken));
    taken.blocks.clear();
  };
  for (const Step& step : plan_.steps) {
    const std::uint32_t pool = groups_[step.group].pool;
    const BlockId block = plan_.handed_out[pool][next[pool]++];
    if (taken.group != step.group) flush();
    if (pools_[pool].key(block)) plan_.events.push_back(trace::KeyDropped{pool, block});
    if (step.source != trace::kNoBlock) {
      plan_.events.push_back(
          trace::BlockReplaced{request, step.group, pool, step.index, step.source, block, launch});
      continue;
    }
    if (taken.blocks.empty()) {
      const auto held = static_cast<std::uint32_t>(entry.groups[step.group].table.size());
      taken = {request, step.group, pool, held, {}};
    }
    taken.blocks.push_back(block);
  }
  flush();
}

void KvCache::make_room(Entry& entry, CacheOps& ops) {
  std::vector<std::size_t> more(groups_.size(), 0);
  std::size_t copies = 0;
  for (const Step& step : plan_.steps) {
    const bool copy = step.source != trace::kNoBlock;
    copies += copy;
    more[step.group] += !copy;
  }
  for (std::uint32_t g = 0; g < group_count(); ++g) make_room_for(entry.groups[g].table, more[g]);
  make_room_for(ops.copies, copies);
  make_room_for(ops.fills, plan_.steps.size() - copies);
}

void KvCache::apply(Entry& entry, CacheOps& ops) {
  for (const auto& [pool, block] : plan_.key_drops) pools_[pool].drop_key(block);
  for (const Step& step : plan_.steps) {
    const std::uint32_t pool = groups_[step.group].pool;
    std::vector<BlockId>& table = entry.groups[step.group].table;
    const BlockId block = pools_[pool].take();
    if (step.source != trace::kNoBlock) {
      table[step.index] = block;
      pools_[pool].unpin(step.source);
      ops.copies.push_back({pool, step.source, block});
    } else {
      table.push_back(block);
      if (fill_) ops.fills.push_back({pool, block});
    }
  }
}

Growth KvCache::reserve(trace::RequestId request, std::uint32_t first, std::uint32_t end,
                        trace::LaunchIndex launch, const AllocationFault& fault, CacheOps& ops) {
  LS_CHECK(first < end);
  Entry& grown = entry(request);
  for (std::uint32_t g = 0; g < group_count(); ++g) {
    // fork(), release() and undo_look_up() have gone back where the rows go back.
    LS_CHECK(grown.groups[g].published <= first / groups_[g].block_size);
  }
  plan_.steps.clear();
  plan_.key_drops.clear();
  std::fill(plan_.needed.begin(), plan_.needed.end(), 0);
  for (std::uint32_t g = 0; g < group_count(); ++g) plan_group(grown, g, first, end);
  if (const std::optional<Growth> refused = refusal(fault)) return *refused;
  if (!plan_.steps.empty() || !plan_.key_drops.empty()) {
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      plan_.handed_out[i].clear();
      if (sink_) pools_[i].peek(plan_.needed[i], plan_.handed_out[i]);
    }
    if (sink_) plan_events(request, grown, launch);
    make_room(grown, ops);
    apply(grown, ops);
  }
  settle();
  for (trace::Event& event : plan_.events) send(std::move(event));
  plan_.events.clear();
  return Growth::Done;
}

}  // namespace lockstep::engine
