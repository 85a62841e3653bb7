// Writes a safetensors file: header with offsets, then the tensors' bytes; written beside the
// target and renamed, so that a killed run leaves no half file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace lockstep::harness {

struct OutputTensor {
  std::string name;
  std::string_view dtype;  // safetensors tag: "F64", "F32", "F16", "BF16", "I64", "I32"
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;
};

base::Status write_safetensors(const std::string& path, std::span<const OutputTensor> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::harness
