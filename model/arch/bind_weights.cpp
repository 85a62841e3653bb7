// Config against tensors: each asked-for weight is there with its shape, and nothing is left over.
#include <set>

#include "base/check.h"
#include "model/arch/arch.h"

namespace lockstep::model {
namespace {

std::string text(const std::vector<std::uint64_t>& shape) {
  std::string result = "[";
  for (const std::uint64_t axis : shape) {
    if (result.size() > 1) result += ", ";
    result += std::to_string(axis);
  }
  return result + "]";
}

// Formats in which a weight means its decoded numbers and nothing else. The 8-bit floats come with
// scales of their own, which are no part of the format.
bool is_weight_format(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::Q4_0:
    case DType::Q4_1:
    case DType::Q5_0:
    case DType::Q5_1:
    case DType::Q8_0:
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::Q4_K:
    case DType::Q5_K:
    case DType::Q6_K:
    case DType::IQ1_S:
    case DType::IQ1_M:
    case DType::IQ2_XXS:
    case DType::IQ2_XS:
    case DType::IQ2_S:
    case DType::IQ3_XXS:
    case DType::IQ3_S:
    case DType::IQ4_NL:
    case DType::IQ4_XS:
    case DType::TQ1_0:
    case DType::TQ2_0:
    case DType::MXFP4:
    case DType::NVFP4:
    case DType::Q1_0:
      return true;
    case DType::I64:
    case DType::I32:
    case DType::I16:
    case DType::I8:
    case DType::U8:
    case DType::Bool:
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::Q8_1:
    case DType::Q8_K:
      return false;
  }
  LS_CHECK(false);
  return false;
}

base::Status check(const WeightSpec& spec, const TensorInfo& tensor, const std::string& file) {
  const std::string where = "tensor " + spec.name;
  if (tensor.shape != spec.shape) {
    return base::input_error(
        file, tensor.offset_bytes, where,
        "must have the shape " + text(spec.shape) + ", found " + text(tensor.shape));
  }
  if (!is_weight_format(tensor.dtype)) {
    return base::unsupported_error(
        file, where, "weights of type " + std::string(name(tensor.dtype)) + " are not built");
  }
  if (spec.shape.size() == 1 && layout(tensor.dtype).block_elements != 1) {
    return base::input_error(
        file, tensor.offset_bytes, where,
        "a norm must have a plain number format, found " + std::string(name(tensor.dtype)));
  }
  return base::Ok{};
}

}  // namespace

base::Result<WeightMap> bind_weights(const ModelConfig& config, const TensorTable& tensors,
                                     FileFormat format, const std::string& file) {
  WeightMap weights;
  std::set<std::string_view> used;
  const auto bind = [&](const std::vector<WeightSpec>& specs) -> base::Status {
    for (const WeightSpec& spec : specs) {
      const TensorInfo* tensor = tensors.find(spec.name);
      if (tensor == nullptr) {
        base::Error error = base::input_error(file, "this tensor is missing");
        error.where = "tensor " + spec.name;
        return error;
      }
      LS_TRY(check(spec, *tensor, file));
      used.insert(tensor->name);
      weights.emplace(std::pair(spec.role, spec.layer), tensor);
    }
    return base::Ok{};
  };
  LS_TRY(bind(model_weight_specs(config, format)));
  // Layer by layer: a wrong layer count ends at the first layer that isn't there.
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    LS_TRY(bind(layer_weight_specs(config, format, layer)));
  }
  if (!config.rope_frequency_divisors.empty()) used.insert("rope_freqs.weight");
  for (const auto& [label, tensor] : tensors.all()) {
    if (used.contains(label)) continue;
    return base::unsupported_error(
        file, "tensor " + label,
        "no part of the " + std::string(name(config.arch)) + " architecture uses this tensor");
  }
  return weights;
}

}  // namespace lockstep::model
