// Shape arithmetic of a tensor that its reader has already checked: no overflow is possible here.
#include "model/tensor_table.h"

#include "base/check.h"

namespace lockstep::model {

std::uint64_t TensorInfo::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t axis : shape) count *= axis;
  return count;
}

std::uint64_t TensorInfo::columns() const { return shape.empty() ? 1 : shape.back(); }

std::uint64_t TensorInfo::rows() const {
  std::uint64_t count = 1;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) count *= shape[axis];
  return count;
}

std::uint64_t TensorInfo::row_bytes() const {
  const std::optional<std::uint64_t> bytes = storage_bytes(dtype, columns());
  LS_CHECK(bytes.has_value(), name);
  return *bytes;
}

std::span<const std::byte> TensorInfo::row(std::uint64_t index) const {
  LS_CHECK(index < rows(), name);
  const std::uint64_t size = row_bytes();
  return data.subspan(index * size, size);
}

const TensorInfo* TensorTable::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool TensorTable::insert(TensorInfo tensor) {
  std::string key = tensor.name;
  return tensors_.try_emplace(std::move(key), std::move(tensor)).second;
}

}  // namespace lockstep::model
