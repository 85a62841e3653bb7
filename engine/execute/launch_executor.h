// LaunchExecutor: runs planned launches, and the fills and copies that come before them, in order,
// on one stream. It reads a launch's buffers when the launch runs.
#pragma once

#include <vector>

#include "base/error.h"
#include "engine/execute/launch_buffers.h"
#include "engine/schedule/step.h"

namespace lockstep::engine {

class LaunchExecutor {
 public:
  virtual ~LaunchExecutor() = default;
  // Queues the work. `buffers` must stay as they are until the launch has run.
  virtual void enqueue(const LaunchBuffers& buffers, const CacheOps& ops) = 0;
  // Runs all that is queued; what each launch gave, in order. A launch that the device's memory
  // does not hold gives LaunchOutput::error, and those behind it run; an Error is of all.
  virtual base::Result<std::vector<LaunchOutput>> run(trace::Tick tick) = 0;
  // The device starts again: what is queued is dropped and, with `memory_lost`, every cell too.
  virtual void reset(bool memory_lost) = 0;
};

}  // namespace lockstep::engine
