#include "engine/schedule/planner.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {
namespace {

// What a life would run next: tokens to feed, whether the last of them gives a token, drafts.
struct Want {
  std::uint32_t count = 0;
  bool samples = false;
  std::vector<trace::TokenId> drafts;
};

std::int32_t urgency(const Life& life, const trace::EngineSettings& settings) {
  return settings.scheduling_policy == trace::SchedulingPolicy::Priority ? life.spec().priority : 0;
}

// Whether another token may still be wanted when all launches in flight have come back.
bool wants_more(const Life& life, const trace::EngineSettings& settings) {
  return life.emitted() + life.pending < life.spec().max_tokens &&
         life.length() < settings.max_model_len;
}

// Proposals for the next outputs, at most `most`; they end at the first that the drafter leaves
// out.
std::vector<trace::TokenId> propose(const Life& life, std::uint32_t most) {
  std::vector<trace::TokenId> drafts;
  const trace::RequestSpec& spec = life.spec();
  for (std::uint32_t i = life.emitted(); drafts.size() < most; ++i) {
    const trace::DraftEntry& entry = i < spec.draft.size() ? spec.draft[i] : spec.draft_default;
    if (entry.kind == trace::DraftEntry::Kind::None) break;
    LS_CHECK(entry.kind == trace::DraftEntry::Kind::Token);
    drafts.push_back(entry.token);
  }
  return drafts;
}

// Drafts are verified behind the last known token only: with tokens still in flight their output
// indices are not certain.
std::vector<trace::TokenId> drafts_for(const Life& life, const trace::EngineSettings& settings,
                                       std::uint32_t budget) {
  if (!settings.speculative || life.emitted() == 0 || life.computed + 1 != life.known()) return {};
  const std::uint32_t room = settings.max_model_len - life.known();  // the last is the target's own
  const std::uint32_t most = std::min(
      {settings.speculative->num_speculative_tokens, budget - 1, room == 0 ? 0 : room - 1});
  return propose(life, most);
}

// `computed` of a life that is not yet admitted is what its hit gives. Count 0: nothing to run now.
Want want(const PlanContext& context, const Life& life, std::uint32_t computed,
          std::uint32_t budget) {
  const trace::EngineSettings& settings = context.settings;
  if (!wants_more(life, settings) || life.flights.size() >= settings.async_depth) return {};
  if (settings.speculative && life.pending > 0) return {};
  LS_CHECK(computed < life.length());
  Want result;
  const std::uint32_t left = life.length() - computed;
  result.count = std::min(left, budget);
  if (settings.chunked_prefill_size > 0) {
    result.count = std::min(result.count, settings.chunked_prefill_size);
  }
  // Without chunks a prompt runs whole or waits; only what no step could hold is cut (a request
  // that was preempted late and has grown beyond a step's budget).
  if (!settings.enable_chunked_prefill) {
    result.count = left;
    if (left > budget) result.count = left > settings.max_num_batched_tokens ? budget : 0;
  }
  // Nor is more than empty pools could ever hold: behind a hit, or where a window has slid over
  // what a preempted request computes again, a step may lie otherwise than can_ever_hold() looked
  // at.
  result.count = context.cache.fitting(computed, result.count);
  result.samples = result.count == left;
  return result;
}

void add_sequence(PlanContext& context, Life& life, const Want& wanted, Step& step) {
  PlannedSequence sequence;
  sequence.request = life.id;
  sequence.first = life.computed;
  sequence.count = wanted.count;
  sequence.samples = wanted.samples;
  sequence.drafts = wanted.drafts;
  const bool only_output = life.computed >= life.prompt_count && wanted.count == 1;
  sequence.kind = !wanted.drafts.empty() ? trace::RowKind::Verify
                  : only_output          ? trace::RowKind::Decode
                                         : trace::RowKind::Prefill;
  if (sequence.samples) sequence.future_slot = context.schedule.futures.take();
  Flight flight;
  flight.launch = step.launch;
  flight.first = sequence.first;
  flight.count = sequence.count;
  flight.samples = sequence.samples;
  flight.draft_count = static_cast<std::uint32_t>(sequence.drafts.size());
  flight.future_slot = sequence.future_slot;
  flight.epoch = life.epoch;
  life.flights.push_back(std::move(flight));
  life.computed += wanted.count;
  life.pending += wanted.samples ? 1 : 0;
  life.counts.scheduled += wanted.count;
  life.counts.proposed += wanted.drafts.size();
  step.token_count += wanted.count;
  step.sequences.push_back(std::move(sequence));
}

Growth grow(PlanContext& context, const Life& life, std::uint32_t first, std::uint32_t count,
            Step& step) {
  AllocationFault fault;
  if (context.fault) {
    fault = [&context, id = life.id](std::uint32_t pool) {
      return context.fault(trace::FailPoint::BlockAlloc, pool, std::span(&id, 1));
    };
  }
  const std::size_t copies_before = step.ops.copies.size();
  const Growth growth =
      context.cache.reserve(life.id, first, first + count, step.launch, fault, step.ops);
  // What a copy reads stays as it is until the launch has run, even if its last holder gives it
  // back before the step is made.
  for (std::size_t i = copies_before; i < step.ops.copies.size(); ++i) {
    const std::pair<std::uint32_t, BlockId> source{step.ops.copies[i].pool,
                                                   step.ops.copies[i].source};
    context.cache.begin_use(std::span(&source, 1));
  }
  return growth;
}

// What running through the running requests came to.
enum class Progress : std::uint8_t { Usual, Waits, Preempted };

// Plans one running life, preempting others if it must.
Progress plan_running(PlanContext& context, trace::RequestId id, Step& step) {
  const trace::EngineSettings& settings = context.settings;
  Life& life = context.schedule.life(id);
  const std::uint32_t budget = settings.max_num_batched_tokens - step.token_count;
  Want wanted = want(context, life, life.computed, budget);
  if (wanted.count == 0) return Progress::Usual;
  if (wanted.count == 1 && wanted.samples) {
    wanted.drafts = drafts_for(life, settings, budget);
    wanted.count += static_cast<std::uint32_t>(wanted.drafts.size());
  }
  Progress progress = Progress::Usual;
  for (;;) {
    switch (grow(context, life, life.computed, wanted.count, step)) {
      case Growth::Done:
        add_sequence(context, life, wanted, step);
        return progress;
      case Growth::Injected:
        return progress;
      case Growth::Short:
        return progress == Progress::Usual ? Progress::Waits : progress;
      case Growth::Starved:
        break;
    }
    const trace::RequestId victim = context.schedule.running.back();
    if (victim == id && context.schedule.running.size() == 1 && !wanted.drafts.empty()) {
      // Alone and still short: only its drafts can be too many (admission made sure of the rest).
      wanted.count -= static_cast<std::uint32_t>(wanted.drafts.size());
      wanted.drafts.clear();
      continue;
    }
    // Its own launches in flight may give blocks back (out of its window): they are awaited first.
    if (victim == id && !life.flights.empty()) return std::max(progress, Progress::Waits);
    preempt(context, victim);
    progress = Progress::Preempted;
    if (victim == id) return progress;
  }
}

Progress plan_all_running(PlanContext& context, Step& step) {
  Progress progress = Progress::Usual;
  // By index: victims leave at the back.
  for (std::size_t i = 0; i < context.schedule.running.size(); ++i) {
    if (step.token_count >= context.settings.max_num_batched_tokens) break;
    const Progress one = plan_running(context, context.schedule.running[i], step);
    progress = std::max(progress, one);
    if (one != Progress::Usual) break;
  }
  return progress;
}

enum class Admission : std::uint8_t { Admitted, Skipped, Refused };

void begin_life(PlanContext& context, Life& life, std::uint32_t hit) {
  unlist(context.schedule, life.id);
  life.preempted = false;
  life.computed = hit;
  if (!life.admitted) life.counts.cached = hit;
  life.admitted = true;
  start_running(context.schedule, life.id, context.settings);
}

// Looks up, pins and takes what the life needs for its first rows; `count` 0: as many as it can.
Admission admit(PlanContext& context, Life& life, std::uint32_t count, Step& step) {
  const trace::EngineSettings& settings = context.settings;
  const std::uint32_t budget = settings.max_num_batched_tokens - step.token_count;
  if (!wants_more(life, settings)) return Admission::Skipped;
  const base::Hash128 before = context.cache.pools_digest();
  const std::uint32_t hit = context.cache.look_up(life.id, life.tokens, life.known() - 1);
  Want wanted = want(context, life, hit, budget);
  if (count > 0 && wanted.count > 0) {
    wanted.count = std::min(count, life.length() - hit);
    wanted.samples = hit + wanted.count == life.length();
  }
  Growth growth = Growth::Short;
  if (wanted.count > 0) growth = grow(context, life, hit, wanted.count, step);
  if (growth == Growth::Done) {
    begin_life(context, life, hit);
    add_sequence(context, life, wanted, step);
    return Admission::Admitted;
  }
  context.cache.undo_look_up(life.id);
  if (wanted.count > 0) {
    context.sink(trace::AllocationRefused{life.id, before, context.cache.pools_digest()});
  }
  return growth == Growth::Injected ? Admission::Skipped : Admission::Refused;
}

void admit_waiting(PlanContext& context, Step& step) {
  const std::vector<trace::RequestId> queue = context.schedule.waiting;
  for (const trace::RequestId id : queue) {
    if (context.schedule.running.size() >= context.settings.max_num_seqs) return;
    if (step.token_count >= context.settings.max_num_batched_tokens) return;
    Life& life = context.schedule.life(id);
    if (life.held) continue;
    if (admit(context, life, 0, step) == Admission::Refused) return;
  }
}

void pad(const trace::EngineSettings& settings, Step& step) {
  step.padded_to = step.token_count;
  const auto size = std::ranges::lower_bound(settings.cudagraph_capture_sizes, step.token_count);
  if (size != settings.cudagraph_capture_sizes.end()) step.padded_to = *size;
}

bool precedes(const Life& a, const Life& b, const trace::EngineSettings& settings) {
  const auto rank = [&](const Life& life) {
    const bool front = life.phase == LifePhase::Waiting && life.preempted;
    return std::tuple(urgency(life, settings), front ? 0 : 1, life.arrival);
  };
  return rank(a) < rank(b);
}

void insert(const Schedule& schedule, std::vector<trace::RequestId>& list, trace::RequestId id,
            const trace::EngineSettings& settings) {
  const Life& life = schedule.life(id);
  const auto place = std::ranges::find_if(
      list, [&](trace::RequestId other) { return precedes(life, schedule.life(other), settings); });
  list.insert(place, id);
}

}  // namespace

