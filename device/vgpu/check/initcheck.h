// Which bytes have been written: one bit a byte. Global memory has one map for its whole life,
// shared and local memory one for each block. The maps take memory only where they are touched.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "device/vgpu/check/access.h"
#include "device/vgpu/check/bits.h"

namespace lockstep::device::vgpu::check {

// Zeroed memory that the system provides page by page as it is touched.
class LazyMemory {
 public:
  LazyMemory() = default;
  explicit LazyMemory(u64 size_bytes);
  LazyMemory(LazyMemory&& other) noexcept { swap(other); }
  LazyMemory& operator=(LazyMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;
  ~LazyMemory();
  void* data() const { return data_; }

 private:
  void swap(LazyMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }
  void* data_ = nullptr;
  u64 size_bytes_ = 0;
};

// Global memory: bytes [first, first + size_bytes). Host threads may mark and look at the same
// time; what a block sees of another block's writes of the same launch depends on their order (a
// race, which racecheck reports in every order).
class GlobalInit {
 public:
  GlobalInit(u64 first, u64 size_bytes) : first_(first), memory_(size_bytes / 8 + 64) {}
  void mark(u64 address, u64 size_bytes) {
    set_bits_atomically(bits(), address - first_, size_bytes);
  }
  void forget(u64 address, u64 size_bytes) { clear_bits(bits(), address - first_, size_bytes); }
  bool is_marked(u64 address, u64 size_bytes) const {
    return all_set(bits(), address - first_, size_bytes);
  }
  u64* bits() const { return static_cast<u64*>(memory_.data()); }
  u64 first() const { return first_; }

 private:
  u64 first_;
  LazyMemory memory_;
};

// Shared memory of a block, or local memory of a warp (all lanes' copies in a row).
class BlockInit {
 public:
  // Nothing is written, of `size_bytes`.
  void reset(u64 size_bytes) {
    size_bytes_ = size_bytes;
    words_.assign(size_bytes / 64 + 2, 0);
  }
  u64 size_bytes() const { return size_bytes_; }
  u64* bits() { return words_.data(); }

 private:
  u64 size_bytes_ = 0;
  std::vector<u64> words_ = {};
};

}  // namespace lockstep::device::vgpu::check
