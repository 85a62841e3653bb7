#include "harness/commands/device_names.h"

#include <algorithm>

#include "device/device.h"
#include "harness/subjects/engine_subject.h"
#include "kernels/kernel_set.h"

namespace lockstep::harness {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts{""};
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Whether our kernels run there: PTX for that generation or an older one is embedded.
bool has_kernels(const std::string& device) {
  const base::Result<trace::DeviceInfo> info = device_info(device);
  return info && std::ranges::any_of(kernels::embedded_ptx(),
                                     [&](const auto& ptx) { return ptx.sm <= info->sm; });
}

}  // namespace

std::vector<std::string> device_names(const std::string& list, const std::string& usual) {
  std::vector<std::string> names;
  for (const std::string& name : split(list.empty() ? usual : list)) {
    if (name == "auto") {
      names.emplace_back("vgpu:sm_90");
    } else if (name == "vgpu:all") {
      for (const std::string& available : device::available()) {
        if (has_kernels(available)) names.push_back(available);
      }
    } else {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace lockstep::harness
