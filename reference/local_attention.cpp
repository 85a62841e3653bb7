// Attention in the local check: K and V from the write taps of the request's own positions.
#include <tbb/parallel_for.h>

#include <algorithm>

#include "base/check.h"
#include "reference/expected.h"
#include "reference/local_operations.h"
#include "reference/ops/attention.h"
#include "reference/tensor_core.h"

namespace lockstep::reference {

namespace {

using model::DType;
using trace::Expected;
using trace::TapTensor;

// Rows of one request and the cells that they see.
struct Segment {
  trace::RequestId request;
  std::vector<std::size_t> rows;  // of the written tap
  trace::Position first = 0;      // of the cells
  std::uint32_t count = 0;
  const double* keys = nullptr;
  const double* values = nullptr;
};

Reason add_cells(const LocalCall& local, const TapTensor& write, Segment& segment) {
  const std::uint32_t window = local.model.graph.attention[local.node.layer].window;
  trace::Position last = 0;
  segment.first = ~trace::Position{0};
  for (const std::size_t row : segment.rows) {
    const trace::Position position = write.rows[row].position;
    last = std::max(last, position);
    segment.first = std::min(segment.first, first_visible(position, window));
  }
  segment.count = last - segment.first + 1;
  const Source& k = local.node.inputs[1];
  const Source& v = local.node.inputs[2];
  segment.keys = local.store.cells(k, segment.request, segment.first, segment.count);
  segment.values = local.store.cells(v, segment.request, segment.first, segment.count);
  if (segment.keys != nullptr && segment.values != nullptr) return {};
  for (trace::Position position = segment.first; position <= last; ++position) {
    for (const Source& source : {k, v}) {
      const trace::RowId row{segment.request, position};
      if (local.store.find(source, row).bytes.empty()) return no_tap(source, row);
    }
  }
  return "cells of different formats";
}

// Rows in runs of one request, at most `kRowsMax` each (a window then leaves few keys unused).
constexpr std::size_t kRowsMax = 64;

Reason cut_in_segments(const LocalCall& local, const TapTensor& write,
                       std::vector<Segment>& segments) {
  for (std::size_t i = 0; i < write.rows.size(); ++i) {
    const bool joins = !segments.empty() && segments.back().request == write.rows[i].request &&
                       segments.back().rows.size() < kRowsMax;
    if (!joins) {
      Segment segment;
      segment.request = write.rows[i].request;
      segments.push_back(segment);
    }
    segments.back().rows.push_back(i);
  }
  for (Segment& segment : segments) {
    if (Reason reason = add_cells(local, write, segment); !reason.empty()) return reason;
  }
  return {};
}

KeyRange range_of(const Graph& graph, const Segment& segment, std::uint32_t window,
                  trace::Position position, std::uint32_t kv_head) {
  KeyRange range;
  range.stride = std::size_t{graph.kv_head_count} * graph.head_size;
  range.first = first_visible(position, window);
  range.count = position - range.first + 1;
  const std::size_t at =
      (range.first - segment.first) * range.stride + std::size_t{kv_head} * graph.head_size;
  range.keys = segment.keys + at;
  range.values = segment.values + at;
  return range;
}

struct Attention {
  const LocalCall& local;
  const TapTensor& write;
  const std::vector<double>& q;
  Expected& expected;

  const Graph& graph() const { return local.model.graph; }
  double scale() const { return round_f32(graph().attention_scale); }
  std::uint32_t window() const { return graph().attention[local.node.layer].window; }
  void set_head(std::size_t row, std::uint32_t head, std::span<const Ball> out) const {
    const std::size_t at = row * write.width + std::size_t{head} * graph().head_size;
    for (std::size_t d = 0; d < out.size(); ++d) {
      set(expected, at + d, out[d], local.call.contract.output_format);
    }
  }
  void decode(const Segment& segment, std::size_t row, std::uint32_t head) const;
  void prefill(const Segment& segment, std::uint32_t kv_head) const;
};

void Attention::decode(const Segment& segment, std::size_t row, std::uint32_t head) const {
  const std::uint32_t group = graph().head_count / graph().kv_head_count;
  const KeyRange range =
      range_of(graph(), segment, window(), write.rows[row].position, head / group);
  const std::span<const double> query = std::span(q).subspan(
      row * write.width + std::size_t{head} * graph().head_size, graph().head_size);
  std::vector<Ball> out(graph().head_size);
  attend<Ball>(query, scale(), range, decode_rule(local.call.contract), out);
  set_head(row, head, out);
}

// All rows of a segment and all query heads of one KV head: scores as tensor cores sum them.
void Attention::prefill(const Segment& segment, std::uint32_t kv_head) const {
  const std::size_t size = graph().head_size;
  const std::uint32_t group = graph().head_count / graph().kv_head_count;
  const std::size_t stride = std::size_t{graph().kv_head_count} * size;
  std::vector<double> queries, keys;
  for (const std::size_t row : segment.rows) {
    const double* from = q.data() + row * write.width + std::size_t{kv_head} * group * size;
    queries.insert(queries.end(), from, from + group * size);
  }
  for (std::uint32_t j = 0; j < segment.count; ++j) {
    const double* from = segment.keys + j * stride + std::size_t{kv_head} * size;
    keys.insert(keys.end(), from, from + size);
  }
  const std::size_t pairs = segment.rows.size() * group;
  std::vector<double> scores(pairs * segment.count), radii(pairs * segment.count);
  tensor_core_products(local.call.contract, local.model.device.f16, queries, pairs, keys,
                       segment.count, size, scores, radii);
  const PrefillRule rule = prefill_rule(local.call.contract, local.model.device.f16);
  tbb::parallel_for(std::size_t{0}, pairs, [&](std::size_t pair) {
    const std::size_t row = segment.rows[pair / group];
    const auto head = static_cast<std::uint32_t>(kv_head * group + pair % group);
    const KeyRange range = range_of(graph(), segment, window(), write.rows[row].position, kv_head);
    const std::size_t at = pair * segment.count + (range.first - segment.first);
    std::vector<Ball> out(size);
    attend_prefill<Ball>(std::span(scores).subspan(at, range.count),
                         std::span(radii).subspan(at, range.count), scale(), range, rule, out);
    set_head(row, head, out);
  });
}

}  // namespace

Reason expect_attention(const LocalCall& local, const TapTensor& write, Expected& expected) {
  const Graph& graph = local.model.graph;
  const trace::Contract& contract = local.call.contract;
  std::vector<double> q;
  if (Reason reason = gather(local.store, local.node.inputs[0], write.rows, write.width, q);
      !reason.empty()) {
    return reason;
  }
  if (contract.input_format != DType::F32) round_values(contract.input_format, q);
  std::vector<Segment> segments;
  if (Reason reason = cut_in_segments(local, write, segments); !reason.empty()) return reason;
  const Attention attention{local, write, q, expected};
  if (contract.op == trace::Op::AttentionPrefill) {
    if (contract.sum != trace::SumKind::TensorCore) {
      return "the contract of prefill attention declares no tensor-core sum";
    }
    for (const Segment& segment : segments) {
      for (std::uint32_t head = 0; head < graph.kv_head_count; ++head) {
        attention.prefill(segment, head);
      }
    }
    return {};
  }
  tbb::parallel_for(std::size_t{0}, segments.size() * graph.head_count, [&](std::size_t i) {
    const Segment& segment = segments[i / graph.head_count];
    for (const std::size_t row : segment.rows) {
      attention.decode(segment, row, static_cast<std::uint32_t>(i % graph.head_count));
    }
  });
  return {};
}

}  // namespace lockstep::reference
