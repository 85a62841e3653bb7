// Weight: rows of a tensor in the run's precision.
#include "reference/weights.h"

#include "base/check.h"
#include "reference/formats/ieee.h"

namespace lockstep::reference {

base::Result<Weight> Weight::open(const model::TensorInfo& tensor, WeightPrecision precision) {
  auto found = decoder(tensor.dtype);
  if (!found) {
    base::Error error = found.error();
    error.rule = "type " + error.where + ": " + error.rule;
    error.where = "tensor " + tensor.name;
    return error;
  }
  return Weight(tensor, *found, precision);
}

Weight::Weight(const model::TensorInfo& tensor, const Decoder& decoder, WeightPrecision precision)
    : tensor_(&tensor),
      decoder_(decoder),
      precision_(precision),
      outputs_(tensor.rows()),
      inputs_(tensor.columns()) {}

void Weight::row(std::uint64_t index, std::span<double> out) const {
  decoder_.row(*tensor_, index, out);
  if (precision_ == WeightPrecision::Exact) return;
  if (!decoder_.exact_in_f32) round_values(model::DType::F32, out);
  switch (precision_) {
    case WeightPrecision::Exact:
    case WeightPrecision::F32:
      return;
    case WeightPrecision::F16:
      return round_values(model::DType::F16, out);
    case WeightPrecision::BF16:
      return round_values(model::DType::BF16, out);
  }
}

void Weight::rows(std::uint64_t first, std::uint64_t count, std::span<double> out) const {
  LS_CHECK(first <= outputs_ && count <= outputs_ - first && out.size() == count * inputs_);
  for (std::uint64_t i = 0; i < count; ++i) row(first + i, out.subspan(i * inputs_, inputs_));
}

}  // namespace lockstep::reference
