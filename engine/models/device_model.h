// DeviceModel: a model's weights and RoPE tables in device memory, and its pools of K and V cells.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "kernels/launch.h"
#include "model/model.h"
#include "trace/scenario.h"

namespace lockstep::engine {

// A matrix with the buffer that holds it; a vector (norm) is f32.
struct Weight {
  device::Buffer buffer;
  kernels::DeviceWeight matrix;
};

struct LayerWeights {
  device::Buffer attn_norm, ffn_norm;
  device::Buffer query_norm, key_norm;           // qk_norm only
  device::Buffer post_attn_norm, post_ffn_norm;  // post_norms only
  Weight query, key, value, attn_output, gate, up, down;
  device::DevicePointer cos_sin = 0;  // of the layer's RoPE base and scaling
  device::Buffer k_pool, v_pool;
};

// Of a page in one layer's pool of K, or of V.
std::uint64_t page_bytes(const kernels::KvLayout& kv);

struct DeviceModel {
  model::ModelConfig config;
  kernels::KvLayout kv;
  // Formats of what prefill (tensor cores) reads; F32: no tensor cores, prefill runs decode's
  // kernels.
  model::DType operand_format = model::DType::F16;
  Weight embedding;
  Weight head;  // no buffer where tied: the embedding's
  device::Buffer final_norm;
  std::vector<LayerWeights> layers;
  std::vector<device::Buffer> rope_tables;  // one a distinct base and scaling

  bool tensor_cores() const { return operand_format != model::DType::F32; }
};

// Uploads the weights, and RoPE tables for the positions below `positions` that the model has. A
// block type that no kernel decodes is an Error. Every repacked matrix is unpacked again and
// compared with the file's bytes.
base::Result<std::unique_ptr<DeviceModel>> upload(const model::Model& model, device::Device& device,
                                                  const trace::EngineSettings& settings,
                                                  std::uint32_t positions);

// Makes the pools of all layers, K and V each a buffer of so many pages.
base::Status add_pools(DeviceModel& model, device::Device& device, std::uint32_t num_blocks);

// What one operation of `layer` needs: of the weights those that `model` has (others stay empty),
// of pools and RoPE tables the layer's own, for `positions` positions.
base::Result<std::unique_ptr<DeviceModel>> upload_layer_alone(const model::Model& model,
                                                              device::Device& device,
                                                              const trace::EngineSettings& settings,
                                                              std::uint32_t layer,
                                                              std::uint32_t positions);

}  // namespace lockstep::engine
