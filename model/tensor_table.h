// TensorTable: the tensors of a model file by name, as views into the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"

namespace lockstep::model {

struct TensorInfo {
  std::string name;
  DType dtype = DType::F32;
  // Outermost axis first; the last axis is contiguous (GGUF's own order is reversed on reading).
  // A weight of y = W x is [outputs, inputs].
  std::vector<std::uint64_t> shape;
  std::uint64_t offset_bytes = 0;   // in the file
  std::span<const std::byte> data;  // as stored

  std::uint64_t elements() const;
  // Rows and columns of a matrix; a vector of n is 1 row of n.
  std::uint64_t rows() const;
  std::uint64_t columns() const;
  std::uint64_t row_bytes() const;
  std::span<const std::byte> row(std::uint64_t index) const;
};

class TensorTable {
 public:
  const TensorInfo* find(std::string_view name) const;
  // False if the name is there already.
  bool insert(TensorInfo tensor);
  const std::map<std::string, TensorInfo, std::less<>>& all() const { return tensors_; }

 private:
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

}  // namespace lockstep::model
