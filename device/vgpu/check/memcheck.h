// Which allocation an address of global memory belongs to, and what to say of one that belongs to
// none: past the end of one, before it, or freed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "device/vgpu/check/access.h"

namespace lockstep::device::vgpu::check {

struct Allocation {
  u64 first = 0, end = 0;  // device addresses [first, end)
  std::string label;
  u64 size_bytes() const { return end - first; }
};

class AllocationTable {
 public:
  void add(u64 first, u64 size_bytes, std::string_view label);
  // The allocation that starts there goes; its label stays known until its addresses are used
  // again.
  void remove(u64 first);
  // The live allocation that holds all of [address, address + size_bytes).
  const Allocation* find(u64 address, u64 size_bytes) const;

  // Where an access lies: "at offset 128 of "x" of 4096 bytes", or what it misses: "4 bytes after
  // "x" of 4096 bytes", "8 bytes before ...", "reaches 2 bytes past the end of ...", "in "x" of
  // 4096 bytes, which was freed", "in no allocation".
  std::string describe(u64 address, u64 size_bytes) const;

 private:
  const Allocation* at_or_before(const std::map<u64, Allocation>& from, u64 address) const;
  std::map<u64, Allocation> live_ = {};
  std::map<u64, Allocation> freed_ = {};
};

std::string hexadecimal(u64 value);  // "0x1f"

}  // namespace lockstep::device::vgpu::check
