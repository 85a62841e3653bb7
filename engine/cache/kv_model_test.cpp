#include "engine/cache/kv_model_test.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {
namespace {

std::uint32_t ceiling(std::uint32_t tokens, std::uint32_t size) {
  return (tokens + size - 1) / size;
}

}  // namespace

KvModel::KvModel(const trace::EngineSettings& settings_in) : settings(settings_in) {
  for (const trace::PoolSpec& pool : settings.pools)
    pools.emplace_back(pool.num_blocks, PoolPolicy{});
}

std::uint64_t KvModel::key(const ModelRequest& request, std::uint32_t group, std::uint32_t index) {
  const std::size_t count = (index + 1) * settings.groups[group].block_size;
  LS_CHECK(count <= request.tokens.size());
  const Tokens prefix(request.tokens.begin(),
                      request.tokens.begin() + static_cast<std::ptrdiff_t>(count));
  return contents.try_emplace({request.scope, group, prefix}, contents.size()).first->second;
}

std::uint32_t KvModel::first_of_hit(std::uint32_t group, std::uint32_t length) const {
  const trace::GroupSpec& spec = settings.groups[group];
  if (length == 0 || spec.type == trace::GroupType::FullAttention) return 0;
  if (spec.type == trace::GroupType::Mamba) return ceiling(length, spec.block_size) - 1;
  std::uint32_t index = 0;  // the block of the first position that position `length` sees
  for (std::uint32_t p = 0; p + spec.window <= length; ++p) index = (p + 1) / spec.block_size;
  return index;
}

std::uint32_t KvModel::longest_hit(const ModelRequest& request, std::uint32_t limit) {
  if (!settings.enable_prefix_caching) return 0;
  for (std::uint32_t length = limit; length > 0; --length) {
    bool valid = true;
    for (std::uint32_t g = 0; valid && g < settings.groups.size(); ++g) {
      const trace::GroupSpec& spec = settings.groups[g];
      valid = length % spec.block_size == 0;
      for (std::uint32_t i = first_of_hit(g, length); valid && i < length / spec.block_size; ++i) {
        valid = pools[spec.pool].find(key(request, g, i)).has_value();
      }
    }
    if (valid) return length;
  }
  return 0;
}

void KvModel::pin_hit(ModelRequest& request, std::uint32_t length) {
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    const trace::GroupSpec& spec = settings.groups[g];
    Blocks& table = request.tables[g];
    table.assign(length / spec.block_size, trace::kNoBlock);
    for (std::uint32_t i = first_of_hit(g, length); i < table.size(); ++i) {
      table[i] = *pools[spec.pool].find(key(request, g, i));
      pools[spec.pool].pin(table[i]);
    }
    request.offered[g] = length / spec.block_size;
  }
  request.planned = request.committed = length;
}

std::vector<Need> KvModel::needs(const ModelRequest& request, std::uint32_t end) const {
  std::vector<Need> result;
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    const trace::GroupSpec& spec = settings.groups[g];
    const Blocks& table = request.tables[g];
    for (std::uint32_t i = 0; i < ceiling(end, spec.block_size); ++i) {
      const bool written = is_mamba(g) ? i == (end - 1) / spec.block_size
                                       : (i + 1) * spec.block_size > request.planned;
      if (i >= table.size()) {
        result.push_back({g, i, false});
      } else if (written && pools[spec.pool].blocks[table[i].value].count > 1) {
        result.push_back({g, i, true});
      }
    }
  }
  return result;
}

bool KvModel::grow(RequestId id, std::uint32_t end) {
  ModelRequest& request = requests.at(id);
  const std::vector<Need> needed = needs(request, end);
  std::vector<std::size_t> counts(pools.size(), 0);
  for (const Need& need : needed) ++counts[settings.groups[need.group].pool];
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (counts[i] > pools[i].queue.size()) return false;
  }
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {  // written in place
    const trace::GroupSpec& spec = settings.groups[g];
    const std::uint32_t from = (is_mamba(g) ? end - 1 : request.planned) / spec.block_size;
    for (std::uint32_t i = from; i < request.tables[g].size(); ++i) {
      const BlockId block = request.tables[g][i];
      if (i <= (end - 1) / spec.block_size && pools[spec.pool].blocks[block.value].count == 1) {
        pools[spec.pool].drop(block);
      }
    }
    request.offered[g] = std::min(request.offered[g], request.planned / spec.block_size);
  }
  for (const Need& need : needed) {
    PoolModel& pool = pools[settings.groups[need.group].pool];
    Blocks& table = request.tables[need.group];
    const BlockId block = pool.take();
    if (need.copy) {
      pool.unpin({table[need.index]});
      table[need.index] = block;
    } else {
      table.push_back(block);
    }
  }
  request.planned = end;
  ModelLaunch launch{id, request.life, end, {}};
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    for (const BlockId block : request.tables[g]) {
      if (block == trace::kNoBlock) continue;
      launch.blocks.emplace_back(settings.groups[g].pool, block);
      ++pools[settings.groups[g].pool].blocks[block.value].uses;
    }
  }
  launches.push_back(launch);
  return true;
}

