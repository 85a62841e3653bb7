// reads: what a launch's masks and block tables let its rows read is their own prefix, cell by
// cell: written, of the right position, and of the right lineage (cells.h), whoever wrote it.
//
// Kinds of wrong read: `missing` (no block in the table, or the mask leaves it out), `unwritten`
// (also: not yet written when the row runs), `double` (the table names one block for two ranges of
// positions), `overwritten` (a later position of the same launch has the same slot), `foreign`
// (another request's content, or another request's cell of the same launch), `wrong_position` (its
// own), `stale` (its own, of a sequence that was taken back). And of what comes back: `wrong_token`
// (accepted from a row that was fed another sequence), `not_run` (from a launch that did not run
// it).
//
// What has been verified is not looked at again until the block's version changes.
#include <algorithm>
#include <array>
#include <vector>

#include "oracles/cells.h"
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class Reads : public ServingLaw<Reads> {
 public:
  explicit Reads(ScenarioPointer pointer)
      : ServingLaw<Reads>(std::move(pointer)), cells_(scenario()) {}

  std::string_view law() const override { return "reads"; }

  Verdict finish(const std::vector<Verdict>&) override {
    return verdict(checked_, "cells", "no launch ran");
  }

  void on(const trace::LifeBegan& event) {
    cells_.began(event);
    reader(event.request) = {};
  }

  void on(const trace::RequestPreempted& event) { cells_.restarts(event.request); }
  void on(const trace::BlocksHit& event) { cells_.restarts(event.request); }
  void on(const trace::LaunchMade& event) { cells_.made(event); }
  void on(const trace::LaunchCompleted& event) { cells_.completed(event); }
  void on(const trace::CopyRan& event) { cells_.copied(event); }
  void on(const trace::DeviceReset& event) { cells_.reset(event); }

  void on(const trace::LaunchRan& event) {
    for (const trace::RanRows& row : event.rows) {
      forget(row.request, cells_.feed(event.launch, row));
      remember(event.launch, row);
      for_groups(row, [&](std::uint32_t group, const trace::GroupSpec& spec) {
        if (spec.type == trace::GroupType::Mamba) judge_state(event.launch, row, group);
      });
    }
    for (const trace::RanRows& row : event.rows) cells_.write(event.launch, row);
    for (const trace::RanRows& row : event.rows) {
      for_groups(row, [&](std::uint32_t group, const trace::GroupSpec& spec) {
        if (spec.type == trace::GroupType::Mamba) {
          judge_state_race(event.launch, row, group);
        } else {
          judge_mask(event.launch, row, group);
          judge_cells(event.launch, row, group);
        }
      });
    }
  }

  void on(const trace::TokensAccepted& event) {
    const std::size_t before = cells_.sequence(event.request).known.size();
    cells_.accepted(event);
    if (event.tokens.empty()) return;
    checked_ += event.tokens.size();
    const Reader& mine = reader(event.request);
    const auto row = std::find_if(mine.rows.begin(), mine.rows.end(), [&](const Row& candidate) {
      return !candidate.lineages.empty() && candidate.launch == event.launch.value;
    });
    if (row == mine.rows.end()) {
      fail("not_run", event.request, static_cast<std::uint32_t>(before), [&] {
        return fmt::format(
            "tick {}: request {} accepts tokens of launch {}, which ran no row of it", tick(),
            name(event.request), event.launch.value);
      });
      return;
    }
    // The token at position p comes from the row at p - 1.
    const std::vector<Lineage>& known = cells_.sequence(event.request).known;
    for (std::size_t position = before; position < known.size(); ++position) {
      const std::size_t source = position - 1;
      const std::size_t place = source - row->first;
      const bool fed = position > 0 && source >= row->first && place < row->lineages.size();
      if (fed && row->lineages[place] == known[source]) continue;
      fail("wrong_token", event.request, static_cast<std::uint32_t>(position), [&] {
        return fmt::format(
            "tick {}: request {} accepts the token of position {} from launch {}, which fed it {}",
            tick(), name(event.request), position, event.launch.value,
            fed ? "another sequence"
                : fmt::format("positions {}..{}", row->first,
                              row->first + row->lineages.size() - 1));
      });
      return;
    }
  }

 private:
  // Offsets [from, to) of a block were right when it had this version.
  struct Verified {
    trace::BlockId block = trace::kNoBlock;
    std::uint32_t version = 0, from = 0, to = 0;
  };
  struct Row {  // as a launch fed it
    std::uint32_t launch = 0;
    trace::Position first = 0;
    std::vector<Lineage> lineages;  // after each fed token
  };
  static constexpr std::size_t kRowsKept = 8;  // more than can be in flight
  struct Reader {
    std::vector<std::vector<Verified>> groups;  // by index in the table
    std::array<Row, kRowsKept> rows;
    std::size_t next_row = 0;
  };
  struct Place {  // a cell that a row reads
    trace::LaunchIndex launch;
    const trace::RanRows* row = nullptr;
    std::uint32_t group = 0, index = 0, offset = 0;
    trace::Position position = 0;
  };

  Reader& reader(trace::RequestId request) {
    Reader& mine = grown(readers_, request.value);
    if (mine.groups.empty()) mine.groups.resize(cells_.groups().size());
    return mine;
  }

  template <class Judge>
  void for_groups(const trace::RanRows& row, Judge&& judge) {
    const std::size_t count = std::min(row.tables.size(), cells_.groups().size());
    for (std::uint32_t group = 0; group < count; ++group) judge(group, cells_.groups()[group]);
  }

  // Verified reads from a position on no longer count: another sequence is fed there.
  void forget(trace::RequestId request, std::uint32_t position) {
    Reader& mine = reader(request);
    for (std::uint32_t group = 0; group < mine.groups.size(); ++group) {
      std::vector<Verified>& list = mine.groups[group];
      const std::uint32_t size = cells_.groups()[group].block_size;
      const std::uint32_t index = position / size;
      if (index >= list.size()) continue;
      list.resize(index + std::size_t{1});
      list[index].to = std::min(list[index].to, position % size);
    }
  }

  void remember(trace::LaunchIndex launch, const trace::RanRows& row) {
    Reader& mine = reader(row.request);
    Row& kept = mine.rows[mine.next_row++ % kRowsKept];
    const std::vector<Lineage>& fed = cells_.sequence(row.request).fed;
    kept.launch = launch.value;
    kept.first = row.first_position;
    kept.lineages.assign(fed.end() - static_cast<std::ptrdiff_t>(row.tokens.size()), fed.end());
  }

  // A table's block, or nothing.
  static trace::BlockId block_of(const trace::RanRows& row, std::uint32_t group,
                                 std::uint32_t index) {
    return index < row.tables[group].size() ? row.tables[group][index] : trace::kNoBlock;
  }

  // --- attention ---------------------------------------------------------------------------------

  // Row i of n sees positions below first + i, itself aside.
  void judge_mask(trace::LaunchIndex launch, const trace::RanRows& row, std::uint32_t group) {
    const auto count = static_cast<std::uint32_t>(row.tokens.size());
    const std::uint32_t right = row.first_position + count;
    if (row.sequence_length == 0 || row.sequence_length == right) return;
    const bool more = row.sequence_length > right;
    const trace::Position position = more ? row.first_position : row.sequence_length;
    fail_read(more ? "unwritten" : "missing", row.request, group, position, [&] {
      return fmt::format(
          "tick {}: launch {}: request {} feeds positions {}..{} with a sequence length of {}: {}",
          tick(), launch.value, name(row.request), row.first_position, right - 1,
          row.sequence_length,
          more ? "its rows read cells that are not written yet"
               : "its rows do not see all that is before them");
    });
  }

  void judge_cells(trace::LaunchIndex launch, const trace::RanRows& row, std::uint32_t group) {
    const trace::GroupSpec& spec = cells_.groups()[group];
    const std::uint32_t size = spec.block_size;
    const auto count = static_cast<std::uint32_t>(row.tokens.size());
    if (count == 0) return;
    const std::uint32_t end = row.first_position + count - 1;  // the last row reads up to here
    const std::uint32_t begin = oldest_read(spec, row.first_position);
    if (begin >= end) return;
    const std::uint32_t last = (end - 1) / size;
    std::vector<Verified>& list = reader(row.request).groups[group];
    if (list.size() <= last) list.resize(last + std::size_t{1});
    const PoolCells& cells = cells_.cells_of_group(group);
    for (std::uint32_t index = begin / size; index <= last; ++index) {
      const std::uint32_t from = std::max(begin, index * size) - index * size;
      const std::uint32_t to = std::min(end - index * size, size);
      const trace::BlockId block = block_of(row, group, index);
      Verified& known = list[index];
      const bool current = known.block == block && known.version == cells.version(block) &&
                           known.from <= from && known.to >= from;
      if (current && known.to >= to && block != trace::kNoBlock) continue;
      const std::uint32_t start = current ? std::min(known.to, to) : from;
      const Place place{launch, &row, group, index, start, index * size + start};
      if (!judge_block(place, block, to)) return;  // what is behind follows from it
      known = {block, cells.version(block), current ? known.from : from, to};
    }
  }

  // Offsets [place.offset, to) of one block; false at the first wrong one.
  bool judge_block(Place place, trace::BlockId block, std::uint32_t to) {
    const PoolCells& cells = cells_.cells_of_group(place.group);
    if (block == trace::kNoBlock || !cells.contains(block)) {
      fail_place("missing", place, block, {});
      return false;
    }
    const trace::RequestId me = place.row->request;
    const std::vector<Lineage>& fed = cells_.sequence(me).fed;
    for (; place.offset < to; ++place.offset, ++place.position) {
      ++checked_;
      const Cell cell = cells.at(block, place.offset);
      const bool race = cell.launch == place.launch.value && cell.request != me.value;
      if (cell.holds(place.group, place.position, fed[place.position]) && !race) continue;
      fail_place(kind_of(place, block, cell), place, block, cell);
      return false;
    }
    return true;
  }

  const char* kind_of(const Place& place, trace::BlockId block, const Cell& cell) {
    if (!cell.written()) return "unwritten";
    const std::vector<trace::BlockId>& table = place.row->tables[place.group];
    if (std::count(table.begin(), table.end(), block) > 1) return "double";
    if (cell.request != place.row->request.value || cell.group != place.group) return "foreign";
    if (cell.launch == place.launch.value && cell.position > place.position) return "overwritten";
    return cell.position != place.position ? "wrong_position" : "stale";
  }

  // --- recurrent state ---------------------------------------------------------------------------

  std::optional<Place> state_place(trace::LaunchIndex launch, const trace::RanRows& row,
                                   std::uint32_t group) {
    const std::uint32_t before =
        row.sequence_length == 0
            ? row.first_position
            : row.sequence_length -
                  std::min(row.sequence_length, static_cast<std::uint32_t>(row.tokens.size()));
    if (before == 0) return std::nullopt;
    const std::uint32_t index = (before - 1) / cells_.groups()[group].block_size;
    return Place{launch, &row, group, index, 0, before - 1};
  }

  // The state is of the position before the row's first, exactly.
  void judge_state(trace::LaunchIndex launch, const trace::RanRows& row, std::uint32_t group) {
    judge_mask(launch, row, group);
    const std::optional<Place> place = state_place(launch, row, group);
    if (!place) return;
    ++checked_;
    const trace::BlockId block = block_of(row, group, place->index);
    const PoolCells& cells = cells_.cells_of_group(group);
    if (block == trace::kNoBlock || !cells.contains(block)) {
      fail_place("missing", *place, block, {});
      return;
    }
    const Cell cell = cells.at(block, 0);
    const std::vector<Lineage>& fed = cells_.sequence(row.request).fed;
    if (place->position < fed.size() && cell.holds(group, place->position, fed[place->position])) {
      return;
    }
    fail_place(kind_of(*place, block, cell), *place, block, cell);
  }

  // Nobody else writes the state that a row of the same launch reads.
  void judge_state_race(trace::LaunchIndex launch, const trace::RanRows& row, std::uint32_t group) {
    const std::optional<Place> place = state_place(launch, row, group);
    if (!place) return;
    const trace::BlockId block = block_of(row, group, place->index);
    if (block == trace::kNoBlock) return;
    const Cell cell = cells_.cells_of_group(group).at(block, 0);
    if (!cell.written() || cell.launch != launch.value || cell.request == row.request.value) return;
    fail_place("foreign", *place, block, cell);
  }

  // --- what comes back ---------------------------------------------------------------------------

  // -----------------------------------------------------------------------------------------------

  template <class Describe>
  void fail_read(const char* kind, trace::RequestId request, std::uint32_t group,
                 trace::Position position, Describe&& describe,
                 std::optional<BlockPlace> block = std::nullopt) {
    fail(fmt::format("{}.{}", kind, oracles::name(cells_.groups()[group].type)), request, position,
         describe, block);
  }

  void fail_place(const char* kind, const Place& place, trace::BlockId block, const Cell& cell) {
    const trace::RanRows& row = *place.row;
    std::optional<BlockPlace> named;
    if (block != trace::kNoBlock) named = BlockPlace{cells_.groups()[place.group].pool, block};
    fail_read(
        kind, row.request, place.group, place.position,
        [&] {
          const std::string where =
              block == trace::kNoBlock
                  ? fmt::format("in no block (its table of group {} has {})",
                                cells_.groups()[place.group].name, row.tables[place.group].size())
                  : fmt::format("in block {} offset {} of group {}", block.value, place.offset,
                                cells_.groups()[place.group].name);
          std::string found;
          if (cell.written()) {
            found = fmt::format(": there is position {} of {}, written by launch {}", cell.position,
                                name({cell.request}), cell.launch);
          } else if (block != trace::kNoBlock) {
            found = ": nobody wrote it";
          }
          return fmt::format(
              "tick {}: launch {}: request {} (positions {}..{}) reads position {} {}{}", tick(),
              place.launch.value, name(row.request), row.first_position,
              row.first_position + row.tokens.size() - 1, place.position, where, found);
        },
        named);
  }

  CellFold cells_;
  std::vector<Reader> readers_;
  std::uint64_t checked_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> reads(ScenarioPointer scenario) {
  return std::make_unique<Reads>(std::move(scenario));
}

}  // namespace lockstep::oracles
