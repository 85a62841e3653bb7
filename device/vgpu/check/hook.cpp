// The checkers of a launch and of a block; hook.h.
#include "device/vgpu/check/hook.h"

#include "base/check.h"

namespace lockstep::device::vgpu::check {

LaunchChecks::LaunchChecks(Levels levels, u64 first, u64 size_bytes,
                           const AllocationTable* allocations)
    : levels_(levels),
      allocations_(allocations),
      global_init_(first, size_bytes),
      races_(first, size_bytes) {}

void LaunchChecks::host_wrote(u64 address, u64 size_bytes) {
  if (size_bytes != 0) global_init_.mark(address, size_bytes);
}

void LaunchChecks::allocated(u64 address, u64 size_bytes) {
  if (size_bytes != 0) global_init_.forget(address, size_bytes);
}

void BlockChecks::begin_block(u64 order, u32 block, u32 warp_count, u64 shared_bytes,
                              u64 local_bytes) {
  order_ = order;
  block_ = block;
  local_bytes_ = local_bytes;
  races_.begin_block(block, warp_count, shared_bytes);
  shared_init_.reset(shared_bytes);
  if (local_bytes == 0) return;
  local_init_.resize(warp_count);
  for (BlockInit& warp : local_init_) warp.reset(local_bytes);
}

void BlockChecks::end_block(bool failed) {
  launch_->races().finish_block(order_, races_.end_block(), failed);
}

void BlockChecks::arrive_at_barrier(const BarrierArrival& arrival) {
  if (launch_->levels().sync) check_arrival(races_.findings(), block_, arrival);
  races_.arrive_at_barrier(arrival.warp);
}

std::string BlockChecks::where(Space space, const Access& access, u32 lane) const {
  const u64 address = access.address(lane);
  switch (space) {
    case Space::Global:
      return "global memory at " + hexadecimal(address) + " (" +
             launch_->allocations().describe(address, access.size) + ")";
    case Space::Shared:
      return "shared memory at offset " + std::to_string(address);
    case Space::Local:
      return "local memory at offset " + std::to_string(address % (local_bytes_ / kLanes));
  }
  LS_CHECK(false, "a space outside its enumerators");
}

void BlockChecks::report_unwritten(Space space, const Access& access, u32 lanes) {
  races_.findings().add("initcheck", "uninitialized_read", access.instruction, kNoInstruction,
                        static_cast<u64>(__builtin_popcount(lanes)), [&] {
                          const u32 lane = static_cast<u32>(__builtin_ctz(lanes));
                          return "thread " + std::to_string(access.warp * kLanes + lane) +
                                 " of block " + std::to_string(block_) + " reads " +
                                 std::to_string(access.size) + " bytes of " +
                                 where(space, access, lane) + " that nothing has written";
                        });
}

void BlockChecks::begin_copy(u32 warp, u32 lane, u32 offset, u32 size_bytes, u32 instruction) {
  if (launch_->levels().race) races_.begin_copy(warp, lane, offset, size_bytes, instruction);
  if (launch_->levels().init) clear_bits(shared_init_.bits(), offset, size_bytes);
}

void BlockChecks::finish_copy(u32 warp, u32 lane, u32 offset, u32 size_bytes, u32 instruction) {
  if (launch_->levels().race) races_.finish_copy(warp, lane, offset, size_bytes, instruction);
  if (launch_->levels().init) set_bits(shared_init_.bits(), offset, size_bytes);
}

void BlockChecks::matrix_rows(const u32* offsets, u32 count, bool is_store, u32 warp,
                              u32 instruction) {
  for (u32 row = 0; row < count; ++row) {
    const Access access{.kind = is_store ? AccessKind::Store : AccessKind::Load,
                        .pattern = Pattern::Uniform,
                        .size = 16,
                        .mask = 1u << row,
                        .warp = warp,
                        .instruction = instruction,
                        .start = offsets[row]};
    if (launch_->levels().race && races_.touches_copy(access)) continue;
    if (launch_->levels().init) {
      if (is_store) {
        set_bits(shared_init_.bits(), offsets[row], 16);
      } else if (!all_set(shared_init_.bits(), offsets[row], 16)) {
        report_unwritten(Space::Shared, access, access.mask);
      }
    }
    if (launch_->levels().race) races_.shared_row(access, offsets[row]);
  }
}

}  // namespace lockstep::device::vgpu::check
