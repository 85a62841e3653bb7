// What every launch function takes.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "device/device.h"
#include "kernels/kernel_set.h"
#include "model/dtype.h"
#include "trace/contract.h"

namespace lockstep::kernels {

using device::DevicePointer;

struct LaunchContext {
  KernelSet& kernels;
  device::Stream stream = {};
};

// A weight matrix [rows, columns] on the device, in the layout of kernels/weights.h for its dtype.
struct DeviceWeight {
  model::DType dtype = model::DType::F32;
  std::uint32_t rows = 0;     // outputs
  std::uint32_t columns = 0;  // inputs
  DevicePointer data = 0;     // 256-byte aligned
};

// K and V cells of one layer: element d of kv head h at offset o of page p is at
// ((p * kv_head_count + h) * page_size + o) * head_size + d, for K and V each in its own pool.
struct KvLayout {
  std::uint32_t page_size = 16;
  std::uint32_t kv_head_count = 1;
  std::uint32_t head_size = 64;
  model::DType cell_format = model::DType::F16;  // F16 or BF16 (F32 for CUDA-core-only runs)
};

}  // namespace lockstep::kernels
