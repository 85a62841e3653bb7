// Workers: jobs in child processes, so that a crash in one names the case and ends nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::harness {

// A child that ended by itself: a signal, a failed check, or no end in time.
struct Crash {
  std::uint64_t case_number = 0;  // the last one that the child began
  std::string how;                // "signal 11", "exit status 3", "no end in 60 s"
};

struct WorkerJobs {
  unsigned count = 1;  // child processes
  // The next job's number; nothing: no more. Asked in the parent.
  std::function<std::optional<std::uint64_t>()> next;
  // In a child. Calls `begin` before each case. The text goes to `done`.
  std::function<std::string(std::uint64_t job, const std::function<void(std::uint64_t)>& begin)>
      work;
  // In the parent, in order of completion. False: no further job is handed out.
  std::function<bool(std::uint64_t job, std::string text)> done;
  // In the parent, every 0.2 s or so. False: no further job is handed out.
  std::function<bool()> tick = {};
  unsigned case_seconds_max = 60;  // a case that takes longer never ends
};

// Runs until there are no more jobs. The first crash ends it: its job has no result, the others
// that were begun are finished.
std::optional<Crash> run_jobs(const WorkerJobs& jobs);

// One job in a child of its own; nothing: it crashed, `crash` says how.
std::optional<std::string> run_apart(const std::function<std::string()>& work,
                                     Crash* crash = nullptr);

}  // namespace lockstep::harness
