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

// The operation on one device.
struct OperationReplay {
  std::string device;
  RunOutcome outcome;                  // verdicts of the laws that look at one operation
  std::uint64_t values = 0, same = 0;  // of the results; with the recorded bits
  trace::OpCall call;                  // as it ran now; no writes where it did not get that far
};

// An Error: no such device, or the operation is not computable there.
base::Result<OperationReplay> replay_on(const RecordedOperation& operation,
                                        const std::string& device,
                                        const OperationRunner& runner = run_operation);

// The finding of this key; null: none.
const oracles::Finding* finding_of(const OperationReplay& replay, const std::string& key);

}  // namespace lockstep::harness
