// lockstep replay FILE.lstrace where the file holds one operation: it runs alone, beside the
// recorded bits and the reference's intervals.
#pragma once

#include <string>

#include "base/error.h"
#include "harness/commands/commands.h"
#include "harness/report/operation_file.h"
#include "harness/run.h"

namespace lockstep::harness {

// The operation on one device.
struct OperationReplay {
  std::string device;
  RunOutcome outcome;                  // verdicts of the laws that look at one operation
  std::uint64_t values = 0, same = 0;  // of the results; with the recorded bits
};

// An Error: no such device, or the operation is not computable there.
base::Result<OperationReplay> replay_on(const RecordedOperation& operation,
                                        const std::string& device);

// Exit status: 0 it holds (or is gone), 1 a finding, 4 nothing was checked. `file` names the trace
// in messages and in the command that repeats.
base::Result<int> replay_operation(const trace::Trace& trace, const CommonOptions& options,
                                   const std::string& file = "FILE.lstrace");

}  // namespace lockstep::harness
