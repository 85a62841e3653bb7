#include "oracles/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep::oracles {
namespace {

constexpr std::size_t kColumns = 100, kLabel = 12, kRowsMost = 12, kHistoryMost = 6;
constexpr trace::Tick kTicksShown = kColumns - kLabel - 2, kTicksAfter = 10;
constexpr const char* kLegend =
    ". waits, P prefill, d decode, v verify, - no row, r preempted, F ends, x aborted, E error, "
    "! refused";

// Later marks of a tick win over earlier ones, but for what only fills the time between.
struct Row {
  std::string label;
  trace::Tick began = 0;
  std::map<trace::Tick, char> marks;
  std::optional<trace::Tick> ended;
};

class Chart {
 public:
  Chart(const trace::Scenario& scenario, const std::vector<trace::Event>& events,
        const Finding& finding)
      : scenario_(scenario), finding_(finding) {
    for (const trace::Event& event : events) {
      if (const auto* tokens = std::get_if<trace::TokensAccepted>(&event)) {
        if (tokens->proposed > 0) verified_.insert({tokens->launch, tokens->request});
      }
    }
    for (; index_ < events.size(); ++index_) {
      std::visit([this](const auto& what) { read(what); }, events[index_]);
      if (index_ == finding.event_index) at_ = tick_;
    }
  }

  std::string text() {
    if (rows_.empty()) return "";
    const trace::Tick last = std::min(tick_, at_ + kTicksAfter);
    const trace::Tick first = last + 1 > kTicksShown ? last + 1 - kTicksShown : 0;
    std::string out = fmt::format("{:<{}} ticks {}..{}\n", "", kLabel, first, last);
    std::size_t shown = 0, left_out = 0;
    for (const auto& [id, row] : rows_) {
      const bool mine = finding_.request == id;
      if (row.began > last || (row.ended && *row.ended < first && !mine)) continue;
      if (shown >= kRowsMost && !mine) {
        ++left_out;
        continue;
      }
      ++shown;
      out += line(row, mine, first, last);
    }
    if (left_out > 0) out += fmt::format("{:<{}} and {} more\n", "", kLabel, left_out);
    out += fmt::format("{:<{}} {:>{}}\n", "", kLabel, '^', at_ - first + 1);
    out += fmt::format("{}\n", kLegend);
    if (!table_.empty()) out += cut(table_) + "\n";
    const std::size_t from = history_.size() - std::min(history_.size(), kHistoryMost);
    for (std::size_t i = from; i < history_.size(); ++i) out += cut(history_[i]) + "\n";
    return out;
  }

 private:
  static std::string cut(const std::string& text) {
    return text.size() <= kColumns ? text : text.substr(0, kColumns - 3) + "...";
  }

  std::string name(trace::RequestId request) const {
    const auto found = rows_.find(request);
    return found == rows_.end() ? fmt::format("#{}", request.value) : found->second.label;
  }

