// lockstep replay FILE.lstrace where the file holds one operation: it runs alone, beside the
// recorded bits and the reference's intervals.
#pragma once

#include <string>

#include "base/error.h"
#include "harness/alone/replay.h"
#include "harness/commands/commands.h"
#include "harness/report/operation_file.h"

namespace lockstep::harness {

// Exit status: 0 it holds (or is gone), 1 a finding, 4 nothing was checked. `file` names the trace
// in messages and in the command that repeats.
base::Result<int> replay_operation(const trace::Trace& trace, const CommonOptions& options,
                                   const std::string& file = "FILE.lstrace");

}  // namespace lockstep::harness
