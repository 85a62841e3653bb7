// Queries of several requests' prompt chunks (segments) over their cells, causal from each query's
// absolute position, on tensor cores. Segment s holds rows query_starts[s] .. query_starts[s + 1] -
// 1 at positions first_positions[s] + 0, 1, ...; the keys of its own chunk are in the cells
// already.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct AttentionPrefillArgs {
  DevicePointer q = 0;  // operand_format [rows, head_count, head_size]
  DevicePointer k_pool = 0, v_pool = 0;
  KvLayout kv;                     // cell_format = operand format, F16 or BF16
  DevicePointer block_tables = 0;  // i32 [segments, table_stride]
  std::uint32_t table_stride = 0;
  DevicePointer query_starts = 0;     // u32 [segments + 1]
  DevicePointer first_positions = 0;  // u32 [segments]
  std::uint32_t segments = 0;
  std::uint32_t max_segment_rows = 0;  // largest segment: the grid
  float scale = 0;
  std::uint32_t window = 0;
  DevicePointer out = 0;  // out_format [rows, head_count, head_size]
  model::DType out_format = model::DType::F16;
  std::uint32_t rows = 0, head_count = 0;
};
trace::Contract attention_prefill_contract(const AttentionPrefillArgs& args);
base::Status launch_attention_prefill(const LaunchContext& context,
                                      const AttentionPrefillArgs& args);

}  // namespace lockstep::kernels
