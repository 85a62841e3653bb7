// Planner: continuous batching: which tokens of which requests run in the next launch.
//
// Deterministic and transactional: reads and changes only what is passed in; no clock, no I/O,
// nothing hidden. Running requests come first, in order of priority and arrival; then the queue is
// admitted in order. A request that needs blocks which nobody has free preempts the one of lowest
// priority and latest arrival; blocks that are reserved (a launch in flight still uses them) are
// awaited, and a step that preempted or waits admits nobody, or it would livelock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/schedule/life.h"
#include "engine/schedule/step.h"
#include "trace/scenario.h"

namespace lockstep::engine {

// Places on the device for tokens that the host does not know yet. A place is taken when a sampling
// sequence is planned and comes back when the host has accepted (or given up) its token; launches
// run in order, so a reader of the old token has run before a later launch writes.
class FutureSlots {
 public:
  std::uint32_t take();
  void put_back(std::uint32_t slot);
  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t taken() const { return capacity_ - static_cast<std::uint32_t>(free_.size()); }

 private:
  std::vector<std::uint32_t> free_;
  std::uint32_t capacity_ = 0;
};

struct Schedule {
  std::deque<Life> lives;                 // by RequestId, ended ones too; references stay valid
  std::vector<trace::RequestId> waiting;  // in queue order
  std::vector<trace::RequestId> running;  // in order of priority and arrival
  FutureSlots futures;
  std::uint32_t next_launch = 0;

  Life& life(trace::RequestId id);
  const Life& life(trace::RequestId id) const;
};

struct PlanContext {
  const trace::EngineSettings& settings;
  Schedule& schedule;
  KvCache& cache;
  const FaultHook& fault;  // may be empty
  const EventSink& sink;
  trace::Tick tick = 0;
};

// Puts a life where it belongs in `waiting` or `running`.
void enqueue(Schedule& schedule, trace::RequestId id, const trace::EngineSettings& settings);
void start_running(Schedule& schedule, trace::RequestId id, const trace::EngineSettings& settings);
// Takes it out of either list.
void unlist(Schedule& schedule, trace::RequestId id);

// Back to the queue's front; its blocks go back, its tokens stay. Launches in flight still give
// their tokens.
void preempt(PlanContext& context, trace::RequestId id);

// The next step; empty if there is nothing to do. Everything in it is planned: computed counts are
// advanced, blocks are held, flights are noted.
Step plan_step(PlanContext& context);

// Exactly these rows, in this order. False: it can't be done, and what was changed must be thrown
// away by the caller (it keeps a copy). `reason` says why.
bool plan_forced(PlanContext& context,
                 const std::vector<std::pair<trace::RequestId, std::uint32_t>>& rows, Step& step,
                 std::string& reason);

}  // namespace lockstep::engine
