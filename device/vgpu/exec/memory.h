// Global memory of a virtual GPU: one reserved range of host addresses, and which parts of it are
// allocated. As a GPU maps its pages wherever it likes, the range has more addresses than there is
// memory: an allocation fails for want of bytes, not because the free ones lie apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "device/vgpu/check/memcheck.h"
#include "device/vgpu/exec/machine.h"

namespace lockstep::device::vgpu::exec {

struct Allocation {
  std::uint64_t size_bytes = 0;
  std::string label;
};

class GlobalMemory {
 public:
  // Beyond its size an allocation takes at most this: alignment, and the gap behind it.
  static constexpr std::uint64_t kOverheadBytes = 512;

  // Reserves addresses; host memory is used as it is touched.
  static base::Result<GlobalMemory> reserve(std::uint64_t size_bytes);
  GlobalMemory(GlobalMemory&& other) noexcept { swap(other); }
  GlobalMemory& operator=(GlobalMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;
  ~GlobalMemory();

  // The lowest free place, 256-byte aligned, with a gap of at least 256 bytes to its neighbours.
  // 0: it does not fit into the free bytes.
  std::uint64_t allocate(std::uint64_t size_bytes, std::string label);
  void release(std::uint64_t address);

  std::uint64_t size_bytes() const { return size_bytes_; }
  // Device addresses are kGlobalBase + [0, address_bytes()).
  std::uint64_t address_bytes() const { return address_bytes_; }
  std::uint64_t free_bytes() const { return free_bytes_; }
  const std::map<std::uint64_t, Allocation>& allocations() const { return allocations_; }
  // The live allocation that holds [address, address + size_bytes); first == end: there is none.
  Interval find(std::uint64_t address, std::uint64_t size_bytes) const;
  // Names of live and freed allocations, for messages.
  const check::AllocationTable& table() const { return table_; }
  std::byte* host(std::uint64_t address) const { return data_ + (address - kGlobalBase); }
  std::uint64_t bias() const { return reinterpret_cast<std::uint64_t>(data_) - kGlobalBase; }

 private:
  GlobalMemory() = default;
  void swap(GlobalMemory& other) noexcept;
  std::byte* mapping_ = nullptr;
  std::byte* data_ = nullptr;  // of kGlobalBase
  std::uint64_t size_bytes_ = 0, address_bytes_ = 0, mapped_bytes_ = 0, free_bytes_ = 0;
  std::map<std::uint64_t, Allocation> allocations_;  // by address
  check::AllocationTable table_;
};

}  // namespace lockstep::device::vgpu::exec
