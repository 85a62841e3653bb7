// Counting instead of running; counting_device.h.
#include "device/counting_device.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::device {

base::Result<Buffer> CountingDevice::allocate(std::uint64_t size_bytes, std::string_view) {
  constexpr std::uint64_t kAlignment = 256;  // what launches may ask for
  const DevicePointer address = next_;
  next_ += (size_bytes / kAlignment + 1) * kAlignment;
  const std::uint64_t bytes = size_bytes + properties_.allocation_overhead_bytes;
  allocations_.emplace(address, bytes);
  bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return Buffer(this, address, size_bytes);
}

void CountingDevice::release(DevicePointer address) {
  const auto found = allocations_.find(address);
  LS_CHECK(found != allocations_.end());
  bytes_ -= found->second;
  allocations_.erase(found);
}

MemoryInfo CountingDevice::memory() const {
  return {properties_.memory_bytes,
          properties_.memory_bytes - std::min(properties_.memory_bytes, bytes_)};
}

base::Status CountingDevice::copy_to_device(DevicePointer, std::span<const std::byte>, Stream) {
  return base::Ok{};
}

base::Status CountingDevice::copy_from_device(std::span<std::byte> destination, DevicePointer,
                                              Stream) {
  std::ranges::fill(destination, std::byte{0});
  return base::Ok{};
}

base::Status CountingDevice::fill(DevicePointer, std::uint8_t, std::uint64_t, Stream) {
  return base::Ok{};
}

base::Result<Kernel> CountingDevice::load(std::string_view, const std::string&,
                                          const std::string& entry) {
  return Kernel{this, entry};
}

base::Status CountingDevice::launch(const Kernel&, const LaunchConfig&,
                                    std::span<const std::byte>) {
  return base::Ok{};
}

}  // namespace lockstep::device