  static std::string line(const Row& row, bool mine, trace::Tick first, trace::Tick last) {
    std::string label = row.label;
    if (label.size() > kLabel - 2) label = label.substr(0, kLabel - 4) + "..";
    std::string out = fmt::format("{}{:<{}} ", mine ? "> " : "  ", label, kLabel - 2);
    char between = '.';
    for (const auto& [tick, mark] : row.marks) {
      if (tick < first) between = after(mark);
    }
    for (trace::Tick tick = first; tick <= last; ++tick) {
      const auto mark = row.marks.find(tick);
      if (tick < row.began || (row.ended && tick > *row.ended)) {
        out += ' ';
      } else if (mark != row.marks.end()) {
        out += mark->second;
        between = after(mark->second);
      } else {
        out += between;
      }
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  }

  static char after(char mark) { return mark == 'r' || mark == '.' ? '.' : '-'; }

  void mark(trace::RequestId request, trace::Tick tick, char what) {
    const auto row = rows_.find(request);
    if (row != rows_.end()) row->second.marks[tick] = what;
  }

  // What the block of the finding went through, up to the finding.
  template <class... Arguments>
  void note(std::uint32_t pool, const std::vector<trace::BlockId>& blocks,
            fmt::format_string<Arguments...> form, Arguments&&... arguments) {
    if (!finding_.block || finding_.pool != pool || index_ > finding_.event_index) return;
    if (std::find(blocks.begin(), blocks.end(), *finding_.block) == blocks.end()) return;
    history_.push_back(fmt::format("block {}, tick {}: {}", finding_.block->value, tick_,
                                   fmt::format(form, std::forward<Arguments>(arguments)...)));
  }

  template <class T>
  void read(const T& event) {
    if constexpr (requires { event.tick; }) tick_ = event.tick;
  }
  void read(const trace::LifeBegan& event) {
    tick_ = event.tick;
    rows_[event.request] = {event.key, event.tick, {{event.tick, '.'}}, std::nullopt};
  }
  void read(const trace::LifeAborted& event) {
    tick_ = event.tick;
    mark(event.request, event.tick, 'x');
  }
  void read(const trace::LifeEnded& event) {
    tick_ = event.tick;
    const bool aborted = event.reason == "abort", refused = event.reason == "refused";
    const char what = aborted ? 'x' : refused ? '!' : event.reason == "error" ? 'E' : 'F';
    mark(event.request, event.tick, what);
    const auto row = rows_.find(event.request);
    if (row != rows_.end()) row->second.ended = event.tick;
  }
  void read(const trace::RequestPreempted& event) {
    tick_ = event.tick;
    mark(event.request, event.tick, 'r');
  }
  void read(const trace::BlocksTaken& event) {
    note(event.pool, event.blocks, "handed out to {}", name(event.request));
  }
  void read(const trace::BlocksHit& event) {
    note(event.pool, event.blocks, "hit by {}", name(event.request));
  }
  void read(const trace::BlocksShared& event) {
    note(event.pool, event.blocks, "shared with {}", name(event.request));
  }
  void read(const trace::BlocksReleased& event) {
    note(event.pool, event.blocks, "given back by {}", name(event.request));
  }
  void read(const trace::BlockReplaced& event) {
    note(event.pool, {event.source}, "left by {} for its copy, block {}", name(event.request),
         event.destination.value);
    note(event.pool, {event.destination}, "handed out to {} as a copy of block {}",
         name(event.request), event.source.value);
  }
  void read(const trace::BlockPublished& event) {
    note(event.pool, {event.block}, "published by {} as its block {}", name(event.request),
         event.index);
  }
  void read(const trace::KeyDropped& event) {
    note(event.pool, {event.block}, "its key is dropped");
  }
  void read(const trace::CopyRan& event) {
    if (event.source == trace::kNoBlock) return;
    note(event.pool, {event.destination}, "filled from block {}", event.source.value);
  }

  void read(const trace::LaunchRan& event) {
    tick_ = event.tick;
    for (const trace::RanRows& row : event.rows) {
      const bool verify = verified_.contains({event.launch, row.request});
      mark(row.request, event.tick, verify ? 'v' : row.tokens.size() == 1 ? 'd' : 'P');
      if (index_ > finding_.event_index) continue;
      const std::size_t count = std::min(row.slots.size(), scenario_.engine.groups.size());
      for (std::size_t g = 0; g < count; ++g) note_write(event.launch, row, g);
      if (finding_.request == row.request) describe_table(event.launch, row);
    }
  }

  void note_write(trace::LaunchIndex launch, const trace::RanRows& row, std::size_t g) {
    const trace::GroupSpec& group = scenario_.engine.groups[g];
    const std::int64_t size = group.type == trace::GroupType::Mamba ? 1 : group.block_size;
    for (const std::int64_t slot : row.slots[g]) {
      if (slot < 0 || !finding_.block || slot / size != finding_.block->value) continue;
      note(group.pool, {*finding_.block}, "written by {} in launch {} (positions {}..{})",
           name(row.request), launch.value, row.first_position,
           row.first_position + row.tokens.size() - 1);
      return;
    }
  }

  void describe_table(trace::LaunchIndex launch, const trace::RanRows& row) {
    table_ = fmt::format("{} in launch {}:", name(row.request), launch.value);
    const std::size_t count = std::min(row.tables.size(), scenario_.engine.groups.size());
    for (std::size_t g = 0; g < count; ++g) {
      table_ += fmt::format(" {} [", scenario_.engine.groups[g].name);
      for (const trace::BlockId block : row.tables[g]) {
        table_ += block == trace::kNoBlock ? " -" : fmt::format(" {}", block.value);
      }
      table_ += " ]";
    }
  }

  const trace::Scenario& scenario_;
  const Finding& finding_;
  std::map<trace::RequestId, Row> rows_;
  std::set<std::pair<trace::LaunchIndex, trace::RequestId>> verified_;
  std::vector<std::string> history_;
  std::string table_;
  std::uint64_t index_ = 0;
  trace::Tick tick_ = 0, at_ = 0;
};

}  // namespace

std::string timeline(const trace::Scenario& scenario, const std::vector<trace::Event>& events,
                     const Finding& finding) {
  return Chart(scenario, events, finding).text();
}

}  // namespace lockstep::oracles
