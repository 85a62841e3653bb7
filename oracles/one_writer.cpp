// one_writer: a launch writes the cells that its block table names, each once, and only into blocks
// that its request alone holds (since before the launch was made) and that no key names. A launch
// that was given up, or never made, writes nothing.
#include <algorithm>
#include <vector>

#include "oracles/cells.h"
#include "oracles/pool_shadow.h"
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class OneWriter : public ServingLaw<OneWriter> {
 public:
  explicit OneWriter(ScenarioPointer pointer)
      : ServingLaw<OneWriter>(std::move(pointer)),
        groups_(scenario().engine.groups),
        pools_(scenario(), {}) {}

  std::string_view law() const override { return "one_writer"; }

  Verdict finish(const std::vector<Verdict>&) override {
    return verdict(checked_, "cells", "no launch ran");
  }

  void on(const trace::BlocksTaken& event) {
    if (known(event.group, event.pool)) pools_.taken(event);
  }

  void on(const trace::BlocksHit& event) {
    if (known(event.group, event.pool)) pools_.hit(event);
  }

  void on(const trace::BlocksShared& event) {
    if (known(event.group, event.pool)) pools_.shared(event);
  }

  void on(const trace::BlocksReleased& event) {
    if (known(event.group, event.pool)) pools_.released(event);
  }

  void on(const trace::BlockReplaced& event) {
    if (known(event.group, event.pool)) pools_.replaced(event);
  }

  void on(const trace::BlockPublished& event) {
    if (known(event.group, event.pool)) pools_.published(event);
  }

  void on(const trace::KeyDropped& event) {
    if (event.pool < pools_.pool_count()) pools_.key_dropped(event);
  }

  void on(const trace::LaunchMade& event) {
    pools_.made(event);
    in_flight_.push_back(event.launch);
  }

  void on(const trace::LaunchFailed& event) { pools_.failed(event); }

  void on(const trace::LaunchCompleted& event) {
    pools_.completed(event);
    std::erase(in_flight_, event.launch);
  }

  void on(const trace::DeviceReset&) {
    pools_.reset();
    in_flight_.clear();
  }

  void on(const trace::LaunchRan& event) {
    if (std::find(in_flight_.begin(), in_flight_.end(), event.launch) == in_flight_.end()) {
      fail("not_in_flight", event.rows.empty() ? trace::RequestId{} : event.rows.front().request,
           {}, [&] {
             return fmt::format("tick {}: launch {} runs, but it is not in flight", tick(),
                                event.launch.value);
           });
    }
    writes_.clear();
    for (const trace::RanRows& row : event.rows) {
      const std::size_t count = std::min(groups_.size(), row.slots.size());
      for (std::uint32_t group = 0; group < count; ++group) judge(event.launch, row, group);
    }
    judge_doubles(event.launch);
  }

 private:
  struct Write {
    std::uint32_t pool = 0, block = 0, offset = 0;
    trace::RequestId request;
    trace::Position position = 0;
    auto place() const { return std::tuple(pool, block, offset); }
  };

  bool known(std::uint32_t group, std::uint32_t pool) const {
    return group < groups_.size() && groups_[group].pool == pool;
  }

  void judge(trace::LaunchIndex launch, const trace::RanRows& row, std::uint32_t group) {
    const trace::GroupSpec& spec = groups_[group];
    const std::vector<std::int64_t>& slots = row.slots[group];
    const std::vector<trace::BlockId> empty;
    const std::vector<trace::BlockId>& table =
        group < row.tables.size() ? row.tables[group] : empty;
    const bool mamba = spec.type == trace::GroupType::Mamba;
    const auto tokens = static_cast<std::uint32_t>(row.tokens.size());
    const std::uint32_t expected = mamba ? std::min(tokens, 1u) : tokens;
    if (slots.size() != expected) {
      fail("slot_count", row.request, row.first_position, [&] {
        return fmt::format(
            "tick {}: launch {}: request {} feeds {} tokens and writes {} slots of "
            "group {}",
            tick(), launch.value, name(row.request), tokens, slots.size(), spec.name);
      });
    }
    std::uint32_t judged = 0xffffffff;  // block judged last
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      ++checked_;
      const trace::Position position =
          row.first_position + (mamba ? std::max(tokens, 1u) - 1 : std::min(i, tokens));
      const std::int64_t size = mamba ? 1 : spec.block_size;
      const std::int64_t slot = slots[i];
      const trace::BlockId block{
          slot < 0 ? 0xffffffff
                   : static_cast<std::uint32_t>(std::min<std::int64_t>(slot / size, 0xffffffff))};
      const auto offset = static_cast<std::uint32_t>(slot < 0 ? 0 : slot % size);
      if (!pools_.contains(spec.pool, block)) {
        fail("out_of_range", row.request, position, [&] {
          return fmt::format(
              "tick {}: launch {}: request {} writes position {} to slot {} of "
              "group {}, outside its pool",
              tick(), launch.value, name(row.request), position, slot, spec.name);
        });
        continue;
      }
      const std::uint32_t index = position / spec.block_size;
      const bool named = index < table.size() && table[index] == block &&
                         (mamba || offset == position % spec.block_size);
      if (!named) {
        fail("not_the_table", row.request, position, [&] {
          return fmt::format(
              "tick {}: launch {}: request {} writes position {} to block {} offset "
              "{} of group {}; its table says block {} offset {}",
              tick(), launch.value, name(row.request), position, block.value, offset, spec.name,
              index < table.size() && table[index] != trace::kNoBlock
                  ? std::to_string(table[index].value)
                  : "none",
              mamba ? 0 : position % spec.block_size);
        });
      }
      if (block.value != judged) judge_block(launch, row, group, block, position);
      judged = block.value;
      writes_.push_back({spec.pool, block.value, offset, row.request, position});
    }
  }

  void judge_block(trace::LaunchIndex launch, const trace::RanRows& row, std::uint32_t group,
                   trace::BlockId block, trace::Position position) {
    const std::uint32_t pool = groups_[group].pool;
    const auto say = [&](const char* kind, const std::string& what) {
      fail(
          kind, row.request, position,
          [&] {
            return fmt::format(
                "tick {}: launch {}: request {} writes position {} to block {} of group "
                "{}, which {}",
                tick(), launch.value, name(row.request), position, block.value, groups_[group].name,
                what);
          },
          BlockPlace{pool, block});
    };
    bool mine = false;
    for (const PoolFold::Holder& holder : pools_.holders(pool, block)) {
      if (holder.request == row.request && holder.group == group) {
        mine = true;
      } else if (holder.since <= launch.value) {  // not one that came after the launch was made
        say("shared", fmt::format("{} holds too", name(holder.request)));
        return;
      }
    }
    if (!mine && !pools_.named_by(launch, pool, block)) {
      const std::vector<PoolFold::Holder>& holders = pools_.holders(pool, block);
      say("not_held",
          holders.empty() ? std::string("nobody holds") : name(holders.front().request) + " holds");
    } else if (pools_.has_key(pool, block)) {
      say("published", "can be hit by its key");
    }
  }

  void judge_doubles(trace::LaunchIndex launch) {
    if (writes_.size() < 2) return;
    std::stable_sort(writes_.begin(), writes_.end(),
                     [](const Write& a, const Write& b) { return a.place() < b.place(); });
    for (std::size_t i = 1; i < writes_.size(); ++i) {
      const Write &first = writes_[i - 1], &second = writes_[i];
      if (first.place() != second.place()) continue;
      fail("twice", second.request, second.position, [&] {
        return fmt::format(
            "tick {}: launch {} writes block {} offset {} twice: position {} of {} and position {} "
            "of {}",
            tick(), launch.value, first.block, first.offset, first.position, name(first.request),
            second.position, name(second.request));
      });
    }
  }

  std::vector<trace::GroupSpec> groups_;
  PoolFold pools_;
  std::vector<trace::LaunchIndex> in_flight_;
  std::vector<Write> writes_;  // of the launch at hand
  std::uint64_t checked_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> one_writer(ScenarioPointer scenario) {
  return std::make_unique<OneWriter>(std::move(scenario));
}

}  // namespace lockstep::oracles
