// Engine: submit, step, cancel. One step plans, executes and accepts the tokens that came out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/cache/kv_pages.h"
#include "engine/execute/executor.h"
#include "engine/schedule/scheduler.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::engine {

class Engine {
 public:
  // `context_length`: most positions that the model has.
  Engine(const trace::EngineSettings& settings, std::uint32_t context_length,
         std::unique_ptr<Executor> executor, EventSink sink);

  // A request that could never run is refused (an event) and has no further life.
  trace::RequestId submit(const trace::RequestSpec& spec);
  // Ends the request at once; false if it has ended already.
  bool cancel(trace::RequestId request);
  // One step. False: there was nothing to do.
  base::Result<bool> step();

 private:
  void accept(const SampledToken& sampled);

  trace::EngineSettings settings_;
  std::uint32_t context_length_;
  std::unique_ptr<Executor> executor_;
  EventSink sink_;
  KvPages pages_;
  SchedulerState state_;
  std::uint32_t next_request_ = 0;
};

}  // namespace lockstep::engine
