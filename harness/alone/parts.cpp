#include "harness/alone/parts.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"

namespace lockstep::harness {
namespace {

using trace::Op;
using trace::RowId;
using trace::TapPoint;
using trace::TapTensor;

bool holds_cells(const TapTensor& tap) {
  return tap.point == TapPoint::KCell || tap.point == TapPoint::VCell;
}

template <class Keep>
void filter_rows(TapTensor& tap, const Keep& keep) {
  const std::size_t size = tap.bytes.size() / tap.rows.size();
  TapTensor kept = tap;
  kept.rows.clear();
  kept.bytes.clear();
  for (std::size_t i = 0; i < tap.rows.size(); ++i) {
    if (!keep(i, tap.rows[i])) continue;
    kept.rows.push_back(tap.rows[i]);
    const auto from = tap.bytes.begin() + static_cast<std::ptrdiff_t>(i * size);
    kept.bytes.insert(kept.bytes.end(), from, from + static_cast<std::ptrdiff_t>(size));
  }
  tap = std::move(kept);
}

// Columns of each row: `count` from each of `firsts` on.
void keep_columns(TapTensor& tap, const std::vector<std::uint32_t>& firsts, std::uint32_t count) {
  const std::size_t element = tap.bytes.size() / tap.rows.size() / tap.width;
  std::vector<std::byte> kept;
  for (std::size_t row = 0; row < tap.rows.size(); ++row) {
    for (const std::uint32_t first : firsts) {
      const auto from =
          tap.bytes.begin() + static_cast<std::ptrdiff_t>((row * tap.width + first) * element);
      kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(count * element));
    }
  }
  tap.bytes = std::move(kept);
  tap.width = count * static_cast<std::uint32_t>(firsts.size());
}

// The table's rows that the tokens left name; the tokens then count in them.
void cut_table(RecordedOperation& operation) {
  TapTensor& read = operation.call.reads.front();
  WeightPart& table = operation.weights.front();
  const std::size_t row_bytes = table.bytes.size() / table.rows;
  std::vector<trace::TokenId> tokens(read.rows.size());
  std::memcpy(tokens.data(), read.bytes.data(), read.bytes.size());
  std::map<trace::TokenId, trace::TokenId> places;
  for (const trace::TokenId token : tokens) places[token] = 0;
  std::vector<std::byte> kept;
  trace::TokenId next = 0;
  for (auto& [token, place] : places) {
    place = next++;
    const auto from = table.bytes.begin() + static_cast<std::ptrdiff_t>(token * row_bytes);
    kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(row_bytes));
  }
  for (trace::TokenId& token : tokens) token = places.at(token);
  std::memcpy(read.bytes.data(), tokens.data(), read.bytes.size());
  table.rows = next;
  table.bytes = std::move(kept);
}

}  // namespace

bool has_outputs(Op op) {
  return op == Op::Gemm || op == Op::Gemv || op == Op::Gate || op == Op::ResidualAdd;
}

RecordedOperation keep_rows(const RecordedOperation& operation,
                            const std::vector<std::size_t>& rows) {
  LS_CHECK(!rows.empty());
  RecordedOperation part = operation;
  trace::OpCall& call = part.call;
  std::map<RowId, bool> kept;
  std::map<trace::RequestId, trace::Position> last;
  for (const std::size_t row : rows) {
    const RowId id = operation.call.writes.front().rows.at(row);
    kept[id] = true;
    last[id.request] = std::max(last[id.request], id.position);
  }
  const auto is_kept = [&](std::size_t, RowId id) { return kept.contains(id); };
  for (TapTensor& tap : call.writes) filter_rows(tap, is_kept);
  for (TapTensor& tap : call.reads) {
    if (trace::is_attention(call.contract.op) && holds_cells(tap)) {
      filter_rows(tap, [&](std::size_t, RowId id) {
        const auto found = last.find(id.request);
        return found != last.end() && id.position <= found->second;
      });
    } else {
      filter_rows(tap, is_kept);
    }
  }
  if (call.contract.op == Op::EmbedRows) cut_table(part);
  return part;
}

RecordedOperation keep_heads(const RecordedOperation& operation, const Heads& heads) {
  RecordedOperation part = operation;
  model::ModelConfig& config = part.config;
  LS_CHECK(trace::has_heads(part.call.contract.op));
  const std::uint32_t group = config.head_count / config.kv_head_count, size = config.head_size;
  LS_CHECK(heads.first_kv + heads.kv_count <= config.kv_head_count &&
           heads.first_member + heads.members <= group);
  std::vector<std::uint32_t> query, kv;
  for (std::uint32_t i = 0; i < heads.kv_count; ++i) {
    kv.push_back((heads.first_kv + i) * size);
    query.push_back(((heads.first_kv + i) * group + heads.first_member) * size);
  }
  const std::uint32_t query_width = config.head_count * size;
  const bool rope = part.call.contract.op == Op::RopeKvWrite;
  for (auto* taps : {&part.call.reads, &part.call.writes}) {
    for (std::size_t i = 0; i < taps->size(); ++i) {
      TapTensor& tap = (*taps)[i];
      // The first is of queries (attention: what it writes, too); the others are of KV heads.
      LS_CHECK(i > 0 || tap.width == query_width);
      if (i == 0) {
        keep_columns(tap, query, heads.members * size);
      } else {
        LS_CHECK(rope || holds_cells(tap));
        keep_columns(tap, kv, size);
      }
    }
  }
  config.kv_head_count = heads.kv_count;
  config.head_count = heads.kv_count * heads.members;
  return part;
}

RecordedOperation keep_outputs(const RecordedOperation& operation, std::uint32_t first,
                               std::uint32_t count) {
  RecordedOperation part = operation;
  const Op op = part.call.contract.op;
  LS_CHECK(has_outputs(op) && count > 0);
  TapTensor& write = part.call.writes.front();
  LS_CHECK(first + count <= write.width);
  keep_columns(write, {first}, count);
  if (op == Op::Gate || op == Op::ResidualAdd) {
    for (TapTensor& tap : part.call.reads) keep_columns(tap, {first}, count);
    (op == Op::Gate ? part.config.ffn_size : part.config.hidden_size) = count;
    return part;
  }
  WeightPart& weight = part.weights.front();
  const std::size_t row_bytes = weight.bytes.size() / weight.rows;
  const auto from = weight.bytes.begin() + static_cast<std::ptrdiff_t>(first * row_bytes);
  weight.bytes =
      std::vector<std::byte>(from, from + static_cast<std::ptrdiff_t>(count * row_bytes));
  weight.rows = count;
  part.first_output += first;
  return part;
}

RecordedOperation drop_keys(const RecordedOperation& operation, trace::RequestId request,
                            trace::Position first, std::uint32_t count) {
  RecordedOperation part = operation;
  LS_CHECK(trace::is_attention(part.call.contract.op));
  const auto shift = [&](TapTensor& tap) {
    for (RowId& row : tap.rows) {
      if (row.request == request && row.position >= first) row.position -= count;
    }
  };
  for (const TapTensor& tap : part.call.writes) {
    for (const RowId& row : tap.rows) {
      LS_CHECK(row.request != request || row.position >= first + count);
    }
  }
  for (TapTensor& tap : part.call.reads) {
    if (holds_cells(tap)) {
      filter_rows(tap, [&](std::size_t, RowId row) {
        return row.request != request || row.position < first || row.position >= first + count;
      });
    }
    shift(tap);
  }
  for (TapTensor& tap : part.call.writes) shift(tap);
  return part;
}

}  // namespace lockstep::harness
