// Batch: the rows of one phase of a step with their tables, on the host and on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/execute/tap.h"

namespace lockstep::engine {

// Consecutive tokens of one request, in one phase.
struct PlannedRows {
  trace::RequestId request;
  trace::Position first_position = 0;
  std::vector<trace::TokenId> tokens;  // at first_position, first_position + 1, ...
  bool samples = false;                // the last row's logits give a token
  std::vector<trace::PageId> pages;    // block table, these tokens included
};

struct Batch {
  bool prefill = false;
  std::vector<trace::RowId> rows;      // all planned rows, request after request
  std::vector<std::uint32_t> sampled;  // indices of rows whose logits are needed
  const std::vector<PlannedRows>* planned = nullptr;

  DeviceTensor tokens;          // u32 [rows, 1]
  device::Buffer positions;     // u32 [rows]
  device::Buffer slots;         // i32 [rows]
  device::Buffer sampled_rows;  // u32 [sampled]
  // A request is one segment of consecutive rows.
  std::uint32_t segments = 0, max_segment_rows = 0;
  device::Buffer query_starts;     // u32 [segments + 1]
  device::Buffer first_positions;  // u32 [segments]
  std::uint32_t table_stride = 0;
  device::Buffer segment_tables;   // i32 [segments, table_stride]
  device::Buffer row_tables;       // i32 [rows, table_stride]
  device::Buffer context_lengths;  // u32 [rows]
  std::uint32_t max_context_length = 0;

  std::uint32_t row_count() const { return static_cast<std::uint32_t>(rows.size()); }
};

base::Result<Batch> make_batch(device::Device& device, const std::vector<PlannedRows>& planned,
                               bool prefill, std::uint32_t page_size);

}  // namespace lockstep::engine
