#include "oracles/cells.h"

#include <algorithm>

#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

// Of a token that nobody knows: equal to no other lineage.
constexpr trace::TokenId kUnknownToken = 0xffffffff;

Lineage chain(Lineage before, std::uint64_t word) {
  std::uint64_t z = (before ^ word) + 0x9e3779b97f4a7c15u;  // SplitMix64's finalizer
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Lineage last_of(const std::vector<Lineage>& list, Lineage root) {
  return list.empty() ? root : list.back();
}

}  // namespace

std::string_view name(trace::GroupType type) {
  switch (type) {
    case trace::GroupType::FullAttention:
      return "full_attention";
    case trace::GroupType::SlidingWindow:
      return "sliding_window";
    case trace::GroupType::Mamba:
      return "mamba";
  }
  return "";
}

std::vector<Cell>& PoolCells::touch(trace::BlockId block) {
  grown(versions_, block.value);
  return grown(blocks_, block.value);
}

void PoolCells::set(trace::BlockId block, std::uint32_t offset, const Cell& cell) {
  if (!contains(block)) return;
  Cell& old = grown(touch(block), offset);
  const bool same =
      old.holds(cell.group, cell.position, cell.lineage) && old.request == cell.request;
  if (old.written() && !same) ++versions_[block.value];
  old = cell;
}

void PoolCells::clear(trace::BlockId block) {
  if (block.value >= blocks_.size() || blocks_[block.value].empty()) return;
  blocks_[block.value].clear();
  ++versions_[block.value];
}

void PoolCells::copy(trace::BlockId source, trace::BlockId destination) {
  if (!contains(destination)) return;
  std::vector<Cell>& target = touch(destination);
  if (source.value < blocks_.size()) {
    target = blocks_[source.value];
  } else {
    target.clear();
  }
  ++versions_[destination.value];
}

void PoolCells::clear_all() {
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) clear({block});
}

CellFold::CellFold(const trace::Scenario& scenario) : groups_(scenario.engine.groups) {
  for (const trace::PoolSpec& pool : scenario.engine.pools) pools_.emplace_back(pool.num_blocks);
}

Sequence& CellFold::sequence(trace::RequestId request) { return grown(sequences_, request.value); }

bool CellFold::in_flight(std::uint32_t launch) const {
  return std::any_of(flights_.begin(), flights_.end(),
                     [launch](const Flight& flight) { return flight.launch == launch; });
}

std::optional<Lineage> CellFold::expected(trace::RequestId request, std::uint32_t position) {
  const Sequence& mine = sequence(request);
  if (position < mine.known.size()) return mine.known[position];
  if (position < mine.fed.size()) return mine.fed[position];
  return std::nullopt;
}

void CellFold::began(const trace::LifeBegan& event) {
  Sequence& mine = sequence(event.request);
  mine = {};
  mine.root = chain(1, event.identity);
  mine.tokens = event.tokens;
  for (const trace::TokenId token : event.tokens) {
    mine.known.push_back(chain(last_of(mine.known, mine.root), token));
  }
}

void CellFold::accepted(const trace::TokensAccepted& event) {
  Sequence& mine = sequence(event.request);
  for (const trace::TokenId token : event.tokens) {
    mine.tokens.push_back(token);
    mine.known.push_back(chain(last_of(mine.known, mine.root), token));
  }
}

void CellFold::restarts(trace::RequestId request) { sequence(request).restart = made_; }

void CellFold::made(const trace::LaunchMade& event) {
  made_ = std::max(made_, event.launch.value + 1);
  Flight flight{event.launch.value, {}};
  if (!spare_.empty()) {
    flight.touched = std::move(spare_.back());
    spare_.pop_back();
  }
  flights_.push_back(std::move(flight));
}

void CellFold::completed(const trace::LaunchCompleted& event) {
  for (auto flight = flights_.begin(); flight != flights_.end(); ++flight) {
    if (flight->launch != event.launch.value) continue;
    flight->touched.clear();
    spare_.push_back(std::move(flight->touched));
    flights_.erase(flight);
    return;
  }
}

