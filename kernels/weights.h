// Weights as the kernels want them: repacked once at load where the file's blocks (18, 20, 22, 34,
// 210 bytes) cannot be read by aligned 16-byte loads; the same bits otherwise regrouped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/dtype.h"

namespace lockstep::kernels {

// Whether gemv, gemm and embed_rows decode this type: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K.
bool weight_supported(model::DType dtype);
// File bytes of [rows, columns] -> device bytes, and back (unpack(repack(x)) == x).
std::vector<std::byte> repack(model::DType dtype, std::uint32_t rows, std::uint32_t columns,
                              std::span<const std::byte> file_bytes);
std::vector<std::byte> unpack(model::DType dtype, std::uint32_t rows, std::uint32_t columns,
                              std::span<const std::byte> device_bytes);

}  // namespace lockstep::kernels
