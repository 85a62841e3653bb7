// A part of a recorded operation as an operation of its own: fewer rows, heads, outputs or keys.
// Operands and results of what is kept stay as they are, but for the keys: without some of them
// the results are others, and are those of no run yet.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/subjects/op_subject.h"

namespace lockstep::harness {

// Its elements are outputs that stand alone: the others can be left out.
bool has_outputs(trace::Op op);

// Rows of the first result, ascending indices, at least one. Cells of attention go as far as the
// last query that is kept, of its requests only; of an embedding only the rows of its tokens stay.
RecordedOperation keep_rows(const RecordedOperation& operation,
                            const std::vector<std::size_t>& rows);

// KV heads first_kv, first_kv + 1, ..., and of the query heads of each `members`, from first_member
// on. Attention and RoPE.
struct Heads {
  std::uint32_t first_kv = 0, kv_count = 1, first_member = 0, members = 1;
};
RecordedOperation keep_heads(const RecordedOperation& operation, const Heads& heads);

// Results `first` to first + count - 1 of each row: products, gates, residual additions.
RecordedOperation keep_outputs(const RecordedOperation& operation, std::uint32_t first,
                               std::uint32_t count);

// Attention: without the cells of `count` positions of a request from `first` on; what is behind
// them moves up. No query may be among them or before.
RecordedOperation drop_keys(const RecordedOperation& operation, trace::RequestId request,
                            trace::Position first, std::uint32_t count);

}  // namespace lockstep::harness
