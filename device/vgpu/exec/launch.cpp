#include "device/vgpu/exec/launch.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/prng.h"
#include "device/vgpu/exec/diagnose.h"
#include "device/vgpu/exec/host_threads.h"
#include "device/vgpu/exec/worker.h"

namespace lockstep::device::vgpu::exec {

namespace {
// A launch of fewer warp instructions than this (some 50 us) is not worth waking a thread.
constexpr std::uint64_t kSmallLaunch = 10000;
}  // namespace

Launcher::Launcher(std::uint32_t host_threads) {
  if (host_threads == 0) host_threads = std::max(1u, std::thread::hardware_concurrency());
  threads_ = std::make_unique<HostThreads>(host_threads);
  for (std::uint32_t k = 0; k < host_threads; ++k) workers_.push_back(std::make_unique<Worker>());
}
Launcher::~Launcher() = default;

LaunchOutcome Launcher::launch(const Program& program, const GlobalMemory& memory,
                               const LaunchOptions& options, std::span<const std::byte> parameters,
                               check::LaunchChecks* checks) {
  const std::uint64_t blocks = options.grid.count();
  std::uint64_t worker_count = std::min<std::uint64_t>(threads_->count(), blocks);
  // As long as the last launch of this kernel with this many blocks, or as long as the code.
  const std::uint64_t warps = (options.block.count() + kLanes - 1) / kLanes * blocks;
  std::uint64_t& work_of_warp = work_of_warp_[&program];
  if (work_of_warp == 0) work_of_warp = program.code.size();
  if (program.ordered || warps * work_of_warp < kSmallLaunch) worker_count = 1;
  const LaunchContext context{program, memory, options, parameters, worker_count > 1, checks};

  if (checks != nullptr) checks->begin_launch();
  std::vector<std::uint64_t> order;
  if (options.schedule_seed != 0) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    base::Prng prng(options.schedule_seed);
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[prng.below(k)]);
  }
  // Blocks start in the order of the schedule; those after one that failed don't. The first of them
  // in that order is what the launch reports, whatever the host's threads did.
  std::atomic<std::uint64_t> next{0}, failed_at{blocks};
  std::mutex mutex;
  std::map<std::uint64_t, Fault> faults;
  const auto work = [&](std::size_t index) {
    Worker& worker = *workers_[index];
    worker.prepare(context);
    for (;;) {
      const std::uint64_t position = next.fetch_add(1);
      if (position >= failed_at.load()) return;
      const std::uint64_t linear = order.empty() ? position : order[position];
      if (const auto fault = worker.run_block(context, position, linear)) {
        const std::lock_guard lock(mutex);
        faults.emplace(position, *fault);
        failed_at.store(std::min(failed_at.load(), position));
      }
    }
  };
  threads_->run(static_cast<std::uint32_t>(worker_count), work);

  LaunchOutcome outcome;
  for (const auto& worker : workers_) {
    outcome.warp_instructions += worker->take_executed();
    outcome.checked_accesses += worker->take_checked_lanes();
  }
  work_of_warp = outcome.warp_instructions / warps + 1;
  if (checks != nullptr) {
    const check::Findings findings = checks->end_launch();
    for (const check::Finding& finding : findings.list()) {
      outcome.diagnostics.push_back(diagnose(program, finding));
    }
  }
  if (!faults.empty()) {
    const auto& [position, fault] = *faults.begin();
    const std::uint64_t linear = order.empty() ? position : order[position];
    outcome.diagnostics.push_back(diagnose(program, memory, options, linear, fault));
  }
  return outcome;
}

}  // namespace lockstep::device::vgpu::exec
