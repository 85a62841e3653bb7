#include "device/vgpu/exec/worker.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/prng.h"

namespace lockstep::device::vgpu::exec {

using ptx::SpecialRegister;

namespace {

// Instructions that a warp runs before the next one has its turn (a loop may wait for another
// warp).
constexpr std::int64_t kSlice = 1 << 16;
// Warp instructions of a block after which it counts as hung.
constexpr std::uint64_t kBlockBudget = std::uint64_t{1} << 33;

template <class T>
void broadcast(std::byte* registers, T value) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    std::memcpy(registers + lane * sizeof(T), &value, sizeof(T));
  }
}
// All lanes of a register of `size_bytes` each; 0: a predicate.
void fill(std::byte* registers, std::uint32_t size_bytes, std::uint64_t bits) {
  switch (size_bytes) {
    case 2:
      broadcast(registers, static_cast<std::uint16_t>(bits));
      break;
    case 4:
      broadcast(registers, static_cast<std::uint32_t>(bits));
      break;
    case 8:
      broadcast(registers, bits);
      break;
    default: {
      const std::uint32_t mask = bits != 0 ? kAllLanes : 0;
      std::memcpy(registers, &mask, sizeof(mask));
    }
  }
}

std::uint32_t block_coordinate(SpecialRegister special, const Index3& index) {
  if (special == SpecialRegister::CtaidX || special == SpecialRegister::ClusterIdX) return index.x;
  if (special == SpecialRegister::CtaidY || special == SpecialRegister::ClusterIdY) return index.y;
  return index.z;
}

}  // namespace

std::byte* AlignedBytes::require(std::size_t size_bytes) {
  constexpr std::size_t kAlignment = 64;
  if (size_bytes + kAlignment > size_bytes_) {
    size_bytes_ = size_bytes + kAlignment;
    bytes_ = std::make_unique<std::byte[]>(size_bytes_);
  }
  const auto start = reinterpret_cast<std::uintptr_t>(bytes_.get());
  return bytes_.get() + (kAlignment - start % kAlignment) % kAlignment;
}

// Registers that are the same for all blocks of the launch.
void Worker::prepare_arena(const LaunchContext& context, WarpArena& arena) {
  const Program& program = context.program;
  const LaunchOptions& options = context.options;
  const auto same = [](const Dim3& a, const Dim3& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
  };
  const bool is_new = arena.warp_count != warp_count_;
  if (is_new) {
    // An odd number of cache lines: warps do not all fall into the same sets.
    arena.stride = program.warp_bytes;
    if (arena.stride / 64 % 2 == 0) arena.stride += 64;
    arena.warps = arena.bytes.require(arena.stride * warp_count_);
    arena.warp_count = warp_count_;
    for (std::uint32_t index = 0; index < warp_count_; ++index) {
      Warp& warp = *new (arena.warps + arena.stride * index) Warp;
      for (const Constant& constant : program.constants) {
        fill(at(warp, constant.offset), constant.size_bytes, constant.bits);
      }
    }
  }
  const bool other_shape = is_new || !same(arena.block, options.block) ||
                           !same(arena.grid, options.grid) ||
                           arena.dynamic_shared_bytes != options.dynamic_shared_bytes;
  const bool other_parameters =
      is_new || !std::equal(arena.parameters.begin(), arena.parameters.end(),
                            context.parameters.begin(), context.parameters.end());
  block_.warps.clear();
  for (std::uint32_t index = 0; index < warp_count_; ++index) {
    Warp& warp = *reinterpret_cast<Warp*>(arena.warps + arena.stride * index);
    block_.warps.push_back(&warp);
    warp.index = index;
    if (other_shape) {
      for (const SpecialUse& use : program.specials) fill_special(context, warp, use);
    }
    if (!other_parameters) continue;
    for (const ParameterUse& use : program.parameters) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, context.parameters.data() + use.place, use.size_bytes);
      fill(at(warp, use.offset), use.size_bytes, bits);
    }
  }
  arena.block = options.block;
  arena.grid = options.grid;
  arena.dynamic_shared_bytes = options.dynamic_shared_bytes;
  arena.parameters.assign(context.parameters.begin(), context.parameters.end());
}

void Worker::prepare_warp(const LaunchContext& context, Warp& warp) {
  warp.global_bias = context.memory.bias();
  warp.global_size = context.memory.address_bytes();
  warp.shared = shared_;
  warp.shared_size = shared_bytes_;
  warp.local = local_ + local_stride_ * kLanes * warp.index;
  warp.local_size = context.program.local_bytes;
  warp.local_stride = local_stride_;
  warp.param = param_;
  warp.param_size = context.parameters.size();
  warp.block = &block_;
  warp.intervals = intervals_.data();
  warp.copies = &queues_[warp.index];
  warp.atomics_shared = context.atomics_shared;
  warp.checks = checks_.get();
}

