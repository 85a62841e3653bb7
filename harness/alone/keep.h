// What `run` makes of a failing operation: shrunk, probed, written as a file.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "harness/alone/replay.h"
#include "harness/report/report.h"
#include "harness/run.h"

namespace lockstep::harness {

// One for each finding of all verdicts, in order; those without an operation stay empty. The
// finding keeps its place and values, which are the run's; the file says where it came from.
base::Result<std::vector<KeptOperation>> keep_operations(
    const RunOutcome& outcome, const model::Model& model, const trace::Scenario& scenario,
    const device::DeviceOptions& options, const std::string& folder,
    const OperationRunner& runner = run_operation);

}  // namespace lockstep::harness
