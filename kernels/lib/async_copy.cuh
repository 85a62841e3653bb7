// cp.async: 16-byte copies from global to shared memory that run beside the arithmetic. Device
// only.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Copies 16 bytes past the L1 cache; with `valid` false writes zeros and reads nothing (`from` may
// then be any address). Both addresses are 16-byte aligned.
__device__ __forceinline__ void copy_async_16(std::uint32_t to_shared, const void* from,
                                              bool valid) {
  const std::uint32_t bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_shared),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
// Closes the group of the copies since the last one.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kPending of this thread's groups are under way; others' copies need a barrier
// after it.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace lockstep::kernels