void KvModel::complete() {
  const ModelLaunch launch = launches.front();
  launches.pop_front();
  for (const auto& [pool, block] : launch.blocks) --pools[pool].blocks[block.value].uses;
  for (PoolModel& pool : pools) pool.queue_ended();
  const auto found = requests.find(launch.request);
  if (found == requests.end() || found->second.life != launch.life) return;
  ModelRequest& request = found->second;
  request.committed = launch.end;
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    const trace::GroupSpec& spec = settings.groups[g];
    Blocks& table = request.tables[g];
    PoolModel& pool = pools[spec.pool];
    const std::uint32_t full = launch.end / spec.block_size;
    const bool mamba = is_mamba(g);
    const std::uint32_t begin = !mamba                              ? request.offered[g]
                                : launch.end % spec.block_size == 0 ? full - 1
                                                                    : full;
    for (std::uint32_t i = begin; settings.enable_prefix_caching && i < full; ++i) {
      if (table[i] != trace::kNoBlock) pool.publish(table[i], key(request, g, i));
    }
    if (settings.enable_prefix_caching && !mamba) request.offered[g] = std::max(begin, full);
    if (spec.type != trace::GroupType::SlidingWindow) continue;
    Blocks back;
    for (std::uint32_t i = first_of_hit(g, launch.end); i-- > 0;) {
      if (table[i] != trace::kNoBlock) back.push_back(table[i]);
      table[i] = trace::kNoBlock;
    }
    pool.unpin(back);
  }
}

void KvModel::release(ModelRequest& request) {
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    Blocks back(request.tables[g].rbegin(), request.tables[g].rend());
    std::erase(back, trace::kNoBlock);
    pools[settings.groups[g].pool].unpin(back);
    request.tables[g].clear();
    request.offered[g] = 0;
  }
  request.planned = request.committed = 0;
  ++request.life;
}

bool KvModel::can_fork(const ModelRequest& parent, std::uint32_t token_count) const {
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    const Blocks& table = parent.tables[g];
    const std::uint32_t end = ceiling(token_count, settings.groups[g].block_size);
    if (table.size() < end) return false;
    for (std::uint32_t i = std::min(first_of_hit(g, token_count), end); i < end; ++i) {
      if (table[i] == trace::kNoBlock) return false;
    }
    // A recurrent state can't go back.
    if (is_mamba(g) && (token_count != parent.planned || token_count != parent.committed)) {
      return false;
    }
  }
  return true;
}

void KvModel::fork(RequestId parent, RequestId child, std::uint32_t token_count,
                   const Tokens& more) {
  ModelRequest forked = requests.at(parent);
  forked.tokens.resize(token_count);
  forked.tokens.insert(forked.tokens.end(), more.begin(), more.end());
  forked.planned = forked.committed = token_count;
  forked.life = 0;
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    const trace::GroupSpec& spec = settings.groups[g];
    Blocks& table = forked.tables[g];
    table.resize(ceiling(token_count, spec.block_size));
    const bool window = spec.type == trace::GroupType::SlidingWindow;
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      if (window && i < first_of_hit(g, token_count)) table[i] = trace::kNoBlock;
      if (table[i] != trace::kNoBlock) pools[spec.pool].pin(table[i]);
    }
    forked.offered[g] = std::min(forked.offered[g], token_count / spec.block_size);
  }
  requests[child] = forked;
}

// --- CellMemory ---

CellMemory::CellMemory(const trace::EngineSettings& settings) : settings_(settings) {
  for (const trace::PoolSpec& pool : settings.pools) {
    cells_.emplace_back(pool.num_blocks, std::vector<std::uint64_t>(64, 0));
  }
}

std::uint64_t& CellMemory::cell(std::uint32_t group, BlockId block, std::uint32_t offset) {
  return cells_[settings_.groups[group].pool][block.value][offset];
}

