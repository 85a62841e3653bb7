// out[r, :] = fl32(table[tokens[r], :] * scale): one rounding of the decoded weight at most.
#pragma once

#include "kernels/launch.h"
#include "model/config.h"
#include "trace/device_info.h"

namespace lockstep::kernels {

struct EmbedRowsArgs {
  DeviceWeight table;        // [vocab, hidden]
  DevicePointer tokens = 0;  // u32 [rows], each < table.rows
  DevicePointer out = 0;     // f32 [rows, hidden]
  std::uint32_t rows = 0;
  float scale = 1;
};
trace::Contract embed_rows_contract(const EmbedRowsArgs& args);
base::Status launch_embed_rows(const LaunchContext& context, const EmbedRowsArgs& args);

}  // namespace lockstep::kernels
