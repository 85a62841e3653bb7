#include "harness/subjects/ledger_driver.h"

#include <algorithm>

#include "base/check.h"
#include "base/prng.h"

namespace lockstep::harness {

using trace::ForcedEventType;
using trace::Trigger;

namespace {

// Events that name the launch whose completion they change.
bool changes_completion(ForcedEventType type) {
  return type == ForcedEventType::Late || type == ForcedEventType::Duplicate ||
         type == ForcedEventType::Lost;
}

bool aborts(ForcedEventType type) {
  return type == ForcedEventType::Cancel || type == ForcedEventType::Disconnect;
}

// Requests without a seed get distinct ones: for one scenario seed this is one to one.
std::uint64_t unseeded(std::uint64_t scenario_seed, std::uint64_t request) {
  return base::Prng(scenario_seed + request * 0x9e3779b97f4a7c15u).next();
}

// Equal numbers for requests whose cells may be shared: same adapter, same salt.
std::uint64_t identity(const trace::Scenario& scenario, std::size_t request) {
  const auto of = [&](std::size_t i) {
    return std::pair(scenario.requests[i].adapter, scenario.requests[i].cache_salt);
  };
  std::size_t first = 0;
  while (of(first) != of(request)) ++first;
  return first + 1;
}

}  // namespace

LedgerDriver::LedgerDriver(const trace::Scenario& scenario, bool observe, EventSink sink,
                           LedgerRun& run)
    : scenario_(scenario),
      observe_(observe),
      sink_(std::move(sink)),
      run_(run),
      faults_(scenario, [this](trace::Event event) { sink_(std::move(event)); }),
      executor_(scenario.ledger, scenario.engine,
                [this](trace::Event event) { on_event(std::move(event)); }),
      engine_(
          scenario.engine, scenario.ledger.eos_token_ids, scenario.ledger.tokenizer_size, executor_,
          [this](trace::FailPoint what, std::uint32_t pool, std::span<const trace::RequestId> who) {
            return faults_.fails(what, pool, who);
          },
          [this](trace::Event event) { on_event(std::move(event)); }) {
  for (std::uint32_t i = 0; i < scenario.requests.size(); ++i) {
    const trace::RequestSpec& spec = scenario.requests[i];
    client_index_[spec.key] = i;
    clients_.push_back({i, std::nullopt, false, 0, 0, 0});
    unborn_.push_back(i);
    run_.result.requests.emplace_back();
    run_.result.requests.back().key = spec.key;
    run_.result.requests.back().id = spec.id;
  }
  std::ranges::stable_sort(unborn_, {}, [&](std::size_t i) { return scenario.requests[i].tick; });
  run_.result.events.resize(scenario.events.size() + scenario.faults.size());
  for (std::size_t i = 0; i < run_.result.events.size(); ++i) {
    run_.result.events[i].type = name(forced(i).type);
    run_.result.events[i].reason = "its trigger never came";
    if (changes_completion(forced(i).type)) {
      launch_events_[trace::LaunchIndex{static_cast<std::uint32_t>(forced(i).launch)}].push_back(i);
    } else {
      open_events_.push_back(i);
    }
  }
}

const trace::ForcedEvent& LedgerDriver::forced(std::size_t index) const {
  const std::size_t events = scenario_.events.size();
  return index < events ? scenario_.events[index] : scenario_.faults[index - events];
}

void LedgerDriver::drive() {
  try {
    const base::SubjectScope scope;
    do {
      deliver();
      forced_events(Phase::Aborts);
      arrivals();
      forced_events(Phase::Others);
      plan();
      run_streams();
      read_clients();
      if (observe_ &&
          std::ranges::find(scenario_.observe.ticks, tick_) != scenario_.observe.ticks.end()) {
        snapshot();
      }
      ++tick_;
    } while (!finished() && tick_ < scenario_.max_ticks);
    if (observe_ &&
        (run_.result.snapshots.empty() || run_.result.snapshots.back().tick + 1 != tick_)) {
      --tick_;
      snapshot();
      ++tick_;
    }
  } catch (const base::CheckFailure& failure) {
    sink_(trace::SubjectFailed{failure.file, failure.function, failure.what()});
  }
  finish_results();
}

bool LedgerDriver::finished() const {
  if (!unborn_.empty() || !aborts_due_.empty() || !engine_.idle()) return false;
  return std::ranges::none_of(open_events_, [this](std::size_t i) {
    return forced(i).trigger.kind == Trigger::Kind::AtTick;
  });
}

// Phase 1: completions due, oldest launch first; then the watchdog.
void LedgerDriver::deliver() {
  while (!completions_.empty() && completions_.begin()->first.first <= tick_) {
    const engine::LaunchOutput output = std::move(completions_.begin()->second);
    completions_.erase(completions_.begin());
    engine_.complete(output, tick_);
  }
  engine_.watch(tick_);
}

const engine::Life* LedgerDriver::life_of(const Client& client) const {
  return client.life ? &engine_.life(*client.life) : nullptr;
}

std::optional<std::size_t> LedgerDriver::client_of(const std::string& key) const {
  const auto found = client_index_.find(key);
  if (found == client_index_.end()) return std::nullopt;
  return found->second;
}

bool LedgerDriver::due(const trace::ForcedEvent& event) const {
  const Trigger& trigger = event.trigger;
  if (trigger.kind == Trigger::Kind::AtTick) return trigger.value <= tick_;
  if (trigger.kind == Trigger::Kind::Launch || trigger.request >= clients_.size()) return false;
  const engine::Life* life = life_of(clients_[trigger.request]);
  if (life == nullptr) return false;
  return (trigger.kind == Trigger::Kind::Emitted ? life->emitted() : life->computed) >=
         trigger.value;
}

// Phase 2. What becomes due while the phase runs waits for the next tick's.
void LedgerDriver::forced_events(Phase phase) {
  if (phase == Phase::Aborts) {
    for (const auto& [when, life] : aborts_due_) {
      if (when == tick_) engine_.cancel(life, tick_);
    }
    std::erase_if(aborts_due_, [this](const auto& due) { return due.first <= tick_; });
  }
  if (open_events_.empty()) return;
  std::vector<std::size_t> happening;
  for (const std::size_t index : open_events_) {
    if (aborts(forced(index).type) == (phase == Phase::Aborts) && due(forced(index))) {
      happening.push_back(index);
    }
  }
  for (const std::size_t index : happening) happen(index);
}

void LedgerDriver::happen(std::size_t index) {
  std::erase(open_events_, index);
  trace::EventResult& result = run_.result.events[index];
  result.tick = tick_;
  result.reason = apply(forced(index), index);
  result.applied = result.reason.empty();
}

// Does what the event says. Why it can't be done, or an empty text.
std::string LedgerDriver::apply(const trace::ForcedEvent& event, std::size_t index) {
  const std::optional<std::size_t> client = client_of(event.request);
  const engine::Life* life = client ? life_of(clients_[*client]) : nullptr;
  const bool live = life != nullptr && life->phase != engine::LifePhase::Ended;
  switch (event.type) {
    case ForcedEventType::Cancel:
    case ForcedEventType::Disconnect:
      return apply_abort(event);
    case ForcedEventType::Admit:
      return live && engine_.admit(life->id) ? "" : "the request is not held";
    case ForcedEventType::Schedule:
      return apply_schedule(event, index);
    case ForcedEventType::Preempt:
      return live && engine_.preempt(life->id, tick_) ? "" : "the request is not running";
    case ForcedEventType::Fork:
      return apply_fork(event);
    case ForcedEventType::Evict:
      return engine_.evict(event.pool, event.blocks) > 0 ? "" : "no block is evictable";
    case ForcedEventType::ResetPrefixCache:
      engine_.reset_prefix_cache();
      return "";
    case ForcedEventType::Late:
    case ForcedEventType::Duplicate:
    case ForcedEventType::Lost:
      break;  // at their launch
    case ForcedEventType::Stall:
      stalled_until_ = std::max(stalled_until_, tick_ + event.ticks);
      return "";
    case ForcedEventType::Fail:
      faults_.arm(event, &run_.result.events[index]);
      return "fewer calls were made";
    case ForcedEventType::Flip:
      if (!executor_.flip(event.pool, event.block, event.offset, event.bits)) return "no such cell";
      faults_.flipped(event.pool, trace::BlockId{event.block});
      return "";
    case ForcedEventType::DeviceLost:
      engine_.device_lost(tick_);
      return "";
  }
  return "";
}

std::string LedgerDriver::apply_abort(const trace::ForcedEvent& event) {
  const std::optional<std::size_t> index = client_of(event.request);
  if (!index || !clients_[*index].life) return "the request has not arrived";
  Client& client = clients_[*index];
  const engine::Life& life = engine_.life(*client.life);
  if (client.gone) return "the client has gone already";
  if (life.phase == engine::LifePhase::Ended) return "the request has ended";
  client.gone = true;
  client.read_tokens = life.emitted();
  client.read_bytes = life.text.size();
  if (event.delay == 0) {
    engine_.cancel(life.id, tick_);
  } else {
    aborts_due_.emplace_back(tick_ + event.delay, life.id);
  }
  return "";
}

std::string LedgerDriver::apply_fork(const trace::ForcedEvent& event) {
  const std::optional<std::size_t> index = client_of(event.request);
  if (!index || !clients_[*index].life) return "the request has not arrived";
  const std::uint32_t request = clients_[*index].request;
  const engine::Life& parent = engine_.life(*clients_[*index].life);
  std::string reason;
  const std::optional<trace::RequestId> child =
      engine_.fork(parent.id, event.as, event.back, event.tokens, tick_, reason);
  if (!child) return reason;
  const engine::Life& life = engine_.life(*child);
  client_index_[event.as] = clients_.size();
  client_of_life_.resize(child->value + 1);
  client_of_life_[child->value] = clients_.size();
  clients_.push_back({request, child, false, 0, 0, life.emitted()});
  LedgerLife known{
      *child, request, {}, life.seed(), static_cast<std::uint32_t>(clients_.size() - 1)};
  known.inherited.assign(life.tokens.begin() + life.prompt_count, life.tokens.end());
  run_.lives.push_back(std::move(known));
  run_.result.requests.emplace_back();
  run_.result.requests.back().key = run_.result.requests.back().id = event.as;
  return "";
}

std::string LedgerDriver::apply_schedule(const trace::ForcedEvent& event, std::size_t index) {
  if (forced_step_) return "another `schedule` has this tick's step";
  forced_rows_.clear();
  for (const auto& [key, count] : event.rows) {
    const std::optional<std::size_t> client = client_of(key);
    if (!client || !clients_[*client].life) return "a request has not arrived";
    forced_rows_.emplace_back(*clients_[*client].life, count);
  }
  forced_step_ = index;
  return "";
}

void LedgerDriver::begin(std::size_t index) {
  Client& client = clients_[index];
  const trace::RequestSpec& spec = scenario_.requests[client.request];
  engine::Submission submission;
  submission.spec = spec;
  submission.scope.model = scenario_.ledger.seed;
  if (spec.adapter) {
    submission.scope.adapter = *spec.adapter;
    submission.adapter_weights = scenario_.adapters[*spec.adapter].weights;
  }
  submission.scope.salt = spec.cache_salt;
  submission.identity = identity(scenario_, client.request);
  submission.default_seed = unseeded(scenario_.seed, client.request);
  client.life = engine_.submit(std::move(submission), tick_);
  client_of_life_.resize(client.life->value + 1);
  client_of_life_[client.life->value] = index;
  const engine::Life& life = engine_.life(*client.life);
  if (life.phase == engine::LifePhase::Ended) return;
  run_.lives.push_back(
      {life.id, client.request, {}, life.seed(), static_cast<std::uint32_t>(index)});
}

void LedgerDriver::arrivals() {
  while (!unborn_.empty() && scenario_.requests[unborn_.front()].tick <= tick_) {
    const std::size_t index = unborn_.front();
    unborn_.erase(unborn_.begin());
    begin(index);
  }
}

// Phases 3 and 4.
void LedgerDriver::plan() {
  if (forced_step_) {
    trace::EventResult& result = run_.result.events[*forced_step_];
    forced_step_.reset();
    const auto made = engine_.step_forced(forced_rows_, tick_, result.reason);
    result.applied = result.reason.empty();
    if (made) note_made(*made);
    if (result.applied) return;
  }
  const auto made = engine_.step(tick_);
  if (made) note_made(*made);
}

// What waits for this launch happens now.
void LedgerDriver::note_made(trace::LaunchIndex launch) {
  const std::vector<std::size_t> open = open_events_;
  for (const std::size_t index : open) {
    const Trigger& trigger = forced(index).trigger;
    if (trigger.kind == Trigger::Kind::Launch && trigger.value == launch.value) happen(index);
  }
  const auto changed = launch_events_.find(launch);
  if (changed == launch_events_.end()) return;
  for (const std::size_t index : changed->second) {
    run_.result.events[index].tick = tick_;
    run_.result.events[index].applied = true;
    run_.result.events[index].reason.clear();
  }
}

// Phase 5. A launch that ran completes async_depth ticks later, unless an event says otherwise.
void LedgerDriver::run_streams() {
  if (tick_ < stalled_until_) return;
  const base::Result<std::vector<engine::LaunchOutput>> outputs = executor_.run(tick_);
  LS_CHECK(outputs.ok());
  for (const engine::LaunchOutput& output : *outputs) {
    trace::Tick when = tick_ + scenario_.engine.async_depth;
    bool lost = false;
    const auto changed = launch_events_.find(output.launch);
    const std::vector<std::size_t> none;
    const std::vector<std::size_t>& events =
        changed == launch_events_.end() ? none : changed->second;
    for (const std::size_t index : events) {
      const trace::ForcedEvent& event = forced(index);
      if (event.type == ForcedEventType::Late) when += event.ticks;
      if (event.type == ForcedEventType::Lost) lost = true;
    }
    if (!lost) completions_.emplace(std::pair(when, output.launch), output);
    for (const std::size_t index : events) {
      if (forced(index).type != ForcedEventType::Duplicate) continue;
      completions_.emplace(std::pair(when + forced(index).ticks, output.launch), output);
    }
    if (!observe_ || !scenario_.observe.steps) continue;
    trace::StepResult& step = run_.result.steps.back();
    LS_CHECK(step.launch == output.launch || outputs->size() > 1);
    for (trace::StepResult& candidate : run_.result.steps) {
      if (candidate.launch != output.launch) continue;
      for (std::size_t i = 0; i < output.sequences.size(); ++i) {
        candidate.rows[i].kind = output.sequences[i].kind;
        candidate.rows[i].drafts = output.sequences[i].drafts;
        candidate.rows[i].sampled = output.sequences[i].sampled;
        candidate.rows[i].accepted = output.sequences[i].accepted;
      }
    }
  }
}

// Phase 6: what became certain since the last tick goes to the client.
void LedgerDriver::read_clients() {
  for (const trace::RequestId life : changed_) read(client_of_life_[life.value]);
  changed_.clear();
}

void LedgerDriver::read(std::size_t index) {
  Client& client = clients_[index];
  const engine::Life& life = *life_of(client);
  if (client.gone) return;
  if (life.emitted() == client.read_tokens && life.text.size() == client.read_bytes) return;
  if (observe_) {
    trace::StreamChunk chunk;
    chunk.tick = tick_;
    chunk.tokens.assign(
        life.tokens.begin() + life.prompt_count + static_cast<std::ptrdiff_t>(client.read_tokens),
        life.tokens.end());
    chunk.text = life.text.substr(client.read_bytes);
    run_.result.requests[index].stream.push_back(std::move(chunk));
  }
  client.read_tokens = life.emitted();
  client.read_bytes = life.text.size();
}

}  // namespace lockstep::harness
