// Engine: submit, cancel, step, complete. A step plans a launch and queues it on the
// executor; completions come back whenever they come: late, twice, out of order, or never.
//
// What a client may rely on: a token is emitted once, in the order of its life's launches; a
// cancelled life is planned no more, its id is free at once, and its blocks come back when no
// launch uses them any more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/deliver/router.h"
#include "engine/deliver/text_stream.h"
#include "engine/execute/launch_executor.h"
#include "engine/schedule/planner.h"
#include "trace/scenario.h"

namespace lockstep::engine {

class ServingEngine {
 public:
  // `eos`: ids that end an output. `vocabulary`: ids below it are tokens. `fault` may be empty.
  ServingEngine(const trace::EngineSettings& settings, std::vector<trace::TokenId> eos,
                std::uint32_t vocabulary, LaunchExecutor& executor, FaultHook fault,
                EventSink sink);

  // A life begins, or is refused (it has ended then, with reason `refused`, or `error` where memory
  // for it could not be had).
  trace::RequestId submit(Submission submission, trace::Tick tick);
  // False if it has ended already.
  bool cancel(trace::RequestId life, trace::Tick tick);
  // Ends a hold. False if it isn't held.
  bool admit(trace::RequestId life);
  // Back to the front of the queue. False if it isn't running.
  bool preempt(trace::RequestId life, trace::Tick tick);
  // A child with the parent's tokens less `back`, then `tokens`, sharing its blocks. Nothing, and
  // why, if it can't be done.
  std::optional<trace::RequestId> fork(trace::RequestId parent, const std::string& key,
                                       std::uint32_t back,
                                       const std::vector<trace::TokenId>& tokens, trace::Tick tick,
                                       std::string& reason);
  // Keys dropped of evictable blocks, in queue order.
  std::uint32_t evict(std::uint32_t pool, std::uint32_t count);
  void reset_prefix_cache();

  using ForcedRows = std::vector<std::pair<trace::RequestId, std::uint32_t>>;
  // Plans and queues one launch if fewer than async_depth are in flight. Its ordinal, or nothing.
  std::optional<trace::LaunchIndex> step(trace::Tick tick);
  // Exactly these rows; nothing, and why, if it can't be done (then nothing has changed).
  std::optional<trace::LaunchIndex> step_forced(const ForcedRows& rows, trace::Tick tick,
                                                std::string& reason);
  // A completion. One that doesn't count changes nothing. A launch that failed while it ran ends
  // its requests with reason `error`.
  void complete(const LaunchOutput& output, trace::Tick tick);
  // After the completions of a tick: a launch that has been in flight for watchdog_ticks makes the
  // device start again. True if it did.
  bool watch(trace::Tick tick);
  // The device is gone and comes back empty: all work in flight is recomputed, so is what was held.
  void device_lost(trace::Tick tick);

  bool idle() const;  // every life has ended and nothing is in flight
  const Schedule& schedule() const { return schedule_; }
  const KvCache& cache() const { return cache_; }
  std::uint32_t in_flight() const { return router_.in_flight(); }
  std::uint32_t launches() const { return schedule_.next_launch; }
  const Life& life(trace::RequestId id) const { return schedule_.life(id); }

 private:
  PlanContext context(trace::Tick tick);
  bool has_space(std::string& reason) const;
  void begin(Life& life, const std::string& key, const std::string& client_id,
             std::optional<trace::RequestId> parent, trace::Tick tick);
  std::string refusal(const Submission& submission, std::string& message) const;
  std::optional<trace::LaunchIndex> launch(Step step, trace::Tick tick);
  void fail_launch(const Step& step, std::string_view what, trace::Tick tick);
  LaunchRecord record(const Step& step, trace::Tick tick) const;
  void accept_ready(Life& life, trace::Tick tick);
  void accept_flight(Life& life, Flight flight, trace::Tick tick);
  void settle(Life& life, const Flight& flight, std::uint32_t rejected);
  void end(Life& life, std::string_view reason, trace::Tick tick);
  void give_up_launches(trace::Tick tick, bool memory_lost);

  trace::EngineSettings settings_;
  std::vector<trace::TokenId> eos_;
  std::uint32_t vocabulary_;
  LaunchExecutor& executor_;
  FaultHook fault_;
  EventSink outer_sink_;
  // While a forced step is tried its events wait here.
  std::optional<std::vector<trace::Event>> held_events_;
  EventSink sink_;  // to outer_sink_ or held_events_
  KvCache cache_;
  Schedule schedule_;
  Router router_;
  std::map<trace::RequestId, TextStream> streams_;
  // One for each launch that may be in flight: none is filled again before its launch has come
  // back.
  std::vector<std::unique_ptr<LaunchBuffers>> buffers_;
  std::vector<std::optional<trace::LaunchIndex>> buffer_of_;
};

}  // namespace lockstep::engine