std::uint64_t CellMemory::content(const ModelRequest& request, std::uint32_t group,
                                  std::uint32_t token_count) {
  std::uint64_t hash = request.scope * 31 + group + 1;
  for (std::uint32_t i = 0; i < token_count; ++i) {
    hash = (hash ^ (request.tokens[i] + 1)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

void CellMemory::run(const CacheOps& ops) {
  for (const FillOp& fill : ops.fills) {
    std::vector<std::uint64_t>& cells = cells_[fill.pool][fill.block.value];
    std::fill(cells.begin(), cells.end(), 0);
  }
  for (const CopyOp& copy : ops.copies) {
    cells_[copy.pool][copy.destination.value] = cells_[copy.pool][copy.source.value];
  }
}

bool CellMemory::launch(const KvCache& cache, RequestId id, const ModelRequest& request,
                        std::uint32_t first, std::uint32_t end) {
  bool right = true;
  for (std::uint32_t g = 0; g < settings_.groups.size(); ++g) {
    const trace::GroupSpec& spec = settings_.groups[g];
    const std::span<const BlockId> table = cache.table(id, g);
    const std::uint32_t size = spec.block_size;
    if (spec.type == trace::GroupType::Mamba) {
      right &= first == 0 || cell(g, table[(first - 1) / size], 0) == content(request, g, first);
      cell(g, table[(end - 1) / size], 0) = content(request, g, end);
      continue;
    }
    const bool window = spec.type == trace::GroupType::SlidingWindow;
    for (std::uint32_t p = first; p < end; ++p) {
      cell(g, table[p / size], p % size) = content(request, g, p + 1);
      for (std::uint32_t q = window && p >= spec.window ? p - spec.window + 1 : 0; q <= p; ++q) {
        right &= table[q / size] != trace::kNoBlock &&
                 cell(g, table[q / size], q % size) == content(request, g, q + 1);
      }
    }
  }
  return right;
}

// --- EventShadow ---

void EventShadow::on_event(const trace::Event& event) {
  std::visit([this](const auto& kind) { on(kind); }, event);
}

void EventShadow::hold(std::uint32_t pool, BlockId block, int change) {
  std::uint32_t& count = pools[pool].counts[block];
  if (change < 0 && count == 0) broken.push_back("a block is given back that nobody holds");
  count += static_cast<std::uint32_t>(change);
}

void EventShadow::on(const trace::BlocksTaken& event) {
  Blocks& table = tables[{event.request, event.group}];
  // A table of nothing but blocks given back may be one that was released.
  const auto none = [](BlockId block) { return block == trace::kNoBlock; };
  if (std::all_of(table.begin(), table.end(), none)) {
    table.assign(event.first_index, trace::kNoBlock);
  }
  if (table.size() != event.first_index) broken.push_back("first_index of BlocksTaken");
  for (const BlockId block : event.blocks) {
    if (pools[event.pool].counts[block] != 0) broken.push_back("a block in use is handed out");
    if (pools[event.pool].keys.contains(block)) broken.push_back("a block with a key is taken");
    hold(event.pool, block, 1);
    table.push_back(block);
  }
}

void EventShadow::on(const trace::BlocksHit& event) {
  for (const BlockId block : event.blocks) {
    if (block == trace::kNoBlock) continue;
    if (!pools[event.pool].keys.contains(block)) broken.push_back("a hit of a block without key");
    hold(event.pool, block, 1);
  }
  tables[{event.request, event.group}] = event.blocks;
}

void EventShadow::on(const trace::BlocksShared& event) {
  for (const BlockId block : event.blocks) {
    if (block != trace::kNoBlock) hold(event.pool, block, 1);
  }
  tables[{event.request, event.group}] = event.blocks;
}

void EventShadow::on(const trace::BlocksReleased& event) {
  Blocks& table = tables[{event.request, event.group}];
  for (const BlockId block : event.blocks) {
    hold(event.pool, block, -1);
    const auto found = std::find(table.begin(), table.end(), block);
    if (found == table.end()) {
      broken.push_back("a block is released that the request lacks");
    } else {
      *found = trace::kNoBlock;
    }
  }
}

void EventShadow::on(const trace::BlockReplaced& event) {
  Blocks& table = tables[{event.request, event.group}];
  if (event.index >= table.size() || table[event.index] != event.source) {
    broken.push_back("source of BlockReplaced");
    return;
  }
  if (pools[event.pool].counts[event.source] < 2) broken.push_back("copied by its last holder");
  hold(event.pool, event.source, -1);
  hold(event.pool, event.destination, 1);
  table[event.index] = event.destination;
}

void EventShadow::on(const trace::BlockPublished& event) {
  const auto& keys = pools[event.pool].keys;
  for (const auto& [block, key] : keys) {
    if (key == event.key || block == event.block) broken.push_back("the key map is not bijective");
  }
  pools[event.pool].keys[event.block] = event.key;
}

void EventShadow::on(const trace::KeyDropped& event) {
  keys_dropped_in_use += pools[event.pool].counts[event.block] > 0;
  if (pools[event.pool].keys.erase(event.block) == 0) broken.push_back("a key is dropped twice");
}

}  // namespace lockstep::engine
