// A recorded operation as a trace file (.lstrace): numbers in the blob operation.json, bytes of
// tensors in blobs of their own. docs/trace_format.md.
#pragma once

#include <string>

#include "base/error.h"
#include "harness/subjects/op_subject.h"
#include "oracles/verdict.h"
#include "trace/trace_file.h"

namespace lockstep::harness {

bool holds_operation(const trace::Trace& trace);

trace::Trace trace_of(const RecordedOperation& operation, const oracles::Finding& finding);

// Errors (Input): a field of operation.json, a missing blob, or a rule of check_operation. `file`
// names the trace in messages.
base::Result<RecordedOperation> operation_of(const trace::Trace& trace, const std::string& file);

// The finding's operation, written to `folder`/KEY-HASH.lstrace.
struct WrittenOperation {
  std::string path;
  std::string summary;  // "60 rows, 84 KiB with its operands"
};
base::Result<WrittenOperation> write_operation(const RecordedOperation& operation,
                                               const oracles::Finding& finding,
                                               const std::string& folder);

// What the operation is, in a few words: "2 queries, 2 keys, 1 head of 256".
std::string shape_of(const RecordedOperation& operation);

}  // namespace lockstep::harness