std::uint32_t FutureSlots::take() {
  if (free_.empty()) return capacity_++;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void FutureSlots::put_back(std::uint32_t slot) {
  LS_CHECK(slot < capacity_ && std::ranges::find(free_, slot) == free_.end());
  free_.push_back(slot);
}

Life& Schedule::life(trace::RequestId id) {
  LS_CHECK(id.value < lives.size());
  return lives[id.value];
}

const Life& Schedule::life(trace::RequestId id) const {
  LS_CHECK(id.value < lives.size());
  return lives[id.value];
}

void enqueue(Schedule& schedule, trace::RequestId id, const trace::EngineSettings& settings) {
  schedule.life(id).phase = LifePhase::Waiting;
  insert(schedule, schedule.waiting, id, settings);
}

void start_running(Schedule& schedule, trace::RequestId id, const trace::EngineSettings& settings) {
  schedule.life(id).phase = LifePhase::Running;
  insert(schedule, schedule.running, id, settings);
}

void unlist(Schedule& schedule, trace::RequestId id) {
  std::erase(schedule.waiting, id);
  std::erase(schedule.running, id);
}

void preempt(PlanContext& context, trace::RequestId id) {
  Life& life = context.schedule.life(id);
  LS_CHECK(life.phase == LifePhase::Running);
  unlist(context.schedule, id);
  context.sink(trace::RequestPreempted{id, context.tick});
  context.cache.release(id);
  life.computed = 0;
  life.inherited_launches.clear();
  ++life.epoch;
  ++life.counts.preemptions;
  life.preempted = true;
  enqueue(context.schedule, id, context.settings);
}

Step plan_step(PlanContext& context) {
  Step step;
  step.launch = trace::LaunchIndex{context.schedule.next_launch};
  if (plan_all_running(context, step) == Progress::Usual) admit_waiting(context, step);
  if (!step.empty()) {
    pad(context.settings, step);
    ++context.schedule.next_launch;
  }
  return step;
}

namespace {

// One row of a forced step for a life that runs already.
bool force_running(PlanContext& context, Life& life, std::uint32_t count, Step& step) {
  const trace::EngineSettings& settings = context.settings;
  Want wanted;
  if (!wants_more(life, settings) || life.flights.size() >= settings.async_depth) return false;
  if (settings.speculative && life.pending > 0) return false;
  if (life.computed >= life.length()) return false;
  const std::uint32_t left = life.length() - life.computed;
  wanted.count = std::min(count, left);
  wanted.samples = wanted.count == left;
  if (count > left) {
    if (left != 1) return false;
    wanted.drafts = drafts_for(life, settings, count);
    if (wanted.drafts.size() != count - 1) return false;
    wanted.count = count;
  }
  if (grow(context, life, life.computed, wanted.count, step) != Growth::Done) return false;
  add_sequence(context, life, wanted, step);
  return true;
}

bool force_row(PlanContext& context, trace::RequestId id, std::uint32_t count, Step& step,
               std::string& reason) {
  Life& life = context.schedule.life(id);
  if (step.token_count + count > context.settings.max_num_batched_tokens) {
    reason = "more tokens than max_num_batched_tokens";
    return false;
  }
  const std::uint32_t before = step.token_count;
  if (life.phase == LifePhase::Running) {
    if (!force_running(context, life, count, step)) reason = "its rows can't run now";
  } else if (life.phase == LifePhase::Ended || life.held) {
    reason = life.held ? "held" : "has ended";
  } else if (context.schedule.running.size() >= context.settings.max_num_seqs) {
    reason = "max_num_seqs are running";
  } else if (admit(context, life, count, step) != Admission::Admitted) {
    reason = "can't be admitted now";
  }
  if (reason.empty() && step.token_count != before + count) reason = "fewer tokens are left";
  return reason.empty();
}

}  // namespace

bool plan_forced(PlanContext& context,
                 const std::vector<std::pair<trace::RequestId, std::uint32_t>>& rows, Step& step,
                 std::string& reason) {
  step.launch = trace::LaunchIndex{context.schedule.next_launch};
  for (const auto& [id, count] : rows) {
    const bool twice = std::ranges::any_of(
        step.sequences, [id = id](const auto& planned) { return planned.request == id; });
    if (twice) reason = "a request comes twice";
    if (twice || !force_row(context, id, count, step, reason)) return false;
  }
  if (step.empty()) {
    reason = "no rows";
    return false;
  }
  pad(context.settings, step);
  ++context.schedule.next_launch;
  return true;
}

}  // namespace lockstep::engine
