// TapStore: what the subject's operations wrote, by request, tap point, layer and position, for as
// long as a later operation may need it. Cells stay while their request lives; all else goes with
// the layer or the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "reference/models/graph.h"
#include "trace/op_call.h"

namespace lockstep::reference {

// A written row.
struct TapRow {
  model::DType dtype = model::DType::F32;
  std::uint32_t width = 0;  // elements
  std::span<const std::byte> bytes;
};

class TapStore {
 public:
  // Rows of F32, F16, BF16, I32 or U32 elements; a row that is there already is replaced.
  void put(const trace::TapTensor& tap, trace::LaunchIndex launch);
  // Bytes empty: no such row.
  TapRow find(const Source& source, trace::RowId row) const;
  // Cells of positions [first, first + count) as doubles, [count, width], valid until the next put;
  // null where one is missing. `source` is KCell or VCell.
  const double* cells(const Source& source, trace::RequestId request, trace::Position first,
                      std::uint32_t count) const;

  // All values of `source` of this row, or of this request.
  void forget(const Source& source, trace::RowId row);
  void forget(const Source& source, trace::RequestId request);
  // All but cells that an earlier launch left behind.
  void forget_before(trace::LaunchIndex launch, trace::RequestId request);
  void release(trace::RequestId request);

  std::size_t stored_bytes() const;

 private:
  struct Row {
    model::DType dtype;
    std::uint32_t width;
    trace::LaunchIndex launch;
    std::vector<std::byte> bytes;
  };
  // Consecutive positions from 0; what is not written yet is not `present`.
  struct Column {
    model::DType dtype;
    std::uint32_t width;
    std::size_t row_bytes;
    std::vector<bool> present;
    std::vector<std::byte> bytes;
    std::vector<double> values;
  };
  struct Request {
    std::map<Source, std::map<trace::Position, Row>> rows;
    std::map<Source, Column> columns;
  };
  void put_cell(Request& request, const trace::TapTensor& tap, std::size_t index);

  std::map<trace::RequestId, Request> requests_;
};

}  // namespace lockstep::reference
