// The virtual GPU as a Device: modules, kernels and buffers over vgpu/exec.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace lockstep::device {

// `generation`: "sm_80", ...
base::Result<std::unique_ptr<Device>> open_virtual(std::string_view generation,
                                                   const DeviceOptions& options);
std::vector<std::string> virtual_devices();

}  // namespace lockstep::device