void Worker::prepare(const LaunchContext& context) {
  const Program& program = context.program;
  thread_count_ = static_cast<std::uint32_t>(context.options.block.count());
  warp_count_ = (thread_count_ + kLanes - 1) / kLanes;
  shared_bytes_ = program.static_shared_bytes + context.options.dynamic_shared_bytes;
  shared_ = shared_arena_.require(shared_bytes_ + 2 * kPaddingBytes) + kPaddingBytes;
  local_stride_ = program.local_bytes;
  local_ = local_arena_.require(local_stride_ * kLanes * warp_count_ + 2 * kPaddingBytes) +
           kPaddingBytes;
  // A copy with room around it: wide loads through generic addresses read beyond what they need.
  param_ = param_arena_.require(context.parameters.size() + 2 * kPaddingBytes) + kPaddingBytes;
  std::copy(context.parameters.begin(), context.parameters.end(), param_);
  // Without memcheck all of global memory is one allocation.
  intervals_.assign(program.interval_slots,
                    context.options.memcheck
                        ? Interval{}
                        : Interval{kGlobalBase, kGlobalBase + context.memory.address_bytes()});
  if (checks_of_ != context.checks) {
    checks_ =
        context.checks == nullptr ? nullptr : std::make_unique<check::BlockChecks>(context.checks);
    checks_of_ = context.checks;
  }
  queues_.resize(warp_count_);
  auto& arena = arenas_[&program];
  if (arena == nullptr) arena = std::make_unique<WarpArena>();
  prepare_arena(context, *arena);
  for (Warp* warp : block_.warps) prepare_warp(context, *warp);
  block_.program = &program;
  block_.memory = &context.memory;
}

void Worker::fill_special(const LaunchContext& context, Warp& warp, const SpecialUse& use) const {
  const Dim3 block = context.options.block, grid = context.options.grid;
  auto* words = reinterpret_cast<std::uint32_t*>(at(warp, use.offset));
  const std::uint32_t dynamic = context.options.dynamic_shared_bytes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t thread = warp.index * kLanes + lane;
    const std::uint32_t bit = 1u << lane;
    std::uint32_t value = 0;
    switch (use.special) {
      case SpecialRegister::TidX:
        value = thread % block.x;
        break;
      case SpecialRegister::TidY:
        value = thread / block.x % block.y;
        break;
      case SpecialRegister::TidZ:
        value = thread / (block.x * block.y);
        break;
      case SpecialRegister::NtidX:
        value = block.x;
        break;
      case SpecialRegister::NtidY:
        value = block.y;
        break;
      case SpecialRegister::NtidZ:
        value = block.z;
        break;
      case SpecialRegister::CtaidX:
      case SpecialRegister::ClusterIdX:
        value = block_.index.x;
        break;
      case SpecialRegister::CtaidY:
      case SpecialRegister::ClusterIdY:
        value = block_.index.y;
        break;
      case SpecialRegister::CtaidZ:
      case SpecialRegister::ClusterIdZ:
        value = block_.index.z;
        break;
      case SpecialRegister::NctaidX:
      case SpecialRegister::NclusterIdX:
        value = grid.x;
        break;
      case SpecialRegister::NctaidY:
      case SpecialRegister::NclusterIdY:
        value = grid.y;
        break;
      case SpecialRegister::NctaidZ:
      case SpecialRegister::NclusterIdZ:
        value = grid.z;
        break;
      case SpecialRegister::LaneId:
        value = lane;
        break;
      case SpecialRegister::WarpId:
        value = warp.index;
        break;
      case SpecialRegister::NwarpId:
        value = warp_count_;
        break;
      case SpecialRegister::SmId:
        value = 0;
        break;
      case SpecialRegister::NsmId:
        value = context.options.multiprocessor_count;
        break;
      case SpecialRegister::LanemaskEq:
        value = bit;
        break;
      case SpecialRegister::LanemaskLt:
        value = bit - 1;
        break;
      case SpecialRegister::LanemaskLe:
        value = bit | (bit - 1);
        break;
      case SpecialRegister::LanemaskGt:
        value = ~(bit | (bit - 1));
        break;
      case SpecialRegister::LanemaskGe:
        value = ~(bit - 1);
        break;
      case SpecialRegister::DynamicSmemSize:
        value = dynamic;
        break;
      case SpecialRegister::TotalSmemSize:
        value = shared_bytes_;
        break;
      // A block is its own cluster of one.
      case SpecialRegister::ClusterNctaidX:
      case SpecialRegister::ClusterNctaidY:
      case SpecialRegister::ClusterNctaidZ:
      case SpecialRegister::ClusterNctarank:
        value = 1;
        break;
      case SpecialRegister::ClusterCtaidX:
      case SpecialRegister::ClusterCtaidY:
      case SpecialRegister::ClusterCtaidZ:
      case SpecialRegister::ClusterCtarank:
      case SpecialRegister::IsExplicitCluster:
      // Lower reads clocks by an instruction.
      case SpecialRegister::Clock:
      case SpecialRegister::Clock64:
      case SpecialRegister::ClockHi:
      case SpecialRegister::GlobalTimer:
      case SpecialRegister::GlobalTimerLo:
      case SpecialRegister::GlobalTimerHi:
      case SpecialRegister::GridId:
      case SpecialRegister::EnvReg:
        value = 0;
        break;
    }
    words[lane] = value;
  }
}

