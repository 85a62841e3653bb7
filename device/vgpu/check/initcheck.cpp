// Memory that is there only where it is touched; initcheck.h.
#include "device/vgpu/check/initcheck.h"

#include <sys/mman.h>

#include "base/check.h"

namespace lockstep::device::vgpu::check {

LazyMemory::LazyMemory(u64 size_bytes) : size_bytes_(size_bytes) {
  data_ = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LS_CHECK(data_ != MAP_FAILED, "no address space for a checker's map");
}

LazyMemory::~LazyMemory() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

}  // namespace lockstep::device::vgpu::check
