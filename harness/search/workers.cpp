#include "harness/search/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <vector>

#include "base/check.h"

namespace lockstep::harness {
namespace {

// What a child is at, seen by the parent while the child lives and after.
struct Progress {
  std::atomic<std::uint64_t> case_number{0};
  std::atomic<std::uint64_t> begun{0};  // cases so far: whether it moves
};

bool write_all(int file, const void* data, std::size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}
bool read_all(int file, void* data, std::size_t size) {
  char* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = read(file, bytes, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

struct Child {
  pid_t process = -1;
  int to = -1, from = -1;
  std::optional<std::uint64_t> job;
  std::uint64_t seen_begun = 0;
  std::chrono::steady_clock::time_point seen_at;
};

class Pool {
 public:
  explicit Pool(const WorkerJobs& jobs) : jobs_(jobs), children_(jobs.count) {
    memory_ = mmap(nullptr, sizeof(Progress) * children_.size(), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    LS_CHECK(memory_ != MAP_FAILED);
    for (std::size_t i = 0; i < children_.size(); ++i) new (&progress(i)) Progress;
    // A child that is gone is seen as a failed write, not as a signal.
    former_pipe_handler_ = signal(SIGPIPE, SIG_IGN);
    std::fflush(nullptr);
    for (std::size_t i = 0; i < children_.size(); ++i) start(i);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (Child& child : children_) close_child(child);
    signal(SIGPIPE, former_pipe_handler_);
    munmap(memory_, sizeof(Progress) * children_.size());
  }

  std::optional<Crash> run() {
    for (std::size_t i = 0; i < children_.size(); ++i) hand_out(i);
    while (busy()) {
      if (jobs_.tick && !jobs_.tick()) more_ = false;
      wait_once();
    }
    return crash_;
  }

 private:
  Progress& progress(std::size_t index) { return static_cast<Progress*>(memory_)[index]; }
  bool busy() const {
    for (const Child& child : children_) {
      if (child.job) return true;
    }
    return false;
  }

  void start(std::size_t index) {
    int to[2], from[2];
    LS_CHECK(pipe(to) == 0 && pipe(from) == 0);
    const pid_t process = fork();
    LS_CHECK(process >= 0);
    if (process == 0) {
      for (const Child& other : children_) {
        if (other.to >= 0) close(other.to);
        if (other.from >= 0) close(other.from);
      }
      close(to[1]);
      close(from[0]);
      serve(index, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    children_[index].process = process;
    children_[index].to = to[1];
    children_[index].from = from[0];
  }

  // The child's life. An interrupt is the parent's business: what was begun is finished.
  [[noreturn]] void serve(std::size_t index, int jobs, int results) {
    signal(SIGINT, SIG_IGN);
    const auto begin = [&](std::uint64_t number) {
      progress(index).case_number = number;
      ++progress(index).begun;
    };
    for (std::uint64_t job = 0; read_all(jobs, &job, sizeof job);) {
      const std::string text = work(job, begin);
      const std::uint64_t size = text.size();
      if (!write_all(results, &size, sizeof size) ||
          !write_all(results, text.data(), text.size())) {
        break;
      }
    }
    _exit(0);
  }

  std::string work(std::uint64_t job, const std::function<void(std::uint64_t)>& begin) const {
    try {
      return jobs_.work(job, begin);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "lockstep: bug: %s\n", error.what());
      _exit(3);
    }
  }

  void hand_out(std::size_t index) {
    Child& child = children_[index];
    child.job.reset();
    if (!more_ || crash_) return;
    const std::optional<std::uint64_t> job = jobs_.next();
    if (!job) {
      more_ = false;
      return;
    }
    child.job = job;
    child.seen_at = std::chrono::steady_clock::now();
    write_all(child.to, &*job, sizeof *job);  // a dead child shows when its result is read
  }

  void wait_once() {
    std::vector<pollfd> files;
    for (const Child& child : children_) files.push_back({child.job ? child.from : -1, POLLIN, 0});
    poll(files.data(), files.size(), 200);
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (!children_[i].job) continue;
      if (files[i].revents != 0) {
        receive(i);
      } else {
        check_time(i);
      }
    }
  }

  void receive(std::size_t index) {
    Child& child = children_[index];
    std::uint64_t size = 0;
    std::string text;
    bool whole = read_all(child.from, &size, sizeof size);
    if (whole) {
      text.resize(size);
      whole = read_all(child.from, text.data(), size);
    }
    if (!whole) {
      int status = 0;
      waitpid(child.process, &status, 0);
      child.process = -1;
      note_crash(index, WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                            : fmt::format("exit status {}", WEXITSTATUS(status)));
      return;
    }
    const std::uint64_t job = *child.job;
    child.job.reset();
    if (!jobs_.done(job, std::move(text))) more_ = false;
    hand_out(index);
  }

  void note_crash(std::size_t index, std::string how) {
    if (!crash_) crash_ = Crash{progress(index).case_number, std::move(how)};
    children_[index].job.reset();
  }

  void check_time(std::size_t index) {
    Child& child = children_[index];
    const auto now = std::chrono::steady_clock::now();
    if (const std::uint64_t begun = progress(index).begun; begun != child.seen_begun) {
      child.seen_begun = begun;
      child.seen_at = now;
      return;
    }
    if (now - child.seen_at < std::chrono::seconds(jobs_.case_seconds_max)) return;
    kill(child.process, SIGKILL);
    waitpid(child.process, nullptr, 0);
    child.process = -1;
    note_crash(index, fmt::format("no end in {} s", jobs_.case_seconds_max));
  }

  static void close_child(Child& child) {
    if (child.to >= 0) close(child.to);
    if (child.from >= 0) close(child.from);
    if (child.process > 0) waitpid(child.process, nullptr, 0);
  }

  const WorkerJobs& jobs_;
  std::vector<Child> children_;
  void* memory_ = nullptr;
  void (*former_pipe_handler_)(int) = nullptr;
  bool more_ = true;
  std::optional<Crash> crash_;
};

}  // namespace

std::optional<Crash> run_jobs(const WorkerJobs& jobs) { return Pool(jobs).run(); }

std::optional<std::string> run_apart(const std::function<std::string()>& work, Crash* crash) {
  std::optional<std::string> result;
  bool given = false;
  WorkerJobs jobs;
  jobs.next = [&]() -> std::optional<std::uint64_t> {
    if (given) return std::nullopt;
    given = true;
    return 0;
  };
  jobs.work = [&](std::uint64_t, const std::function<void(std::uint64_t)>&) { return work(); };
  jobs.done = [&](std::uint64_t, std::string text) {
    result = std::move(text);
    return true;
  };
  jobs.case_seconds_max = 600;
  const std::optional<Crash> failed = run_jobs(jobs);
  if (failed && crash != nullptr) *crash = *failed;
  return result;
}

}  // namespace lockstep::harness
