#include "engine/models/batch.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {
namespace {

template <class T>
base::Result<device::Buffer> upload_vector(device::Device& device, const std::vector<T>& values,
                                           std::string_view label) {
  const auto bytes = std::as_bytes(std::span(values));
  LS_ASSIGN(device::Buffer buffer, device.allocate(bytes.size(), label));
  LS_TRY(device.copy_to_device(buffer.address(), bytes));
  return buffer;
}

}  // namespace

base::Result<Batch> make_batch(device::Device& device, const std::vector<PlannedRows>& planned,
                               bool prefill, std::uint32_t page_size) {
  LS_CHECK(!planned.empty());
  Batch batch;
  batch.prefill = prefill;
  batch.planned = &planned;
  batch.segments = static_cast<std::uint32_t>(planned.size());
  for (const PlannedRows& rows : planned) {
    batch.table_stride =
        std::max(batch.table_stride, static_cast<std::uint32_t>(rows.pages.size()));
    batch.max_segment_rows =
        std::max(batch.max_segment_rows, static_cast<std::uint32_t>(rows.tokens.size()));
  }
  std::vector<std::uint32_t> tokens, positions, starts{0}, firsts, contexts;
  std::vector<std::int32_t> slots, segment_tables, row_tables;
  for (const PlannedRows& rows : planned) {
    LS_CHECK(!rows.tokens.empty());
    std::vector<std::int32_t> table(batch.table_stride, -1);  // -1: no page, never read
    for (std::size_t i = 0; i < rows.pages.size(); ++i) {
      table[i] = static_cast<std::int32_t>(rows.pages[i].value);
    }
    for (std::uint32_t i = 0; i < rows.tokens.size(); ++i) {
      const trace::Position position = rows.first_position + i;
      const std::int32_t page = table[position / page_size];
      batch.rows.push_back({rows.request, position});
      tokens.push_back(rows.tokens[i]);
      positions.push_back(position);
      slots.push_back(page * static_cast<std::int32_t>(page_size) +
                      static_cast<std::int32_t>(position % page_size));
      contexts.push_back(position + 1);
      row_tables.insert(row_tables.end(), table.begin(), table.end());
    }
    segment_tables.insert(segment_tables.end(), table.begin(), table.end());
    firsts.push_back(rows.first_position);
    starts.push_back(static_cast<std::uint32_t>(tokens.size()));
    if (rows.samples) batch.sampled.push_back(static_cast<std::uint32_t>(tokens.size() - 1));
  }
  batch.max_context_length = *std::max_element(contexts.begin(), contexts.end());
  batch.tokens.dtype = model::DType::I32;
  batch.tokens.width = 1;
  batch.tokens.rows = batch.rows;
  LS_ASSIGN(batch.tokens.buffer, upload_vector(device, tokens, "tokens"));
  LS_ASSIGN(batch.positions, upload_vector(device, positions, "positions"));
  LS_ASSIGN(batch.slots, upload_vector(device, slots, "slots"));
  LS_ASSIGN(batch.query_starts, upload_vector(device, starts, "query starts"));
  LS_ASSIGN(batch.first_positions, upload_vector(device, firsts, "first positions"));
  LS_ASSIGN(batch.segment_tables, upload_vector(device, segment_tables, "segment block tables"));
  LS_ASSIGN(batch.row_tables, upload_vector(device, row_tables, "row block tables"));
  LS_ASSIGN(batch.context_lengths, upload_vector(device, contexts, "context lengths"));
  if (!batch.sampled.empty()) {
    LS_ASSIGN(batch.sampled_rows, upload_vector(device, batch.sampled, "sampled rows"));
  }
  return batch;
}

}  // namespace lockstep::engine
