#include "engine/models/device_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>

#include "base/check.h"
#include "base/checked.h"
#include "engine/models/rope_table.h"
#include "kernels/weights.h"

namespace lockstep::engine {
namespace {

using model::DType;
using model::WeightRole;

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  std::uint32_t exponent = (half >> 10) & 31u;
  std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    if (fraction == 0) return std::bit_cast<float>(sign);
    exponent = 1;
    while (!(fraction & 0x400u)) {
      fraction <<= 1;
      --exponent;  // below 1: wraps, and the sum below comes out right modulo 2^32
    }
    fraction &= 0x3ffu;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

class Uploader {
 public:
  // `partial`: a tensor that the model lacks stays empty.
  Uploader(const model::Model& model, device::Device& device, bool partial = false)
      : model_(model), device_(device), partial_(partial) {}

  base::Result<Weight> matrix(WeightRole role, std::uint32_t layer = 0) {
    const model::TensorInfo* tensor = model_.weight(role, layer);
    if (tensor == nullptr && partial_) return Weight{};
    LS_CHECK(tensor != nullptr);
    if (!kernels::weight_supported(tensor->dtype)) {
      return base::unsupported_error(model_.path, "tensor " + tensor->name,
                                     "no kernel decodes " + std::string(name(tensor->dtype)));
    }
    const auto rows = static_cast<std::uint32_t>(tensor->rows());
    const auto columns = static_cast<std::uint32_t>(tensor->columns());
    const std::vector<std::byte> packed =
        kernels::repack(tensor->dtype, rows, columns, tensor->data);
    const std::vector<std::byte> again = kernels::unpack(tensor->dtype, rows, columns, packed);
    LS_CHECK(std::ranges::equal(again, tensor->data), "repacking changed " + tensor->name);
    LS_ASSIGN(device::Buffer buffer, bytes(packed, tensor->name));
    Weight weight;
    weight.matrix = {tensor->dtype, rows, columns, buffer.address()};
    weight.buffer = std::move(buffer);
    return weight;
  }

  // A norm's weight as f32; (1 + w) is rounded once where the file holds w.
  base::Result<device::Buffer> vector(WeightRole role, std::uint32_t layer = 0) {
    const model::TensorInfo* tensor = model_.weight(role, layer);
    if (tensor == nullptr && partial_) return device::Buffer{};
    LS_CHECK(tensor != nullptr);
    std::vector<float> values(tensor->elements());
    LS_TRY(widen(*tensor, values));
    if (model_.config.norm_weight_plus_one) {
      for (float& value : values) value = 1.0f + value;
    }
    return bytes(std::as_bytes(std::span(values)), tensor->name);
  }

  base::Result<device::Buffer> bytes(std::span<const std::byte> content, std::string_view label) {
    LS_ASSIGN(device::Buffer buffer, device_.allocate(content.size(), label));
    LS_TRY(device_.copy_to_device(buffer.address(), content));
    return buffer;
  }

 private:
  base::Status widen(const model::TensorInfo& tensor, std::vector<float>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half;
      if (tensor.dtype == DType::F32) {
        std::memcpy(&values[i], tensor.data.data() + 4 * i, 4);
      } else if (tensor.dtype == DType::BF16) {
        std::memcpy(&half, tensor.data.data() + 2 * i, 2);
        values[i] = std::bit_cast<float>(std::uint32_t{half} << 16);
      } else if (tensor.dtype == DType::F16) {
        std::memcpy(&half, tensor.data.data() + 2 * i, 2);
        values[i] = half_to_float(half);
      } else {
        return base::unsupported_error(model_.path, "tensor " + tensor.name,
                                       "a norm's weight as " + std::string(name(tensor.dtype)));
      }
    }
    return base::Ok{};
  }

