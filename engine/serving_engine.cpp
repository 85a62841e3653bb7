#include "engine/serving_engine.h"

#include <algorithm>

#include "base/check.h"
#include "engine/deliver/accept.h"

namespace lockstep::engine {

ServingEngine::ServingEngine(const trace::EngineSettings& settings, std::vector<trace::TokenId> eos,
                             std::uint32_t vocabulary, LaunchExecutor& executor, FaultHook fault,
                             EventSink sink)
    : settings_(settings),
      eos_(std::move(eos)),
      vocabulary_(vocabulary),
      executor_(executor),
      fault_(std::move(fault)),
      outer_sink_(std::move(sink)),
      sink_([this](trace::Event event) {
        if (held_events_) {
          held_events_->push_back(std::move(event));
        } else {
          outer_sink_(std::move(event));
        }
      }),
      cache_(settings, sink_) {
  for (std::uint32_t i = 0; i < settings_.async_depth; ++i) {
    buffers_.push_back(std::make_unique<LaunchBuffers>());
  }
  buffer_of_.resize(settings_.async_depth);
}

PlanContext ServingEngine::context(trace::Tick tick) {
  return {settings_, schedule_, cache_, fault_, sink_, tick};
}

// --- Lives ---

// Why a request is refused at arrival, or an empty text; `message` says it in a sentence.
std::string ServingEngine::refusal(const Submission& submission, std::string& message) const {
  const trace::RequestSpec& spec = submission.spec;
  const auto prompt = static_cast<std::uint32_t>(spec.prompt.size());
  const auto bad = std::ranges::find_if(spec.prompt, [this](auto id) { return id >= vocabulary_; });
  if (prompt == 0 || spec.max_tokens == 0 || bad != spec.prompt.end()) {
    message = prompt == 0            ? "the prompt is empty"
              : spec.max_tokens == 0 ? "max_tokens is 0"
                                     : "the prompt holds an id beyond the vocabulary";
    return "invalid";
  }
  if (prompt >= settings_.max_model_len) {
    message = "the prompt fills max_model_len";
    return "context_length";
  }
  if (!settings_.enable_chunked_prefill && prompt > settings_.max_num_batched_tokens) {
    message = "without chunked prefill the prompt does not fit in a step";
    return "unsupported";
  }
  if (!cache_.can_ever_hold(prompt, prompt + spec.max_tokens - 1)) {
    message = "prompt and output never fit in the pools";
    return "kv_capacity";
  }
  std::uint32_t waiting = 0;
  for (const auto* list : {&schedule_.waiting, &schedule_.running}) {
    for (const trace::RequestId id : *list) {
      const Life& other = schedule_.life(id);
      if (other.spec().id == spec.id) {
        message = "this id is live";
        return "duplicate_id";
      }
      waiting += other.phase == LifePhase::Waiting && !other.preempted ? 1 : 0;
    }
  }
  if (settings_.max_waiting > 0 && waiting >= settings_.max_waiting) {
    message = "max_waiting requests wait";
    return "queue_full";
  }
  return "";
}

void ServingEngine::begin(Life& life, const std::string& key, const std::string& client_id,
                          std::optional<trace::RequestId> parent, trace::Tick tick) {
  life.arrival = life.id.value;
  life.counts.prompt = life.prompt_count;
  sink_(trace::LifeBegan{life.id, key, client_id, tick, life.submission->identity, life.tokens,
                         life.prompt_count, life.spec().max_tokens, parent});
}

trace::RequestId ServingEngine::submit(Submission submission, trace::Tick tick) {
  const trace::RequestId id{static_cast<std::uint32_t>(schedule_.lives.size())};
  std::string message;
  std::string code = refusal(submission, message);
  Life& life = schedule_.lives.emplace_back();
  life.id = id;
  life.tokens = submission.spec.prompt;
  life.prompt_count = static_cast<std::uint32_t>(life.tokens.size());
  life.held = submission.spec.hold;
  life.submission = std::make_shared<const Submission>(std::move(submission));
  begin(life, life.spec().key, life.spec().id, std::nullopt, tick);
  const bool no_memory =
      code.empty() && fault_ && fault_(trace::FailPoint::HostAlloc, 0, std::span(&id, 1));
  if (no_memory) {
    code = "host_alloc";
    message = "no host memory for the request";
  }
  if (!code.empty()) {
    life.error_code = code;
    life.error_message = message;
    if (!no_memory) sink_(trace::RequestRefused{id, code});
    end(life, no_memory ? "error" : "refused", tick);
    return id;
  }
  cache_.open(id, life.submission->scope);
  enqueue(schedule_, id, settings_);
  return id;
}

bool ServingEngine::cancel(trace::RequestId id, trace::Tick tick) {
  Life& life = schedule_.life(id);
  if (life.phase == LifePhase::Ended) return false;
  ++life.counts.aborts;
  sink_(trace::LifeAborted{id, tick});
  end(life, "abort", tick);
  return true;
}

bool ServingEngine::admit(trace::RequestId id) {
  Life& life = schedule_.life(id);
  if (!life.held || life.phase == LifePhase::Ended) return false;
  life.held = false;
  return true;
}

bool ServingEngine::preempt(trace::RequestId id, trace::Tick tick) {
  if (schedule_.life(id).phase != LifePhase::Running) return false;
  PlanContext plan = context(tick);
  engine::preempt(plan, id);
  return true;
}

bool ServingEngine::has_space(std::string& reason) const {
  if (schedule_.running.size() < settings_.max_num_seqs) return true;
  reason = "max_num_seqs are running";
  return false;
}

std::optional<trace::RequestId> ServingEngine::fork(trace::RequestId parent_id,
                                                    const std::string& key, std::uint32_t back,
                                                    const std::vector<trace::TokenId>& tokens,
                                                    trace::Tick tick, std::string& reason) {
  const Life& parent = schedule_.life(parent_id);
  const auto refuse = [&reason](const char* why) {
    reason = why;
    return std::nullopt;
  };
  if (parent.phase != LifePhase::Running) return refuse("the parent is not running");
  if (back > parent.emitted()) return refuse("fewer tokens than `back` are out");
  if (!has_space(reason)) return std::nullopt;
  Life child;
  child.tokens.assign(parent.tokens.begin(), parent.tokens.end() - back);
  child.tokens.insert(child.tokens.end(), tokens.begin(), tokens.end());
  child.prompt_count = parent.prompt_count;
  if (child.emitted() >= parent.spec().max_tokens || child.known() >= settings_.max_model_len) {
    return refuse("nothing is left to compute");
  }
  child.computed = std::min({parent.computed, parent.known() - back, child.known() - 1});
  const bool recurrent = std::ranges::any_of(settings_.groups, [](const trace::GroupSpec& group) {
    return group.type == trace::GroupType::Mamba;
  });
  if (recurrent && child.computed != parent.computed) return refuse("no state at that position");
  if (!cache_.can_fork(parent_id, child.computed)) return refuse("blocks were given back");
  auto submission = std::make_shared<Submission>(*parent.submission);
  submission->spec.key = submission->spec.id = key;
  child.submission = std::move(submission);
  child.id = trace::RequestId{static_cast<std::uint32_t>(schedule_.lives.size())};
  child.admitted = true;
  child.counts.emitted = child.emitted();
  child.inherited_launches = parent.inherited_launches;
  for (const Flight& flight : parent.flights) child.inherited_launches.push_back(flight.launch);
  const trace::RequestId id = child.id;
  TextStream& stream = streams_[id];
  for (std::uint32_t i = child.prompt_count; i < child.known(); ++i) {
    child.text += stream.push(child.tokens[i]);
  }
  Life& life = schedule_.lives.emplace_back(std::move(child));
  begin(life, key, key, parent_id, tick);
  cache_.fork(parent_id, id, life.computed);
  start_running(schedule_, id, settings_);
  return id;
}

std::uint32_t ServingEngine::evict(std::uint32_t pool, std::uint32_t count) {
  return static_cast<std::uint32_t>(cache_.evict(pool, count).size());
}

void ServingEngine::reset_prefix_cache() { cache_.reset_prefix_cache(); }

void ServingEngine::end(Life& life, std::string_view reason, trace::Tick tick) {
  LS_CHECK(life.phase != LifePhase::Ended);
  unlist(schedule_, life.id);
  life.phase = LifePhase::Ended;
  life.finish_reason = reason;
  if (cache_.is_open(life.id)) cache_.close(life.id);
  const auto stream = streams_.find(life.id);
  if (stream != streams_.end()) {
    life.text += stream->second.finish();
    streams_.erase(stream);
  }
  sink_(trace::LifeEnded{life.id, tick, life.finish_reason, life.counts});
}

bool ServingEngine::idle() const {
  return schedule_.waiting.empty() && schedule_.running.empty() && router_.in_flight() == 0;
}

// --- Steps ---

std::optional<trace::LaunchIndex> ServingEngine::step(trace::Tick tick) {
  std::optional<trace::LaunchIndex> made;
  if (router_.in_flight() < settings_.async_depth) {
    PlanContext plan = context(tick);
    made = launch(plan_step(plan), tick);
  }
  cache_.count_pools();
  return made;
}

std::optional<trace::LaunchIndex> ServingEngine::step_forced(const ForcedRows& rows,
                                                             trace::Tick tick,
                                                             std::string& reason) {
  if (router_.in_flight() >= settings_.async_depth) {
    reason = "async_depth launches are in flight";
    return std::nullopt;
  }
  const Schedule schedule_before = schedule_;
  const KvCache cache_before = cache_;
  held_events_.emplace();
  PlanContext plan = context(tick);
  Step step;
  const bool planned = plan_forced(plan, rows, step, reason);
  std::vector<trace::Event> events = std::move(*held_events_);
  held_events_.reset();
  if (!planned) {
    schedule_ = schedule_before;
    cache_ = cache_before;
    return std::nullopt;
  }
  for (trace::Event& event : events) outer_sink_(std::move(event));
  const std::optional<trace::LaunchIndex> made = launch(std::move(step), tick);
  cache_.count_pools();
  return made;
}

// All blocks that the launch may read or write, but for what its copies read.
LaunchRecord ServingEngine::record(const Step& step, trace::Tick tick) const {
  LaunchRecord record;
  record.made = tick;
  for (const PlannedSequence& planned : step.sequences) {
    record.requests.push_back(planned.request);
    for (std::uint32_t g = 0; g < settings_.groups.size(); ++g) {
      for (const BlockId block : cache_.table(planned.request, g)) {
        if (block != trace::kNoBlock) record.uses.emplace_back(settings_.groups[g].pool, block);
      }
    }
  }
  return record;
}

// What the step's copies read: in use since they were planned.
static std::vector<std::pair<std::uint32_t, BlockId>> copy_sources(const Step& step) {
  std::vector<std::pair<std::uint32_t, BlockId>> sources;
  for (const CopyOp& copy : step.ops.copies) sources.emplace_back(copy.pool, copy.source);
  return sources;
}

std::optional<trace::LaunchIndex> ServingEngine::launch(Step step, trace::Tick tick) {
  if (step.empty()) return std::nullopt;
  LaunchRecord launched = record(step, tick);
  if (fault_) {
    for (const auto& [point, what] : {std::pair(trace::FailPoint::HostAlloc, "host_alloc"),
                                      std::pair(trace::FailPoint::DeviceAlloc, "device_alloc"),
                                      std::pair(trace::FailPoint::Launch, "launch")}) {
      if (!fault_(point, 0, launched.requests)) continue;
      fail_launch(step, what, tick);
      return std::nullopt;
    }
  }
  const auto buffer =
      std::ranges::find_if(buffer_of_, [](const auto& holder) { return !holder.has_value(); });
  LS_CHECK(buffer != buffer_of_.end());
  *buffer = step.launch;
  LaunchBuffers& buffers = *buffers_[static_cast<std::size_t>(buffer - buffer_of_.begin())];
  fill(buffers, step, schedule_, cache_, settings_);
  cache_.begin_use(launched.uses);
  const auto sources = copy_sources(step);
  launched.uses.insert(launched.uses.end(), sources.begin(), sources.end());
  sink_(trace::LaunchMade{step.launch, tick, step.padded_to, launched.requests});
  router_.made(step.launch, std::move(launched));
  executor_.enqueue(buffers, step.ops);
  return step.launch;
}

// The launch was never made: its requests end with an error; nothing of theirs was published.
void ServingEngine::fail_launch(const Step& step, std::string_view what, trace::Tick tick) {
  sink_(trace::LaunchFailed{step.launch, tick});
  --schedule_.next_launch;
  cache_.end_use(copy_sources(step));
  for (const PlannedSequence& planned : step.sequences) {
    Life& life = schedule_.life(planned.request);
    if (planned.samples) {
      schedule_.futures.put_back(planned.future_slot);
      --life.pending;
    }
    life.counts.scheduled -= planned.count;
    life.counts.proposed -= planned.drafts.size();
    life.flights.pop_back();
    life.error_code = what;
    life.error_message = "a launch failed";
    end(life, "error", tick);
  }
}

// --- Completions ---

void ServingEngine::complete(const LaunchOutput& output, trace::Tick tick) {
  const std::optional<LaunchRecord> launched = router_.complete(output.launch);
  if (!launched) return;
  for (auto& holder : buffer_of_) {
    if (holder == output.launch) holder.reset();
  }
  sink_(trace::LaunchCompleted{output.launch, tick});
  cache_.end_use(launched->uses);
  for (const SequenceOutput& sequence : output.sequences) {
    Life& life = schedule_.life(sequence.request);
    const auto flight = std::ranges::find(life.flights, output.launch, &Flight::launch);
    if (flight == life.flights.end()) continue;
    flight->delivered = true;
    flight->output = sequence;
    flight->error = output.error;
    accept_ready(life, tick);
  }
}

// Tokens are accepted in the order of the life's launches.
void ServingEngine::accept_ready(Life& life, trace::Tick tick) {
  while (!life.flights.empty() && life.flights.front().delivered) {
    Flight flight = std::move(life.flights.front());
    life.flights.pop_front();
    if (flight.samples) {
      schedule_.futures.put_back(flight.future_slot);
      --life.pending;
    }
    if (life.phase != LifePhase::Ended) accept_flight(life, std::move(flight), tick);
  }
}

void ServingEngine::accept_flight(Life& life, Flight flight, trace::Tick tick) {
  if (!flight.error.empty()) {  // its cells may be half written: the life ends, and they go with it
    life.error_code = "device_alloc";
    life.error_message = flight.error;
    end(life, "error", tick);
    return;
  }
  SequenceOutput& output = flight.output;
  // Teacher forcing: what goes on is given; the model's own choice stays in `sampled`.
  const std::vector<trace::TokenId>& forced = life.spec().forced;
  if (!output.tokens.empty() && life.emitted() < forced.size()) {
    output.tokens = {forced[life.emitted()]};
  }
  const std::uint32_t rejected = flight.draft_count - output.accepted;
  const Acceptance accepted = accept(life.spec(), eos_, settings_.max_model_len, life.emitted(),
                                     life.known(), output.tokens);
  const std::uint32_t drafts_out = std::min(output.accepted, accepted.emitted);
  std::vector<trace::TokenId> tokens(output.tokens.begin(),
                                     output.tokens.begin() + accepted.emitted);
  life.tokens.insert(life.tokens.end(), tokens.begin(), tokens.end());
  life.counts.emitted += accepted.emitted;
  life.counts.accepted += drafts_out;
  TextStream& stream = streams_[life.id];
  for (const trace::TokenId token : tokens) life.text += stream.push(token);
  const auto first_of = [&accepted](const auto& list) {
    return std::min<std::size_t>(list.size(), accepted.emitted);
  };
  life.logprobs.insert(
      life.logprobs.end(), output.logprobs.begin(),
      output.logprobs.begin() + static_cast<std::ptrdiff_t>(first_of(output.logprobs)));
  life.draws.insert(life.draws.end(), output.draws.begin(),
                    output.draws.begin() + static_cast<std::ptrdiff_t>(first_of(output.draws)));
  if (flight.samples) {
    sink_(trace::TokensAccepted{life.id, flight.launch, tick, std::move(tokens), flight.draft_count,
                                drafts_out});
  }
  settle(life, flight, rejected);
  if (accepted.ends) {
    life.stop_token = accepted.stop_token;
    end(life, accepted.reason, tick);
  }
}

// What the flight wrote is now certain: rejected drafts are taken back, full blocks are published,
// blocks out of the window go back.
void ServingEngine::settle(Life& life, const Flight& flight, std::uint32_t rejected) {
  if (flight.epoch != life.epoch) return;  // preempted since: those blocks are no longer its own
  life.computed -= rejected;
  const std::uint32_t launch_end = flight.first + flight.count;
  const std::uint32_t certain = std::min(launch_end - rejected, life.known());
  // A fork's first cells may be its parent's, of launches that are still in flight: nothing of its
  // own is published before those have come back.
  std::erase_if(life.inherited_launches,
                [this](trace::LaunchIndex launch) { return !router_.is_in_flight(launch); });
  if (life.inherited_launches.empty()) {
    cache_.commit(life.id, std::span(life.tokens).first(certain), launch_end);
  }
  cache_.trim(life.id, launch_end - rejected);
}

// --- Launches that never come back ---

void ServingEngine::give_up_launches(trace::Tick tick, bool memory_lost) {
  sink_(trace::DeviceReset{tick, memory_lost});
  executor_.reset(memory_lost);
  const auto waits_for_parent = [this](trace::LaunchIndex launch) {
    return router_.is_in_flight(launch);
  };
  std::vector<trace::RequestId> orphans;  // forks of cells that may never be written
  for (const Life& life : schedule_.lives) {
    if (std::ranges::any_of(life.inherited_launches, waits_for_parent)) orphans.push_back(life.id);
  }
  for (const auto& [launch, record] : router_.give_up()) cache_.end_use(record.uses);
  for (auto& holder : buffer_of_) holder.reset();
  if (memory_lost) cache_.reset_prefix_cache();
  PlanContext plan = context(tick);
  for (Life& life : schedule_.lives) {
    const bool had_flights = !life.flights.empty();
    for (const Flight& flight : life.flights) {
      if (flight.samples) schedule_.futures.put_back(flight.future_slot);
    }
    life.flights.clear();
    life.pending = 0;
    const bool orphan = std::ranges::find(orphans, life.id) != orphans.end();
    if (life.phase == LifePhase::Running && (had_flights || orphan || memory_lost)) {
      engine::preempt(plan, life.id);
    }
  }
}

bool ServingEngine::watch(trace::Tick tick) {
  const std::optional<trace::Tick> oldest = router_.oldest();
  if (!oldest || tick - *oldest < settings_.watchdog_ticks) return false;
  give_up_launches(tick, false);
  return true;
}

void ServingEngine::device_lost(trace::Tick tick) { give_up_launches(tick, true); }

}  // namespace lockstep::engine
