#include "device/vgpu/exec/host_threads.h"

#include <optional>

#include "base/check.h"

namespace lockstep::device::vgpu::exec {

HostThreads::~HostThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void HostThreads::serve(std::uint32_t index) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || (round_ != seen && index < parts_); });
    if (stop_) return;
    seen = round_;
    const auto& work = *work_;
    const bool in_subject = in_subject_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      // A failed check in here ends the subject or the program, as it does on the caller's thread.
      std::optional<base::SubjectScope> scope;
      if (in_subject) scope.emplace();
      work(index);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    if (--left_ == 0) done_.notify_one();
  }
}

void HostThreads::run(std::uint32_t parts, const std::function<void(std::size_t)>& work) {
  LS_CHECK(parts >= 1 && parts <= count_);
  if (parts == 1) return work(0);
  {
    const std::lock_guard lock(mutex_);
    while (threads_.size() + 1 < parts) {
      const auto index = static_cast<std::uint32_t>(threads_.size() + 1);
      threads_.emplace_back([this, index] { serve(index); });
    }
    work_ = &work;
    in_subject_ = base::in_subject_scope();
    parts_ = parts;
    left_ = parts - 1;
    failure_ = nullptr;
    ++round_;
  }
  start_.notify_all();
  std::exception_ptr failure;
  try {
    work(0);
  } catch (...) {
    failure = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return left_ == 0; });
  parts_ = 0;
  if (!failure) failure = failure_;
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep::device::vgpu::exec
