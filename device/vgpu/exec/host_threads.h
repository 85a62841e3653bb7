// Threads that stay alive between launches: waking one is cheaper than making one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::device::vgpu::exec {

class HostThreads {
 public:
  // `count` includes the thread that calls run().
  explicit HostThreads(std::uint32_t count) : count_(count) {}
  ~HostThreads();
  HostThreads(const HostThreads&) = delete;
  HostThreads& operator=(const HostThreads&) = delete;

  std::uint32_t count() const { return count_; }
  // work(0) on the calling thread, work(1) ... work(parts - 1) on others, at the same time; returns
  // when all have returned. parts <= count(). Threads are made when they are first needed. An
  // exception of work(0) leaves after the others have finished; one of another part is rethrown.
  void run(std::uint32_t parts, const std::function<void(std::size_t)>& work);

 private:
  void serve(std::uint32_t index);

  std::uint32_t count_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::uint64_t round_ = 0;
  std::uint32_t parts_ = 0, left_ = 0;
  std::exception_ptr failure_;
  bool in_subject_ = false, stop_ = false;
};

}  // namespace lockstep::device::vgpu::exec
