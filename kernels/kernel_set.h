// KernelSet: the embedded PTX of all kernels, loaded into a Device when first used.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "device/device.h"

namespace lockstep::kernels {

struct EmbeddedPtx {
  std::string_view op;  // the .cu file's stem
  std::uint32_t sm;
  std::string_view text;
};
std::span<const EmbeddedPtx> embedded_ptx();

class KernelSet {
 public:
  explicit KernelSet(device::Device& device) : device_(device) {}
  // Entry `entry` of kernels/<op>.cu for this device's generation: the newest embedded one that is
  // not newer than the device.
  base::Result<device::Kernel> find(std::string_view op, std::string_view entry);
  device::Device& device() { return device_; }

 private:
  device::Device& device_;
  std::map<std::string, device::Kernel, std::less<>> loaded_;
};

}  // namespace lockstep::kernels
