// Forward: what the layers of one batch share, and the two steps that all blocks are made of: a
// product with a weight, and a norm. Each launch is recorded with its contract.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "engine/execute/tap.h"
#include "engine/models/batch.h"
#include "engine/models/device_model.h"
#include "kernels/launch.h"

namespace lockstep::engine {

struct Forward {
  const DeviceModel& model;
  const Batch& batch;
  kernels::LaunchContext context;
  TapRecorder& taps;

  device::Device& device() const { return context.kernels.device(); }
  // Tensor cores for rows of prompts, CUDA cores for decode rows: by phase, never by size.
  bool tensor_cores() const { return batch.prefill && model.tensor_cores(); }
  // Format of what a product of this phase reads.
  model::DType activation_format() const {
    return tensor_cores() ? model.operand_format : model::DType::F32;
  }

  // Buffers are made for one step at their exact size: what is read beyond or before it is written
  // is seen by a device's checks.
  base::Result<DeviceTensor> make(model::DType dtype, std::uint32_t width,
                                  const std::vector<trace::RowId>& rows,
                                  std::string_view label) const;

  struct Input {
    const DeviceTensor& tensor;
    trace::TapPoint point;
  };
  // out = W x for the rows of this phase.
  base::Result<DeviceTensor> product(Input x, const kernels::DeviceWeight& weight,
                                     model::WeightRole role, std::uint32_t layer,
                                     trace::TapPoint out) const;
  base::Result<DeviceTensor> norm(Input x, const device::Buffer& weight, model::WeightRole role,
                                  std::uint32_t layer, trace::TapPoint out,
                                  model::DType out_format) const;
  base::Result<DeviceTensor> add(Input a, Input b, std::uint32_t layer, trace::TapPoint out) const;
};

// The layer sequence of each architecture: resid_in of layer `index` -> resid_out.
base::Result<DeviceTensor> llama_layer(const Forward& forward, std::uint32_t index,
                                       DeviceTensor resid_in);
base::Result<DeviceTensor> gemma3_layer(const Forward& forward, std::uint32_t index,
                                        DeviceTensor resid_in);

// Ends of the sequence. embed: the batch's tokens -> embed. final_norm: of the sampled rows only.
// argmax: token, one a row of `logits`.
base::Result<DeviceTensor> embed(const Forward& forward);
base::Result<DeviceTensor> final_norm(const Forward& forward, const DeviceTensor& resid);
base::Result<DeviceTensor> argmax(const Forward& forward, const DeviceTensor& logits);

// Tokens -> logits of the batch's sampled rows -> their argmax, as u32 on the host.
base::Result<std::vector<trace::TokenId>> run_batch(const Forward& forward);

}  // namespace lockstep::engine
