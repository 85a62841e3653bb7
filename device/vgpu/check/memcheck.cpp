// Allocations of global memory; memcheck.h.
#include "device/vgpu/check/memcheck.h"

#include "base/check.h"

namespace lockstep::device::vgpu::check {
namespace {

std::string named(const Allocation& allocation) {
  return "\"" + allocation.label + "\" of " + std::to_string(allocation.size_bytes()) + " bytes";
}
std::string bytes(u64 count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

// An address further than this from every allocation is not explained by the nearest one.
constexpr u64 kNearBytes = 1 << 20;

}  // namespace

std::string hexadecimal(u64 value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + text;
}

void AllocationTable::add(u64 first, u64 size_bytes, std::string_view label) {
  const Allocation* before = at_or_before(live_, first + size_bytes);
  LS_CHECK(before == nullptr || before->end <= first || size_bytes == 0);
  // What was freed here is forgotten.
  auto old = freed_.upper_bound(first);
  if (old != freed_.begin()) --old;
  while (old != freed_.end() && old->second.first < first + size_bytes) {
    old = old->second.end > first ? freed_.erase(old) : std::next(old);
  }
  live_.emplace(first, Allocation{first, first + size_bytes, std::string(label)});
}

void AllocationTable::remove(u64 first) {
  const auto found = live_.find(first);
  LS_CHECK(found != live_.end());
  freed_.insert_or_assign(first, std::move(found->second));
  live_.erase(found);
}

const Allocation* AllocationTable::at_or_before(const std::map<u64, Allocation>& from,
                                                u64 address) const {
  auto after = from.upper_bound(address);
  return after == from.begin() ? nullptr : &std::prev(after)->second;
}

const Allocation* AllocationTable::find(u64 address, u64 size_bytes) const {
  const Allocation* allocation = at_or_before(live_, address);
  if (allocation == nullptr || address >= allocation->end) return nullptr;
  return size_bytes <= allocation->end - address ? allocation : nullptr;
}

std::string AllocationTable::describe(u64 address, u64 size_bytes) const {
  const Allocation* before = at_or_before(live_, address);
  if (before != nullptr && address < before->end) {
    const u64 room = before->end - address;
    if (size_bytes > room) {
      return "reaches " + bytes(size_bytes - room) + " past the end of " + named(*before);
    }
    return "at offset " + std::to_string(address - before->first) + " of " + named(*before);
  }
  const Allocation* freed = at_or_before(freed_, address);
  if (freed != nullptr && address < freed->end) {
    return "in " + named(*freed) + ", which was freed";
  }
  const auto after = live_.upper_bound(address);
  const u64 past = before != nullptr ? address - before->end : kNearBytes;
  const u64 ahead = after != live_.end() ? after->second.first - address : kNearBytes;
  if (past < kNearBytes && past <= ahead) {
    return bytes(past) + " after " + named(*before);
  }
  if (ahead < kNearBytes) return bytes(ahead) + " before " + named(after->second);
  return "in no allocation";
}

}  // namespace lockstep::device::vgpu::check
