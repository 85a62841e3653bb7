// ownership: every block is in the state that the engine's own events put it in: handed out from
// the head of the one free queue, given back once by each holder, reserved while a launch in flight
// may still use it; the engine's counters say the same. Keys name one block each, are given only to
// blocks whose cells are all written by launches that completed, and a hit finds only its own
// prefix. No launch reads a block that is free.
#include <algorithm>
#include <vector>

#include "oracles/cells.h"
#include "oracles/pool_shadow.h"
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class Ownership : public ServingLaw<Ownership> {
 public:
  explicit Ownership(ScenarioPointer pointer)
      : ServingLaw<Ownership>(std::move(pointer)),
        cells_(scenario()),
        pools_(scenario(), [this](const PoolViolation& what) {
          report(what.kind, what.request, what.pool, what.block, what.text);
        }) {}

  std::string_view law() const override { return "ownership"; }

  Verdict finish(const std::vector<Verdict>&) override {
    judge_publications();
    Verdict result = verdict(checked_, "blocks", "no block was handed out");
    std::uint32_t total = 0;
    for (const trace::PoolSpec& pool : scenario().engine.pools) total += pool.num_blocks;
    result.where = fmt::format("{} of {} blocks used at most", most_used_, total);
    return result;
  }

  void on(const trace::LifeBegan& event) { cells_.began(event); }
  void on(const trace::TokensAccepted& event) { cells_.accepted(event); }
  void on(const trace::RequestPreempted& event) { cells_.restarts(event.request); }
  void on(const trace::CopyRan& event) { cells_.copied(event); }

  void on(const trace::BlocksTaken& event) {
    if (!valid(event.request, event.group, event.pool)) return;
    checked_ += event.blocks.size();
    pools_.taken(event);
    count_used();
  }

  void on(const trace::BlocksHit& event) {
    if (!valid(event.request, event.group, event.pool)) return;
    judge_publications();
    cells_.restarts(event.request);
    judge_hit(event);
    pools_.hit(event);
    count_used();
  }

  void on(const trace::BlocksShared& event) {
    if (!valid(event.request, event.group, event.pool)) return;
    checked_ += event.blocks.size();
    pools_.shared(event);
  }

  void on(const trace::BlocksReleased& event) {
    if (!valid(event.request, event.group, event.pool)) return;
    checked_ += event.blocks.size();
    pools_.released(event);
  }

  void on(const trace::BlockReplaced& event) {
    if (!valid(event.request, event.group, event.pool)) return;
    checked_ += 2;
    pools_.replaced(event);
    count_used();
  }

  void on(const trace::BlockPublished& event) {
    if (!valid(event.request, event.group, event.pool)) return;
    ++checked_;
    judge_content(event);
    pools_.published(event);
  }

  void on(const trace::KeyDropped& event) {
    if (event.pool < pools_.pool_count()) pools_.key_dropped(event);
  }

  void on(const trace::LaunchMade& event) {
    judge_publications();
    cells_.made(event);
    pools_.made(event);
  }

  void on(const trace::LaunchRan& event) {
    for (const trace::RanRows& row : event.rows) {
      cells_.feed(event.launch, row);
      judge_tables(event.launch, row);
    }
    for (const trace::RanRows& row : event.rows) cells_.write(event.launch, row);
  }

  void on(const trace::LaunchFailed& event) { pools_.failed(event); }

  void on(const trace::LaunchCompleted& event) {
    cells_.completed(event);
    pools_.completed(event);
  }

  void on(const trace::DeviceReset& event) {
    cells_.reset(event);
    pools_.reset();
  }

  void on(const trace::PoolCounted& event) {
    if (event.pool >= pools_.pool_count()) return;
    ++checked_;
    const PoolFold::Balance mine = pools_.balance(event.pool);
    const PoolFold::Balance engine{event.free, event.evictable, event.used, event.reserved};
    if (engine == mine) return;
    const std::uint32_t blocks = scenario().engine.pools[event.pool].num_blocks;
    fail(engine.total() != blocks ? "balance" : "counters", {}, {}, [&] {
      return fmt::format(
          "tick {}: pool {}: the engine counts {}, by its own events it has {} (of {} blocks)",
          tick(), pool_name(event.pool), text(engine), text(mine), blocks);
    });
  }

 private:
  // A publication whose cells a launch in flight wrote: right only if that launch turns out to have
  // been processed at this very moment.
  struct Publication {
    trace::BlockPublished event;
    std::uint32_t launch = 0;
  };

  bool valid(trace::RequestId request, std::uint32_t group, std::uint32_t pool) {
    const auto& groups = scenario().engine.groups;
    if (group < groups.size() && groups[group].pool == pool) return true;
    fail("no_such_group", request, {}, [&] {
      return fmt::format("tick {}: request {}: group {} of pool {}", tick(), name(request), group,
                         pool);
    });
    return false;
  }

  std::string pool_name(std::uint32_t pool) const {
    const auto& pools = scenario().engine.pools;
    return pool < pools.size() ? pools[pool].name : fmt::format("#{}", pool);
  }

  static std::string text(const PoolFold::Balance& balance) {
    return fmt::format("free {} evictable {} used {} reserved {}", balance.free, balance.evictable,
                       balance.used, balance.reserved);
  }

  void report(const char* kind, trace::RequestId request, std::uint32_t pool, trace::BlockId block,
              const std::string& what) {
    fail(
        kind, request, {},
        [&] {
          return fmt::format("tick {}: request {}, pool {}: block {} {}", tick(), name(request),
                             pool_name(pool), block.value, what);
        },
        BlockPlace{pool, block});
  }

  void count_used() {
    std::uint32_t used = 0;
    for (std::uint32_t pool = 0; pool < pools_.pool_count(); ++pool) {
      used += pools_.balance(pool).used;
    }
    most_used_ = std::max(most_used_, used);
  }

  // The cells of block `index` of a table that a hit of it relies on: all, or a mamba state.
  struct Cells {
    std::uint32_t count = 0;
    trace::Position first = 0;
  };
  Cells cells_of(std::uint32_t group, std::uint32_t index) const {
    const trace::GroupSpec& spec = scenario().engine.groups[group];
    const std::uint32_t first = index * spec.block_size;
    if (spec.type == trace::GroupType::Mamba) return {1, first + spec.block_size - 1};
    return {spec.block_size, first};
  }

  void judge_content(const trace::BlockPublished& event) {
    std::optional<std::uint32_t> unfinished;
    const Cells relied = cells_of(event.group, event.index);
    for (std::uint32_t offset = 0; offset < relied.count; ++offset) {
      const trace::Position position = relied.first + offset;
      const Cell cell = cells_.cells_of_group(event.group).at(event.block, offset);
      const std::optional<Lineage> want = cells_.expected(event.request, position);
      if (!cell.written()) {
        report("published_unwritten", event.request, event.pool, event.block,
               fmt::format("gets a key, but nobody wrote its cell of position {}", position));
        return;
      }
      if (!want || !cell.holds(event.group, position, *want)) {
        report("published_wrong", event.request, event.pool, event.block,
               fmt::format("gets the key of this request's block {}, but its cell of position {} "
                           "holds {}",
                           event.index, position, text(cell)));
        return;
      }
      if (cells_.in_flight(cell.launch)) unfinished = cell.launch;
    }
    if (unfinished) unfinished_.push_back({event, *unfinished});
  }

  void judge_publications() {
    if (unfinished_.empty()) return;
    for (const Publication& one : unfinished_) {
      if (!cells_.in_flight(one.launch)) continue;
      report("published_in_flight", one.event.request, one.event.pool, one.event.block,
             fmt::format("got a key while launch {}, which wrote it, was in flight", one.launch));
    }
    unfinished_.clear();
  }

  void judge_hit(const trace::BlocksHit& event) {
    const trace::GroupSpec& spec = scenario().engine.groups[event.group];
    const std::size_t known = cells_.sequence(event.request).tokens.size();
    if (event.tokens % spec.block_size != 0 || event.tokens >= known ||
        event.blocks.size() * spec.block_size != event.tokens) {
      fail("hit_length", event.request, {}, [&] {
        return fmt::format("tick {}: request {} hits {} tokens in {} blocks of {}; it has {}",
                           tick(), name(event.request), event.tokens, event.blocks.size(),
                           spec.block_size, known);
      });
    }
    const std::uint32_t needed = first_needed(spec, event.tokens);
    for (std::uint32_t index = 0; index < event.blocks.size(); ++index) {
      ++checked_;
      const trace::BlockId block = event.blocks[index];
      if (block != trace::kNoBlock) {
        judge_hit_block(event, index);
      } else if (index >= needed) {
        fail("hit_gap", event.request, index * spec.block_size, [&] {
          return fmt::format("tick {}: request {} hits {} tokens, but not block {} of group {}",
                             tick(), name(event.request), event.tokens, index, spec.name);
        });
      }
    }
  }

  // First block that the position after a hit still reads.
  static std::uint32_t first_needed(const trace::GroupSpec& spec, std::uint32_t tokens) {
    switch (spec.type) {
      case trace::GroupType::FullAttention:
      case trace::GroupType::SlidingWindow:
        return oldest_read(spec, tokens) / spec.block_size;
      case trace::GroupType::Mamba:
        return tokens == 0 ? 0 : (tokens - 1) / spec.block_size;
    }
    return 0;
  }

  void judge_hit_block(const trace::BlocksHit& event, std::uint32_t index) {
    const Cells relied = cells_of(event.group, index);
    for (std::uint32_t offset = 0; offset < relied.count; ++offset) {
      const trace::Position position = relied.first + offset;
      const Cell cell = cells_.cells_of_group(event.group).at(event.blocks[index], offset);
      const std::vector<Lineage>& known = cells_.sequence(event.request).known;
      if (position < known.size() && cell.holds(event.group, position, known[position])) continue;
      report("hit_wrong", event.request, event.pool, event.blocks[index],
             fmt::format("is hit, but its cell of position {} holds {}", position, text(cell)));
      return;
    }
  }

  std::string text(const Cell& cell) const {
    if (!cell.written()) return "nothing";
    return fmt::format("position {} of {}, by launch {}", cell.position, name({cell.request}),
                       cell.launch);
  }

  // A table as a launch read it names blocks that the request holds, or did when it was made.
  void judge_tables(trace::LaunchIndex launch, const trace::RanRows& row) {
    const std::size_t count = std::min(row.tables.size(), scenario().engine.groups.size());
    for (std::uint32_t group = 0; group < count; ++group) {
      const std::uint32_t pool = scenario().engine.groups[group].pool;
      for (const trace::BlockId block : row.tables[group]) {
        if (block == trace::kNoBlock || !pools_.contains(pool, block)) continue;
        const BlockState state = pools_.state(pool, block);
        if (state == BlockState::Used || state == BlockState::Reserved) continue;
        report("read_free", row.request, pool, block,
               fmt::format("is free, but launch {} runs with it in a table", launch.value));
      }
    }
  }

  CellFold cells_;
  PoolFold pools_;
  std::vector<Publication> unfinished_;
  std::uint64_t checked_ = 0;
  std::uint32_t most_used_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> ownership(ScenarioPointer scenario) {
  return std::make_unique<Ownership>(std::move(scenario));
}

}  // namespace lockstep::oracles
