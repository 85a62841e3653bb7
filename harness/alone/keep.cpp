#include "harness/alone/keep.h"

#include <fmt/format.h>

#include "harness/alone/probe.h"
#include "harness/alone/shrink.h"
#include "harness/report/format.h"
#include "harness/report/operation_file.h"

namespace lockstep::harness {
namespace {

base::Result<KeptOperation> keep(const oracles::Finding& finding, const model::Model& model,
                                 const trace::Scenario& scenario,
                                 const device::DeviceOptions& options, const std::string& folder,
                                 const OperationRunner& runner) {
  KeptOperation kept;
  base::Result<RecordedOperation> cut =
      cut_out(finding.operation->call, finding.where.index.value_or(0), model, scenario, options);
  if (!cut) {
    kept.smallest = "operands are not kept: " + cut.error().rule;
    return kept;
  }
  cut->from = fmt::format("{}; of a call of {}", finding.message, shape_of(*cut));
  LS_ASSIGN(Shrunk shrunk, shrink(*cut, finding, {}, runner));
  LS_ASSIGN(const WrittenOperation written, write_operation(shrunk.operation, finding, folder));
  kept.file = written.path;
  kept.from = shrunk.operation.from;
  if (!shrunk.repeats) {
    kept.smallest = fmt::format("does not repeat alone: {}; the whole call is kept, {}",
                                shrunk.reason, written.summary);
    return kept;
  }
  kept.smallest = fmt::format("this operation alone, {}, no model needed", written.summary);
  if (shrunk.other_bits > 0) {
    kept.smallest += fmt::format("; of the whole call alone {} of {} values have other bits",
                                 format_count(shrunk.other_bits), format_count(shrunk.values));
  }
  kept.needle = probe(shrunk.operation, {shrunk.operation.device, runner});
  return kept;
}

}  // namespace

base::Result<std::vector<KeptOperation>> keep_operations(const RunOutcome& outcome,
                                                         const model::Model& model,
                                                         const trace::Scenario& scenario,
                                                         const device::DeviceOptions& options,
                                                         const std::string& folder,
                                                         const OperationRunner& runner) {
  std::vector<KeptOperation> kept;
  for (const oracles::Verdict& verdict : outcome.verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      kept.emplace_back();
      if (!finding.operation) continue;
      LS_ASSIGN(kept.back(), keep(finding, model, scenario, options, folder, runner));
    }
  }
  return kept;
}

}  // namespace lockstep::harness
