// One query a row over its request's cells, split over keys, partial results merged by log-sum-exp.
// out = softmax(scale * q K^T) V over positions max(0, n - window) .. n - 1, n = context length.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct AttentionDecodeArgs {
  DevicePointer q = 0;  // f32 [rows, head_count, head_size]
  DevicePointer k_pool = 0, v_pool = 0;
  KvLayout kv;
  DevicePointer block_tables = 0;  // i32 [rows, table_stride]: pages of the row's request
  std::uint32_t table_stride = 0;
  DevicePointer context_lengths = 0;  // u32 [rows]: keys, the query's own included (position + 1)
  std::uint32_t max_context_length = 0;  // largest of them: the grid
  float scale = 0;
  std::uint32_t window = 0;     // 0: no window
  DevicePointer workspace = 0;  // attention_decode_workspace_bytes()
  DevicePointer out = 0;        // f32 [rows, head_count, head_size]
  std::uint32_t rows = 0, head_count = 0;
};
std::uint64_t attention_decode_workspace_bytes(std::uint32_t rows, std::uint32_t head_count,
                                               std::uint32_t head_size,
                                               std::uint32_t max_context_length);
trace::Contract attention_decode_contract(const AttentionDecodeArgs& args);
base::Status launch_attention_decode(const LaunchContext& context, const AttentionDecodeArgs& args);

}  // namespace lockstep::kernels