void CellFold::copied(const trace::CopyRan& event) {
  if (event.pool >= pools_.size()) return;
  if (event.source == trace::kNoBlock) {
    pools_[event.pool].clear(event.destination);
  } else {
    pools_[event.pool].copy(event.source, event.destination);
  }
}

void CellFold::reset(const trace::DeviceReset& event) {
  for (const Flight& flight : flights_) {
    for (const Touched& touched : flight.touched) {
      PoolCells& cells = pools_[touched.pool];
      if (cells.at(touched.block, touched.offset).launch == flight.launch) {
        cells.set(touched.block, touched.offset, Cell{});
      }
    }
  }
  flights_.clear();
  if (!event.memory_lost) return;
  for (PoolCells& cells : pools_) cells.clear_all();
}

std::uint32_t CellFold::feed(trace::LaunchIndex launch, const trace::RanRows& row) {
  Sequence& mine = sequence(row.request);
  std::uint32_t changed = row.first_position;
  if (mine.restart && launch.value >= *mine.restart) {
    mine.restart.reset();
    mine.fed.clear();
    changed = 0;
  }
  if (mine.fed.size() > row.first_position) mine.fed.resize(row.first_position);
  // Drafts that were rejected are no part of what this row goes on from, fed again or not.
  std::size_t position = std::min(mine.fed.size(), mine.known.size());
  if (position == mine.fed.size()) {
    while (position > 0 && mine.fed[position - 1] != mine.known[position - 1]) {
      --position;
      mine.fed[position] = mine.known[position];
      changed = std::min(changed, static_cast<std::uint32_t>(position));
    }
  }
  while (mine.fed.size() < row.first_position) {
    const std::size_t next = mine.fed.size();
    const trace::TokenId token = next < mine.tokens.size() ? mine.tokens[next] : kUnknownToken;
    mine.fed.push_back(chain(last_of(mine.fed, mine.root), token));
  }
  for (const trace::TokenId token : row.tokens) {
    mine.fed.push_back(chain(last_of(mine.fed, mine.root), token));
  }
  return changed;
}

void CellFold::put(Flight* flight, std::uint32_t group, std::int64_t block, std::uint32_t offset,
                   const Cell& cell) {
  PoolCells& cells = cells_of_group(group);
  if (block < 0 || block > 0xffffffff) return;
  const trace::BlockId id{static_cast<std::uint32_t>(block)};
  if (!cells.contains(id)) return;
  cells.set(id, offset, cell);
  if (flight != nullptr) flight->touched.push_back({groups_[group].pool, offset, id});
}

void CellFold::write(trace::LaunchIndex launch, const trace::RanRows& row) {
  const Sequence& mine = sequence(row.request);
  Flight* flight = nullptr;
  for (Flight& candidate : flights_) {
    if (candidate.launch == launch.value) flight = &candidate;
  }
  const std::size_t group_count = std::min(groups_.size(), row.slots.size());
  for (std::uint32_t group = 0; group < group_count; ++group) {
    const trace::GroupSpec& spec = groups_[group];
    const std::vector<std::int64_t>& slots = row.slots[group];
    Cell cell;
    cell.request = row.request.value;
    cell.launch = launch.value;
    cell.group = group;
    if (spec.type == trace::GroupType::Mamba) {
      if (slots.empty() || row.tokens.empty()) continue;
      cell.position = row.first_position + static_cast<std::uint32_t>(row.tokens.size()) - 1;
      cell.lineage = mine.fed[cell.position];
      put(flight, group, slots.back(), 0, cell);
      continue;
    }
    const std::size_t count = std::min(slots.size(), row.tokens.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      if (slots[i] < 0) continue;
      cell.position = row.first_position + i;
      cell.lineage = mine.fed[cell.position];
      put(flight, group, slots[i] / spec.block_size,
          static_cast<std::uint32_t>(slots[i] % spec.block_size), cell);
    }
  }
}

}  // namespace lockstep::oracles
