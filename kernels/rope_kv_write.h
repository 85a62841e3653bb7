// q and k: optional RMSNorm over each head, then rotation by the position's angles; v as it is; K
// and V go to the row's cell, q to q_out.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct RopeKvWriteArgs {
  DevicePointer q_raw = 0;               // f32 [rows, head_count * head_size]
  DevicePointer k_raw = 0;               // f32 [rows, kv_head_count * head_size]
  DevicePointer v_raw = 0;               // f32 [rows, kv_head_count * head_size]
  DevicePointer q_norm = 0, k_norm = 0;  // f32 [head_size], or both 0: no norm
  float epsilon = 0;
  DevicePointer cos_sin = 0;    // f32 [positions, head_size / 2, 2]: RN of double values
  DevicePointer positions = 0;  // u32 [rows]
  DevicePointer slots = 0;  // i32 [rows]: page * page_size + offset; -1: a pad row, writes no cell
  DevicePointer q_out = 0;  // q_format [rows, head_count, head_size]
  model::DType q_format = model::DType::F32;  // F32 (decode) or the operand format (prefill)
  DevicePointer k_pool = 0, v_pool = 0;       // of this layer
  KvLayout kv;
  model::RopePairing pairing = model::RopePairing::Half;
  std::uint32_t rows = 0, head_count = 0;
};
trace::Contract rope_kv_write_contract(const RopeKvWriteArgs& args);
base::Status launch_rope_kv_write(const LaunchContext& context, const RopeKvWriteArgs& args);

}  // namespace lockstep::kernels
