// batch_invariance: every row of every operation has the same bits alone, in the batch, and with
// its prompt cut in chunks.
#include <fmt/format.h>

#include <map>
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
    const auto* row = std::get_if<trace::RowHashed>(&event);
    if (!row) return;
    further_.emplace_back(run, *row);
  }

  Verdict finish(const std::vector<Verdict>&) override {
    std::uint64_t checked = 0;
    if (declared_) {
      for (const auto& [run, row] : further_) {
        const std::uint32_t request = requests_[run][row.row.request.value];
        const auto found = rows_.find(key(row, request));
        if (found == rows_.end()) continue;
        ++checked;
        if (found->second != row.hash) report(row, request, run);
      }
    }
    Verdict verdict = verdict_of(law(), checked, "rows", findings_,
                                 declared_ ? "no further run" : "a contract does not promise it");
    if (verdict.kind == VerdictKind::Pass) {
      verdict.where = "each prompt alone, and in chunks, gives the same bits";
    }
    return verdict;
  }

 private:
  static RowKey key(const trace::RowHashed& row, std::uint32_t request) {
    return {request, row.row.position, row.layer.value, row.point};
  }

  void report(const trace::RowHashed& row, std::uint32_t request, std::size_t run) {
    findings_.add(
        fmt::format("batch_invariance.{}", trace::name(row.point)),
        fmt::format("layer {} {}, prompt {}, position {}: other bits {}", row.layer.value,
                    trace::name(row.point), request + 1, row.row.position,
                    run + 1 < requests_.size() ? "alone" : "in chunks"),
        {request, row.layer.value, std::string(trace::name(row.point)), row.row.position, {}});
  }

  std::map<RowKey, base::Hash128> rows_;
  std::vector<std::pair<std::size_t, trace::RowHashed>> further_;
  std::vector<std::vector<std::uint32_t>>
      requests_;  // of each further run; the last is the chunked one
  bool declared_ = true;
  FindingList findings_;
};

}  // namespace

std::unique_ptr<Oracle> batch_invariance() { return std::make_unique<BatchInvariance>(); }

}  // namespace lockstep::oracles
