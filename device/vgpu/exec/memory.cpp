#include "device/vgpu/exec/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace lockstep::device::vgpu::exec {

namespace {
constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kGap = 256;
static_assert(GlobalMemory::kOverheadBytes == kAlignment + kGap);
// Addresses for each byte of memory.
constexpr std::uint64_t kAddressesPerByte = 4;
// Released memory of at least this size goes back to the host at once.
constexpr std::uint64_t kReturnBytes = 1 << 20;

std::uint64_t footprint(std::uint64_t size_bytes) {
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
}
}  // namespace

base::Result<GlobalMemory> GlobalMemory::reserve(std::uint64_t size_bytes) {
  GlobalMemory memory;
  memory.size_bytes_ = size_bytes / kAlignment * kAlignment;
  memory.address_bytes_ = kAddressesPerByte * memory.size_bytes_ + kGap;
  memory.mapped_bytes_ = memory.address_bytes_ + 2 * kPaddingBytes;
  void* mapping = mmap(nullptr, memory.mapped_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    memory.mapped_bytes_ = 0;
    return base::environment_error(
        "device memory", "the host refuses to reserve " + std::to_string(size_bytes) + " bytes");
  }
  memory.mapping_ = static_cast<std::byte*>(mapping);
  memory.data_ = memory.mapping_ + kPaddingBytes;
  memory.free_bytes_ = memory.size_bytes_;
  return memory;
}

GlobalMemory::~GlobalMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

void GlobalMemory::swap(GlobalMemory& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(address_bytes_, other.address_bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(free_bytes_, other.free_bytes_);
  std::swap(allocations_, other.allocations_);
  std::swap(table_, other.table_);
}

std::uint64_t GlobalMemory::allocate(std::uint64_t size_bytes, std::string label) {
  if (size_bytes > size_bytes_) return 0;
  const std::uint64_t needed = footprint(std::max<std::uint64_t>(size_bytes, 1));
  if (needed > free_bytes_) return 0;
  std::uint64_t place = kGlobalBase + kGap;
  for (const auto& [address, allocation] : allocations_) {
    if (address - place >= needed) break;
    place = address + footprint(std::max<std::uint64_t>(allocation.size_bytes, 1));
  }
  if (!base::range_fits(place - kGlobalBase, needed, address_bytes_)) return 0;
  table_.add(place, size_bytes, label);
  allocations_.emplace(place, Allocation{size_bytes, std::move(label)});
  free_bytes_ -= needed;
  return place;
}

void GlobalMemory::release(std::uint64_t address) {
  const auto found = allocations_.find(address);
  LS_CHECK(found != allocations_.end());
  const std::uint64_t size = found->second.size_bytes;
  free_bytes_ += footprint(std::max<std::uint64_t>(size, 1));
  if (size >= kReturnBytes) {
    // Whole pages inside it; the next reader sees zeros.
    constexpr std::uint64_t kPage = 4096;
    const auto start = reinterpret_cast<std::uintptr_t>(host(address));
    const std::uintptr_t first = (start + kPage - 1) / kPage * kPage;
    const std::uintptr_t end = (start + size) / kPage * kPage;
    madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
  table_.remove(address);
  allocations_.erase(found);
}

Interval GlobalMemory::find(std::uint64_t address, std::uint64_t size_bytes) const {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return {};
  --next;
  const std::uint64_t end = next->first + next->second.size_bytes;
  if (address > end || size_bytes > end - address) return {};
  return {next->first, end};
}

}  // namespace lockstep::device::vgpu::exec
