// Probes: what a kernel reads, shown by operands for which each element of the result says which
// one of them it came from. They run on the kernel of a failing operation, at its shape, and their
// answer is a set (keys, columns, rows): nothing is compared within a tolerance.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "harness/alone/replay.h"
#include "harness/subjects/op_subject.h"

namespace lockstep::harness {

struct ProbeOn {
  std::string device;
  OperationRunner runner = run_operation;
};

// In one line, what the kernel of this operation reads and what it must read: "query 0 reads keys 0
// and 1; must be key 0: one key too many". Empty: no probe is defined for the operation, or it did
// not run.
std::string probe(const RecordedOperation& operation, const ProbeOn& on);

// One probe a file; each as `probe` for its operations. An Error: the kernel does not run at the
// probe's shape.
base::Result<std::string> probe_attention(const RecordedOperation& operation, const ProbeOn& on);
// The weights that the recorded scores give, where the keys are right; empty: they lie in their
// intervals, or there are too many.
base::Result<std::string> probe_attention_weights(const RecordedOperation& operation,
                                                  const ProbeOn& on);
base::Result<std::string> probe_weight(const RecordedOperation& operation,
                                       const ProbeOn& on);  // products, embedding rows
base::Result<std::string> probe_norm(const RecordedOperation& operation, const ProbeOn& on);
base::Result<std::string> probe_rope(const RecordedOperation& operation, const ProbeOn& on);

// What one probe gave: got beside the reference's interval, [rows, width] of each result.
struct Probed {
  trace::OpCall call;
  std::vector<std::vector<double>> got;
  std::vector<trace::Expected> expected;

  bool holds(std::size_t write, std::size_t index) const {
    const trace::Expected& e = expected[write];
    return e.low[index] <= got[write][index] && got[write][index] <= e.high[index];
  }
  // All elements of all results lie in their intervals.
  bool holds() const;
};
// `operation` with operands of a probe; its results may have any bytes of the right size.
base::Result<Probed> run_probe(const RecordedOperation& operation, const ProbeOn& on);

// A tensor of zeros of this shape, and one of its elements.
trace::TapTensor zeros(const trace::TapTensor& like, std::vector<trace::RowId> rows);
void set(trace::TapTensor& tap, std::size_t row, std::size_t column, double value);

// "key 3", "keys 0 and 1", "keys 0 to 7 and 9", "keys 0, 2, 4, 6 and 4 more": ascending numbers.
std::string list_of(const std::vector<std::uint64_t>& numbers, const char* one, const char* many);

}  // namespace lockstep::harness
