// kv_pages: a shadow of the page pool. A page has one owner; a request writes only its own pages
// and reads only cells that it wrote itself, each at the position it stands for; the pool's
// counters add up after every step, and everything comes back (of a run that was not broken off).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {
namespace {

class KvPagesLaw : public Oracle {
 public:
  std::string_view law() const override { return "kv_pages"; }

  void on_event(const trace::Event& event) override {
    if (const auto* taken = std::get_if<trace::PagesTaken>(&event)) {
      take(*taken);
    } else if (const auto* returned = std::get_if<trace::PagesReturned>(&event)) {
      give_back(*returned);
    } else if (const auto* written = std::get_if<trace::CellWritten>(&event)) {
      write(*written);
    } else if (const auto* read = std::get_if<trace::CellsRead>(&event)) {
      read_cells(*read);
    } else if (const auto* balance = std::get_if<trace::PoolBalance>(&event)) {
      compare(*balance);
    } else if (std::holds_alternative<trace::DeviceReported>(event) ||
               std::holds_alternative<trace::SubjectFailed>(event)) {
      broken_off_ = true;
    }
  }

  Verdict finish(const std::vector<Verdict>&) override {
    for (const auto& [page, owner] : owners_) {
      if (broken_off_) break;
      fail("not_returned", owner, {}, fmt::format("page {} never came back", page.value));
    }
    Verdict verdict = verdict_of(law(), checked_, "events", findings_, "no page was taken");
    verdict.where = fmt::format("{} of {} pages at most{}", most_used_, total_,
                                owners_.empty() ? ", all returned"
                                : broken_off_   ? ", the run was broken off"
                                                : "");
    return verdict;
  }

 private:
  using Cell = std::pair<trace::PageId, std::uint32_t>;

  void take(const trace::PagesTaken& event) {
    for (const trace::PageId page : event.pages) {
      ++checked_;
      if (const auto [it, fresh] = owners_.emplace(page, event.request); !fresh) {
        fail("double_take", event.request, {},
             fmt::format("page {} is prompt {}'s", page.value, it->second.value + 1));
      }
    }
    most_used_ = std::max(most_used_, static_cast<std::uint32_t>(owners_.size()));
  }

  void give_back(const trace::PagesReturned& event) {
    for (const trace::PageId page : event.pages) {
      ++checked_;
      const auto found = owners_.find(page);
      if (found == owners_.end() || found->second != event.request) {
        fail("double_return", event.request, {}, fmt::format("page {} is not its own", page.value));
        continue;
      }
      owners_.erase(found);
      std::erase_if(cells_, [page](const auto& cell) { return cell.first.first == page; });
    }
  }

  void write(const trace::CellWritten& event) {
    ++checked_;
    const auto owner = owners_.find(event.page);
    if (owner == owners_.end() || owner->second != event.row.request) {
      fail("write_foreign", event.row.request, event.row.position,
           fmt::format("writes page {}, which is not its own", event.page.value));
    }
    cells_[{event.page, event.offset}] = event.row;
  }

  void read_cells(const trace::CellsRead& event) {
    for (trace::Position position = 0; position < event.position_count; ++position) {
      ++checked_;
      const std::uint32_t index = position / event.page_size;
      if (index >= event.pages.size()) {
        fail("read_missing", event.request, position, "its block table ends before");
        return;
      }
      const auto found = cells_.find(Cell{event.pages[index], position % event.page_size});
      if (found == cells_.end()) {
        fail("read_unwritten", event.request, position,
             fmt::format("page {} offset {} was never written", event.pages[index].value,
                         position % event.page_size));
      } else if (found->second != trace::RowId{event.request, position}) {
        fail("read_foreign", event.request, position,
             fmt::format("the cell is prompt {}'s position {}", found->second.request.value + 1,
                         found->second.position));
      }
    }
  }

  void compare(const trace::PoolBalance& event) {
    ++checked_;
    total_ = event.total;
    if (event.free + event.used != event.total || event.used != owners_.size()) {
      fail("balance", {}, {},
           fmt::format("free {} + used {} of {}; {} pages have an owner", event.free, event.used,
                       event.total, owners_.size()));
    }
  }

  void fail(const char* kind, trace::RequestId request, std::optional<trace::Position> position,
            const std::string& text) {
    findings_.add(fmt::format("kv_pages.{}", kind),
                  fmt::format("prompt {}{}: {}", request.value + 1,
                              position ? fmt::format(", position {}", *position) : "", text),
                  {request.value, {}, "", position, {}});
  }

  std::map<trace::PageId, trace::RequestId> owners_;
  std::map<Cell, trace::RowId> cells_;
  FindingList findings_;
  std::uint64_t checked_ = 0;
  std::uint32_t most_used_ = 0, total_ = 0;
  bool broken_off_ = false;
};

}  // namespace

std::unique_ptr<Oracle> kv_pages() { return std::make_unique<KvPagesLaw>(); }

}  // namespace lockstep::oracles
