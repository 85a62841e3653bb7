// Scheduler: first come, first served. It reads and changes only the state passed in: no clock, no
// I/O, nothing hidden.
//
// A request is admitted when the pool can hold its longest possible sequence beside those already
// promised, so a running request never fails to grow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "engine/cache/kv_pages.h"
#include "engine/schedule/step_plan.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::engine {

using EventSink = std::function<void(trace::Event)>;

struct RequestState {
  trace::RequestId id;
  trace::RequestSpec spec;
  std::vector<trace::TokenId> tokens;  // prompt, then what was fed
  std::uint32_t computed = 0;          // tokens whose cells are written (or planned to be)
  std::uint32_t emitted = 0;

  // Tokens whose cells it may need: the last emitted one is never fed.
  std::uint64_t longest() const { return spec.prompt.size() + spec.max_tokens - 1; }
};

struct SchedulerState {
  std::deque<RequestState> waiting;
  std::vector<RequestState> running;  // in order of admission
  std::uint32_t promised_pages = 0;   // of running requests, at their longest
  std::uint32_t next_launch = 0;
};

// Why a request can never run, or an empty text.
std::string refusal(const trace::RequestSpec& spec, const trace::EngineSettings& settings,
                    const KvPages& pages, std::uint32_t context_length);

// Admits what fits, takes pages and returns the rows of the next step.
StepPlan plan_step(SchedulerState& state, KvPages& pages, const trace::EngineSettings& settings,
                   const EventSink& sink);

// Ends a request: its pages and its promise come back.
void retire(SchedulerState& state, KvPages& pages, trace::RequestId request,
            const std::string& reason, const EventSink& sink);

}  // namespace lockstep::engine
