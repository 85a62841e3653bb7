// open(), available() and Buffer.
#include "device/device.h"

#include "device/virtual_device.h"

namespace lockstep::device {

Buffer::~Buffer() {
  if (device_ != nullptr) device_->release(address_);
}
void Buffer::swap(Buffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(size_bytes_, other.size_bytes_);
}

base::Result<std::unique_ptr<Device>> open(std::string_view name, const DeviceOptions& options) {
  constexpr std::string_view kVirtual = "vgpu:";
  if (name.starts_with(kVirtual)) {
    return open_virtual(name.substr(kVirtual.size()), options);
  }
  return base::environment_error(std::string(name), "no such device; " + std::string(kVirtual) +
                                                        "sm_80 and vgpu:sm_90 always exist");
}

std::vector<std::string> available() { return virtual_devices(); }

}  // namespace lockstep::device
