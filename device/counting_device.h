// CountingDevice: a Device that runs nothing and counts. Work that is driven against it shows the
// memory that the same calls take of the device it stands for.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "device/device.h"

namespace lockstep::device {

// Allocations never fail and each counts as its size and `like`'s overhead. A launch does nothing,
// what is copied from it is zeros, any kernel loads.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(const DeviceProperties& like) : properties_(like) {}

  // The most that was allocated at a time, overheads included.
  std::uint64_t peak_bytes() const { return peak_bytes_; }

  const DeviceProperties& properties() const override { return properties_; }
  base::Result<Buffer> allocate(std::uint64_t size_bytes, std::string_view label) override;
  MemoryInfo memory() const override;
  base::Status copy_to_device(DevicePointer, std::span<const std::byte>, Stream) override;
  base::Status copy_from_device(std::span<std::byte> destination, DevicePointer, Stream) override;
  base::Status fill(DevicePointer, std::uint8_t, std::uint64_t, Stream) override;
  base::Result<Kernel> load(std::string_view, const std::string&,
                            const std::string& entry) override;
  base::Status launch(const Kernel&, const LaunchConfig&, std::span<const std::byte>) override;
  base::Status synchronize() override { return base::Ok{}; }
  std::vector<Diagnostic> take_diagnostics() override { return {}; }
  DeviceCounters counters() const override { return {}; }

 private:
  void release(DevicePointer address) override;

  DeviceProperties properties_;
  DevicePointer next_ = 256;
  std::map<DevicePointer, std::uint64_t> allocations_;  // bytes that each counts
  std::uint64_t bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace lockstep::device