  const model::Model& model_;
  device::Device& device_;
  bool partial_;
};

base::Result<LayerWeights> upload_layer(Uploader& uploader, const model::ModelConfig& config,
                                        std::uint32_t index) {
  LayerWeights layer;
  LS_ASSIGN(layer.attn_norm, uploader.vector(WeightRole::AttnNorm, index));
  LS_ASSIGN(layer.ffn_norm, uploader.vector(WeightRole::FfnNorm, index));
  if (config.qk_norm) {
    LS_ASSIGN(layer.query_norm, uploader.vector(WeightRole::QueryNorm, index));
    LS_ASSIGN(layer.key_norm, uploader.vector(WeightRole::KeyNorm, index));
  }
  if (config.post_norms) {
    LS_ASSIGN(layer.post_attn_norm, uploader.vector(WeightRole::PostAttnNorm, index));
    LS_ASSIGN(layer.post_ffn_norm, uploader.vector(WeightRole::PostFfnNorm, index));
  }
  LS_ASSIGN(layer.query, uploader.matrix(WeightRole::Query, index));
  LS_ASSIGN(layer.key, uploader.matrix(WeightRole::Key, index));
  LS_ASSIGN(layer.value, uploader.matrix(WeightRole::Value, index));
  LS_ASSIGN(layer.attn_output, uploader.matrix(WeightRole::AttnOutput, index));
  LS_ASSIGN(layer.gate, uploader.matrix(WeightRole::Gate, index));
  LS_ASSIGN(layer.up, uploader.matrix(WeightRole::Up, index));
  LS_ASSIGN(layer.down, uploader.matrix(WeightRole::Down, index));
  return layer;
}

// Layers with the same base and scaling share one table.
base::Status upload_rope(Uploader& uploader, DeviceModel& result, std::uint32_t positions) {
  using Key = std::tuple<double, model::RopeScalingKind, double, double, double, double>;
  std::map<Key, device::DevicePointer> tables;
  for (std::uint32_t i = 0; i < result.config.layer_count; ++i) {
    const model::LayerAttention& attention = result.config.layers[i];
    const model::RopeScaling& scaling = attention.rope_scaling;
    const Key key{attention.rope_theta,
                  scaling.kind,
                  scaling.factor,
                  scaling.low_frequency_factor,
                  scaling.high_frequency_factor,
                  scaling.original_context_length};
    if (!tables.contains(key)) {
      const std::vector<float> table =
          rope_table(rope_frequencies(result.config, attention), positions);
      LS_ASSIGN(device::Buffer buffer,
                uploader.bytes(std::as_bytes(std::span(table)), "rope table"));
      tables[key] = buffer.address();
      result.rope_tables.push_back(std::move(buffer));
    }
    result.layers[i].cos_sin = tables[key];
  }
  return base::Ok{};
}

base::Status add_layer_pools(DeviceModel& result, device::Device& device, std::uint32_t num_blocks,
                             std::size_t layer) {
  const auto bytes = base::checked_mul(page_bytes(result.kv), num_blocks);
  if (!bytes) {
    return base::environment_error(device.properties().name,
                                   "no memory holds " + std::to_string(num_blocks) + " pages");
  }
  const std::string label = "layer " + std::to_string(layer);
  LS_ASSIGN(result.layers[layer].k_pool, device.allocate(*bytes, label + " K pool"));
  LS_ASSIGN(result.layers[layer].v_pool, device.allocate(*bytes, label + " V pool"));
  return base::Ok{};
}

std::unique_ptr<DeviceModel> empty_model(const model::Model& model,
                                         const trace::EngineSettings& settings) {
  auto result = std::make_unique<DeviceModel>();
  result->config = model.config;
  result->operand_format = settings.operand_format;
  result->kv = {settings.block_size, model.config.kv_head_count, model.config.head_size,
                settings.operand_format};
  return result;
}

base::Status upload_shared(Uploader& uploader, DeviceModel& result) {
  LS_ASSIGN(result.embedding, uploader.matrix(WeightRole::TokenEmbedding));
  if (result.config.tied_embeddings) {
    result.head.matrix = result.embedding.matrix;
  } else {
    LS_ASSIGN(result.head, uploader.matrix(WeightRole::Head));
  }
  LS_ASSIGN(result.final_norm, uploader.vector(WeightRole::FinalNorm));
  return base::Ok{};
}

}  // namespace

std::uint64_t page_bytes(const kernels::KvLayout& kv) {
  const auto bytes = model::storage_bytes(
      kv.cell_format, std::uint64_t{kv.page_size} * kv.kv_head_count * kv.head_size);
  LS_CHECK(bytes.has_value());
  return *bytes;
}

base::Result<std::unique_ptr<DeviceModel>> upload(const model::Model& model, device::Device& device,
                                                  const trace::EngineSettings& settings,
                                                  std::uint32_t positions) {
  std::unique_ptr<DeviceModel> result = empty_model(model, settings);
  Uploader uploader(model, device);
  LS_TRY(upload_shared(uploader, *result));
  for (std::uint32_t i = 0; i < model.config.layer_count; ++i) {
    LS_ASSIGN(LayerWeights layer, upload_layer(uploader, model.config, i));
    result->layers.push_back(std::move(layer));
  }
  LS_TRY(upload_rope(uploader, *result, std::min(model.config.context_length, positions)));
  return result;
}

base::Status add_pools(DeviceModel& model, device::Device& device, std::uint32_t num_blocks) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LS_TRY(add_layer_pools(model, device, num_blocks, i));
  }
  return base::Ok{};
}

base::Result<std::unique_ptr<DeviceModel>> upload_layer_alone(const model::Model& model,
                                                              device::Device& device,
                                                              const trace::EngineSettings& settings,
                                                              std::uint32_t layer,
                                                              std::uint32_t positions) {
  std::unique_ptr<DeviceModel> result = empty_model(model, settings);
  Uploader uploader(model, device, true);
  LS_TRY(upload_shared(uploader, *result));
  result->layers.resize(model.config.layer_count);
  LayerWeights& own = result->layers.at(layer);
  LS_ASSIGN(own, upload_layer(uploader, model.config, layer));
  if (positions == 0) return result;
  const std::vector<float> table =
      rope_table(rope_frequencies(model.config, model.config.layers[layer]), positions);
  LS_ASSIGN(device::Buffer buffer, uploader.bytes(std::as_bytes(std::span(table)), "rope table"));
  own.cos_sin = buffer.address();
  result->rope_tables.push_back(std::move(buffer));
  LS_TRY(add_layer_pools(*result, device, settings.num_blocks, layer));
  return result;
}

}  // namespace lockstep::engine
