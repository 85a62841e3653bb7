// A recorded operation runs alone and is judged: by the laws that look at one operation, and by its
// recorded bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "harness/run.h"
#include "harness/subjects/op_subject.h"

namespace lockstep::harness {

// Who runs an operation: the engine. Tests put in one that goes wrong in a known way.
using OperationRunner =
    std::function<base::Status(const RecordedOperation&, const std::string& device,
                               const device::DeviceOptions&, const EventSink&)>;

// Runs the operation; each OpCompleted comes with the reference's answer for what it read. An
// Error: no such device, or the operation is not computable there.
base::Status run_judged(const RecordedOperation& operation, const std::string& device,
                        const OperationRunner& runner, const EventSink& sink);

// The operation on one device.
struct OperationReplay {
  std::string device;
  RunOutcome outcome;                  // verdicts of the laws that look at one operation
  std::uint64_t values = 0, same = 0;  // of the results; with the recorded bits
  trace::OpCall call;                  // as it ran now; no writes where it did not get that far
};

// Errors as of run_judged().
base::Result<OperationReplay> replay_on(const RecordedOperation& operation,
                                        const std::string& device,
                                        const OperationRunner& runner = run_operation);

// The finding of this key (empty: the first); null: none.
const oracles::Finding* finding_of(const RunOutcome& outcome, const std::string& key);

}  // namespace lockstep::harness
