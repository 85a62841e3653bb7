// CellFold: a shadow of what every KV cell holds. It follows the launches as they ran (tokens,
// slots and copies as the executor read them) and keeps beside each cell who wrote it and its
// lineage: a chained hash of the writer's identity and of all tokens up to the cell's position. Two
// cells of one group hold the same content exactly if position and lineage are equal, whoever wrote
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::oracles {

using Lineage = std::uint64_t;

std::string_view name(trace::GroupType type);  // "full_attention"

// The first position that a row at `position` reads in an attention group: of a window itself and
// window - 1 before, else all.
inline trace::Position oldest_read(const trace::GroupSpec& group, trace::Position position) {
  const bool slides = group.type == trace::GroupType::SlidingWindow;
  return slides && position >= group.window ? position - group.window + 1 : 0;
}

struct Cell {
  static constexpr std::uint32_t kUnwritten = 0xffffffff;
  Lineage lineage = 0;
  std::uint32_t request = 0, launch = 0;
  std::uint32_t position = kUnwritten;  // of a mamba state: of the last token in it
  std::uint32_t group = 0;

  bool written() const { return position != kUnwritten; }
  bool holds(std::uint32_t in_group, std::uint32_t at, Lineage of) const {
    return lineage == of && position == at && group == in_group;
  }
};

// The cells of one pool. A mamba state is cell 0 of its block.
class PoolCells {
 public:
  explicit PoolCells(std::uint32_t block_count) : block_count_(block_count) {}

  bool contains(trace::BlockId block) const { return block.value < block_count_; }
  // Blocks outside the pool read as never written; writing to them does nothing.
  Cell at(trace::BlockId block, std::uint32_t offset) const {
    if (block.value >= blocks_.size()) return {};
    const std::vector<Cell>& cells = blocks_[block.value];
    return offset < cells.size() ? cells[offset] : Cell{};
  }
  // Changes whenever a written cell of the block becomes another; not when one more is written.
  std::uint32_t version(trace::BlockId block) const {
    return block.value < versions_.size() ? versions_[block.value] : 0;
  }
  void set(trace::BlockId block, std::uint32_t offset, const Cell& cell);
  void clear(trace::BlockId block);
  void copy(trace::BlockId source, trace::BlockId destination);
  void clear_all();

 private:
  std::vector<Cell>& touch(trace::BlockId block);

  std::uint32_t block_count_;
  // Up to the last block touched.
  std::vector<std::vector<Cell>> blocks_;  // cells up to the last one written
  std::vector<std::uint32_t> versions_;
};

// One request's sequence, as its tokens are known and as its launches fed them.
struct Sequence {
  Lineage root = 0;
  std::vector<trace::TokenId> tokens;  // prompt and accepted
  std::vector<Lineage> known;          // [i]: of tokens [0, i]
  // [i]: of the tokens fed at positions [0, i]; beyond `known` placeholders' values and drafts.
  std::vector<Lineage> fed;
  // Launches from this ordinal on begin anew, from a hit or from nothing.
  std::optional<std::uint32_t> restart;
};

class CellFold {
 public:
  explicit CellFold(const trace::Scenario& scenario);

  const std::vector<trace::GroupSpec>& groups() const { return groups_; }
  PoolCells& cells_of_group(std::uint32_t group) { return pools_[groups_[group].pool]; }
  Sequence& sequence(trace::RequestId request);
  bool in_flight(std::uint32_t launch) const;
  std::uint32_t launches_made() const { return made_; }
  // Lineage at a known position; beyond it as fed; nothing where neither is known.
  std::optional<Lineage> expected(trace::RequestId request, std::uint32_t position);

  void began(const trace::LifeBegan& event);
  void accepted(const trace::TokensAccepted& event);
  // The request's next launch starts from its known tokens: it was preempted, or has hit.
  void restarts(trace::RequestId request);
  void made(const trace::LaunchMade& event);
  void completed(const trace::LaunchCompleted& event);
  void copied(const trace::CopyRan& event);
  // Cells of launches in flight are not to be relied on.
  void reset(const trace::DeviceReset& event);

  // A launch that ran: feed() every row, then write() every row. Returns the first position whose
  // lineage is another than when the launch before ran; all of them after a restart.
  std::uint32_t feed(trace::LaunchIndex launch, const trace::RanRows& row);
  void write(trace::LaunchIndex launch, const trace::RanRows& row);

 private:
  struct Touched {
    std::uint32_t pool = 0, offset = 0;
    trace::BlockId block;
  };
  struct Flight {
    std::uint32_t launch = 0;
    std::vector<Touched> touched;
  };

  void put(Flight* flight, std::uint32_t group, std::int64_t block, std::uint32_t offset,
           const Cell& cell);

  std::vector<trace::GroupSpec> groups_;
  std::vector<PoolCells> pools_;
  std::vector<Sequence> sequences_;
  std::vector<Flight> flights_;
  std::vector<std::vector<Touched>> spare_;  // buffers of past flights
  std::uint32_t made_ = 0;
};

}  // namespace lockstep::oracles