void Worker::start_warp(const LaunchContext& context, Warp& warp) {
  const Program& program = context.program;
  for (const Region& region : program.cleared) {
    std::memset(at(warp, region.offset), 0, region.size_bytes);
  }
  for (const SpecialUse& use : program.specials) {
    const bool of_block =
        use.special == SpecialRegister::CtaidX || use.special == SpecialRegister::CtaidY ||
        use.special == SpecialRegister::CtaidZ || use.special == SpecialRegister::ClusterIdX ||
        use.special == SpecialRegister::ClusterIdY || use.special == SpecialRegister::ClusterIdZ;
    if (of_block) fill(at(warp, use.offset), 4, block_coordinate(use.special, block_.index));
  }
  const std::uint32_t left = thread_count_ - warp.index * kLanes;
  warp.live = left >= kLanes ? kAllLanes : (1u << left) - 1;
  warp.stop = Stop::Runnable;
  warp.executed = 0;
  warp.divergent_transfers = 0;
  warp.carry = 0;
  warp.splits[0] = {program.code.data(), warp.live, 0, Wait::None};
  warp.split_count = 1;
  queues_[warp.index].copies.clear();
  queues_[warp.index].committed = {};
}

void Worker::start_block(const LaunchContext& context, std::uint64_t linear) {
  const Dim3 grid = context.options.grid;
  block_.index = {static_cast<std::uint32_t>(linear % grid.x),
                  static_cast<std::uint32_t>(linear / grid.x % grid.y),
                  static_cast<std::uint32_t>(linear / grid.x / grid.y)};
  block_.barriers = {};
  block_.fault.reset();
  // What shared and local memory hold at first is undefined; zero is the same in every run.
  std::memset(shared_, 0, shared_bytes_);
  std::memset(local_, 0, local_stride_ * kLanes * warp_count_);
  for (Warp* warp : block_.warps) start_warp(context, *warp);
  order_.resize(warp_count_);
  std::iota(order_.begin(), order_.end(), 0);
  if (context.options.schedule_seed != 0) {
    base::Prng prng(context.options.schedule_seed ^ (linear * 0x9e3779b97f4a7c15u));
    for (std::size_t k = order_.size(); k > 1; --k) {
      std::swap(order_[k - 1], order_[prng.below(k)]);
    }
  }
}

void Worker::report_stuck(bool progressed) {
  Fault fault;
  fault.kind = progressed ? FaultKind::NoProgress : FaultKind::Deadlock;
  const auto stuck = std::find_if(block_.warps.begin(), block_.warps.end(),
                                  [](const Warp* w) { return w->stop != Stop::Finished; });
  fault.warp = (*stuck)->index;
  fault.lanes = (*stuck)->splits[0].mask;
  const Instr* at_pc = (*stuck)->splits[0].pc;
  fault.instruction = at_pc->index;
  if ((*stuck)->splits[0].wait == Wait::Barrier) fault.instruction = at_pc[-1].index;
  block_.fault = fault;
}

void Worker::schedule() {
  std::uint64_t executed = 0;
  for (;;) {
    bool progressed = false, finished = true;
    for (const std::uint32_t index : order_) {
      Warp& warp = *block_.warps[index];
      if (warp.stop == Stop::Runnable) {
        progressed = true;
        const std::int64_t before = warp.executed;
        warp.slice_end = before + kSlice;
        const Instr* next = select_split(warp);
        while (next != nullptr) next = next->run[warp.mode](warp, next);
        executed += static_cast<std::uint64_t>(warp.executed - before);
        if (warp.stop == Stop::Failed) return;
      }
      finished = finished && warp.stop == Stop::Finished;
    }
    if (finished) return;
    if (executed > kBlockBudget || (!progressed && !open_barriers(block_))) {
      report_stuck(progressed);
      return;
    }
  }
}

std::optional<Fault> Worker::run_block(const LaunchContext& context, std::uint64_t order,
                                       std::uint64_t linear) {
  if (checks_ != nullptr) {
    checks_->begin_block(order, static_cast<std::uint32_t>(linear), warp_count_, shared_bytes_,
                         local_stride_ * kLanes);
  }
  start_block(context, linear);
  schedule();
  if (checks_ != nullptr) checks_->end_block(block_.fault.has_value());
  for (Warp* warp : block_.warps) {
    executed_ += static_cast<std::uint64_t>(warp->executed);
    checked_lanes_ += warp->checked_lanes;
    warp->checked_lanes = 0;
  }
  return block_.fault;
}

std::uint64_t Worker::take_executed() { return std::exchange(executed_, 0); }
std::uint64_t Worker::take_checked_lanes() { return std::exchange(checked_lanes_, 0); }

}  // namespace lockstep::device::vgpu::exec
