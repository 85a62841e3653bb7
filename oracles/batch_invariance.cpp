// batch_invariance: every row of every operation has the same bits alone, in the batch, and with
// its prompt cut in chunks. What differs makes all that is computed from it differ: the first
// operation that differs, in the order of computation, is the finding; the rest is counted.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {
namespace {

// (request, position, layer, tap point)
using RowKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, trace::TapPoint>;

class BatchInvariance : public Oracle {
 public:
  std::string_view law() const override { return "batch_invariance"; }

  std::vector<FurtherRun> further_runs(const trace::Scenario& scenario) override {
    std::vector<FurtherRun> runs;
    if (scenario.requests.size() > 1) {
      for (std::uint32_t i = 0; i < scenario.requests.size(); ++i) {
        FurtherRun run{scenario, {i}};
        run.scenario.requests = {scenario.requests[i]};
        runs.push_back(std::move(run));
      }
    }
    FurtherRun chunked{scenario, {}};
    // A chunk that no tile or page divides, and that cuts most prompts.
    chunked.scenario.engine.chunked_prefill_size = 3;
    for (std::uint32_t i = 0; i < scenario.requests.size(); ++i) {
      chunked.requests.push_back(i);
      // Chunks are about prompts: two tokens are enough to see what they change.
      chunked.scenario.requests[i].max_tokens =
          std::min<std::uint32_t>(2, chunked.scenario.requests[i].max_tokens);
    }
    runs.push_back(std::move(chunked));
    for (const FurtherRun& run : runs) requests_.push_back(run.requests);
    return runs;
  }

  void on_event(const trace::Event& event) override {
    if (const auto* row = std::get_if<trace::RowHashed>(&event)) {
      rows_[key(*row, row->row.request.value)] = row->hash;
    }
    if (const auto* done = std::get_if<trace::OpCompleted>(&event)) {
      declared_ &= done->call.contract.batch_invariant && done->call.contract.chunk_invariant;
    }
  }

  void on_further_event(std::size_t run, const trace::Event& event) override {
    if (const auto* row = std::get_if<trace::RowHashed>(&event)) {
      further_.push_back({run, *row, {}});
    } else if (const auto* done = std::get_if<trace::OpCompleted>(&event)) {
      // Its rows came just before.
      for (auto it = further_.rbegin(); it != further_.rend() && !it->op; ++it) {
        it->op = done->call.contract.op;
      }
    }
  }

  Verdict finish(const std::vector<Verdict>&) override {
    std::uint64_t checked = 0;
    std::vector<const FurtherRow*> differing;
    if (declared_) {
      for (const FurtherRow& each : further_) {
        const auto found = rows_.find(key(each.row, request_of(each)));
        if (found == rows_.end()) continue;
        ++checked;
        if (found->second != each.row.hash) differing.push_back(&each);
      }
    }
    if (!differing.empty()) report(differing);
    Verdict verdict = verdict_of(law(), checked, "rows", findings_,
                                 declared_ ? "no further run" : "a contract does not promise it");
    if (verdict.kind == VerdictKind::Pass) {
      verdict.where = "each prompt alone, and in chunks, gives the same bits";
    }
    return verdict;
  }

 private:
  struct FurtherRow {
    std::size_t run = 0;
    trace::RowHashed row;
    std::optional<trace::Op> op;  // that wrote it
  };

  std::uint32_t request_of(const FurtherRow& each) const {
    return requests_[each.run][each.row.row.request.value];
  }
  static RowKey key(const trace::RowHashed& row, std::uint32_t request) {
    return {request, row.row.position, row.layer.value, row.point};
  }
  static std::string name_of(const FurtherRow& each) {
    return std::string(each.op ? trace::name(*each.op) : trace::name(each.row.point));
  }

  // Rows of a run come as they were computed: the first is where it began.
  void report(const std::vector<const FurtherRow*>& differing) {
    const FurtherRow& first = *differing.front();
    const trace::RowHashed& row = first.row;
    const std::uint32_t request = request_of(first);
    bool is_new = false;
    oracles::Finding& finding =
        findings_.add(fmt::format("batch_invariance.{}", name_of(first)), is_new);
    finding.message =
        fmt::format("layer {} {}, prompt {}, position {}: other bits {}", row.layer.value,
                    trace::name(row.point), request + 1, row.row.position,
                    first.run + 1 < requests_.size() ? "alone" : "in chunks");
    finding.where = {request, row.layer.value, name_of(first), row.row.position, {}};
    finding.count = differing.size();
    std::set<std::string> later;
    std::set<std::size_t> runs;
    for (const FurtherRow* each : differing) {
      runs.insert(each->run);
      if (name_of(*each) != name_of(first)) later.insert(name_of(*each));
    }
    finding.notes.push_back(fmt::format("extent     {} rows in {} of {} further runs",
                                        differing.size(), runs.size(), requests_.size()));
    if (later.empty()) return;
    std::string names;
    for (const std::string& name : later) names += (names.empty() ? "" : ", ") + name;
    finding.notes.push_back(fmt::format("after it   {} other operation{}: {}", later.size(),
                                        later.size() == 1 ? "" : "s", names));
  }

  std::map<RowKey, base::Hash128> rows_;
  std::vector<FurtherRow> further_;
  std::vector<std::vector<std::uint32_t>>
      requests_;  // of each further run; the last is the chunked one
  bool declared_ = true;
  FindingList findings_;
};

}  // namespace

std::unique_ptr<Oracle> batch_invariance() { return std::make_unique<BatchInvariance>(); }

}  // namespace lockstep::oracles
