// steps: each step is one that docs/scenario.md lets the scheduler make: within its limits, in the
// order of the queue, nothing shortened without need, drafts as the drafter says, victims from the
// queue's end. The others' laws judge what a step does to blocks, cells and tokens; a step that
// breaks these rules may give every token right.
#include <algorithm>
#include <map>
#include <tuple>

#include "oracles/empty_pools.h"
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class Steps : public ServingLaw<Steps> {
 public:
  explicit Steps(ScenarioPointer pointer) : ServingLaw<Steps>(std::move(pointer)) {
    for (const auto* list : {&scenario().events, &scenario().faults}) {
      for (const trace::ForcedEvent& event : *list) {
        forced_steps_ |= event.type == trace::ForcedEventType::Schedule;
        forced_preemptions_ |= event.type == trace::ForcedEventType::Preempt;
        failing_blocks_ |= event.type == trace::ForcedEventType::Fail &&
                           event.what == trace::FailPoint::BlockAlloc;
      }
    }
  }

  std::string_view law() const override { return "steps"; }
  Verdict finish(const std::vector<Verdict>&) override {
    return verdict(steps_, "steps", "no launch was made");
  }

  void on(const trace::LifeBegan& event) {
    Life& life = grown(lives_, event.request.value);
    life.known = static_cast<std::uint32_t>(event.tokens.size());
    life.prompt = event.prompt_tokens;
    if (event.parent) {
      life.spec = grown(lives_, event.parent->value).spec;
      grown(lives_, event.request.value).running = true;  // a fork runs at once
      return;
    }
    const auto& requests = scenario().requests;
    const auto spec = std::ranges::find(requests, event.key, &trace::RequestSpec::key);
    if (spec != requests.end()) life.spec = &*spec;
  }

  void on(const trace::BlocksHit& event) { grown(lives_, event.request.value).hit = event.tokens; }

  void on(const trace::LifeEnded& event) { grown(lives_, event.request.value).running = false; }

  void on(const trace::AllocationRefused& event) { refused_.push_back(event.request); }
  void on(const trace::PoolCounted&) { refused_.clear(); }  // the end of a step

  void on(const trace::RequestPreempted& event) {
    preempted_at_ = event.tick;
    if (!forced_preemptions_ && reset_at_ != event.tick) judge_victim(event.request);
    Life& life = grown(lives_, event.request.value);
    life.running = false;
    life.preempted = true;
    life.hit = 0;
  }

  void on(const trace::DeviceReset& event) {
    reset_at_ = event.tick;
    in_flight_ = 0;
    for (Life& life : lives_) life.waited_for.clear();
  }

  void on(const trace::LaunchCompleted&) { in_flight_ -= in_flight_ > 0; }

  void on(const trace::TokensAccepted& event) {
    Life& life = grown(lives_, event.request.value);
    life.known += static_cast<std::uint32_t>(event.tokens.size());
    std::erase_if(life.waited_for,
                  [&](const auto& wait) { return wait.first <= event.launch.value; });
  }

  void on(const trace::LaunchMade& event) {
    ++steps_;
    ++in_flight_;
    Made made;
    made.padded_to = event.padded_to;
    for (const trace::RequestId request : event.requests) {
      Life& life = grown(lives_, request.value);
      made.rows.push_back({request, !life.running, life.hit, life.known, life.waited_for});
    }
    judge_made(event);
    for (const trace::RequestId request : event.requests) {
      Life& life = grown(lives_, request.value);
      life.running = true;
      life.preempted = false;
      life.waited_for[event.launch.value] = false;
    }
    const auto running = std::ranges::count_if(lives_, &Life::running);
    if (running > static_cast<std::int64_t>(scenario().engine.max_num_seqs)) {
      fail("sequences", event.requests.front(), {}, [&] {
        return fmt::format("tick {}: {} requests run; max_num_seqs is {}", tick(), running,
                           scenario().engine.max_num_seqs);
      });
    }
    made_.insert_or_assign(event.launch.value, std::move(made));
  }

  void on(const trace::LaunchRan& event) {
    const auto found = made_.find(event.launch.value);
    if (found == made_.end()) return;
    judge_ran(event, found->second);
    made_.erase(made_.begin(), std::next(found));  // launches run in order
  }

 private:
  struct Life {
    const trace::RequestSpec* spec = nullptr;  // null: not of the scenario
    std::uint32_t known = 0, prompt = 0;
    std::uint32_t hit = 0;             // of its next admission
    std::optional<std::uint32_t> end;  // of its latest rows that ran
    bool running = false, preempted = false;
    // Launches whose tokens are not accepted yet, and whether they give one (known once they ran).
    std::map<std::uint32_t, bool> waited_for;
  };
  // A row's request as it was when its launch was planned.
  struct Planned {
    trace::RequestId request;
    bool admitted = false;  // by this step
    std::uint32_t hit = 0, known = 0;
    std::map<std::uint32_t, bool> waited_for;
  };
  struct Made {
    std::uint32_t padded_to = 0;
    std::vector<Planned> rows;
  };

  // A row as it ran: positions [first, end), `length` tokens known or on their way when it was
  // planned, `before` tokens of other rows ahead in the step.
  struct Row {
    const trace::RanRows& ran;
    const Life& life;
    std::uint32_t first, end, length, before;
    bool first_of_step, admitted, placeholders;
    std::uint32_t drafts() const { return end > length ? end - length : 0; }
  };

  std::int32_t priority(const Life& life) const {
    const bool counts = scenario().engine.scheduling_policy == trace::SchedulingPolicy::Priority;
    return counts && life.spec != nullptr ? life.spec->priority : 0;
  }
  // Ids rise with arrival.
  auto rank(trace::RequestId request) const {
    const Life& life = lives_[request.value];
    return std::tuple(!life.running, priority(life), life.running || !life.preempted,
                      request.value);
  }

  void judge_made(const trace::LaunchMade& event) {
    if (event.requests.empty()) {
      fail("empty", {}, {}, [&] { return fmt::format("tick {}: a launch has no rows", tick()); });
      return;
    }
    if (in_flight_ > scenario().engine.async_depth) {
      fail("in_flight", event.requests.front(), {}, [&] {
        return fmt::format("tick {}: launch {} is the {}th in flight; async_depth is {}", tick(),
                           event.launch.value, in_flight_, scenario().engine.async_depth);
      });
    }
    if (forced_steps_) return;
    for (std::size_t i = 1; i < event.requests.size(); ++i) {
      if (rank(event.requests[i - 1]) < rank(event.requests[i])) continue;
      fail("order", event.requests[i], {}, [&] {
        return fmt::format("tick {}: launch {} has request {} behind {}", tick(),
                           event.launch.value, name(event.requests[i]),
                           name(event.requests[i - 1]));
      });
    }
    for (const trace::RequestId request : event.requests) {
      if (!lives_[request.value].running) judge_admission(request);
    }
  }

  void judge_admission(trace::RequestId request) {
    if (preempted_at_ == tick() && !forced_preemptions_ && reset_at_ != tick()) {
      fail("admits_after_preempting", request, {}, [&] {
        return fmt::format("tick {}: the step that preempted admits {}", tick(), name(request));
      });
    }
    if (failing_blocks_) return;
    for (const trace::RequestId other : refused_) {
      if (other == request || rank(request) < rank(other)) continue;
      fail("overtakes", request, {}, [&] {
        return fmt::format("tick {}: request {} is admitted past {}, which found no blocks", tick(),
                           name(request), name(other));
      });
    }
  }

  void judge_victim(trace::RequestId victim) {
    for (std::uint32_t id = 0; id < lives_.size(); ++id) {
      if (!lives_[id].running || rank({id}) <= rank(victim)) continue;
      fail("victim", victim, {}, [&] {
        return fmt::format("tick {}: request {} is preempted, and {} runs behind it", tick(),
                           name(victim), name({id}));
      });
    }
  }

  void judge_ran(const trace::LaunchRan& event, const Made& made) {
    const trace::EngineSettings& engine = scenario().engine;
    std::uint32_t total = 0;
    for (std::size_t i = 0; i < event.rows.size(); ++i) {
      const trace::RanRows& ran = event.rows[i];
      const auto planned = std::ranges::find(made.rows, ran.request, &Planned::request);
      if (planned == made.rows.end()) {
        fail("not_planned", ran.request, {}, [&] {
          return fmt::format("tick {}: launch {} runs rows of {}, which is not in it", tick(),
                             event.launch.value, name(ran.request));
        });
        continue;
      }
      const auto count = static_cast<std::uint32_t>(ran.tokens.size());
      Life& life = grown(lives_, ran.request.value);
      Row row{ran,
              life,
              ran.first_position,
              ran.first_position + count,
              planned->known,
              total,
              i == 0,
              planned->admitted,
              false};
      for (const auto& [launch, unknown] : planned->waited_for) {
        const auto wait = samples_.find({launch, ran.request.value});
        row.length += wait != samples_.end() && wait->second ? 1 : 0;
      }
      row.placeholders = row.length > planned->known;
      judge_start(event.launch, row, *planned);
      life.end = row.end;
      samples_[{event.launch.value, ran.request.value}] = row.end >= row.length;
      total += count;
      judge_row(event.launch, row);
    }
    if (total > engine.max_num_batched_tokens) {
      fail("budget", made.rows.front().request, {}, [&] {
        return fmt::format("tick {}: launch {} has {} tokens; max_num_batched_tokens is {}", tick(),
                           event.launch.value, total, engine.max_num_batched_tokens);
      });
    }
    if (event.rows.size() != made.rows.size()) return;  // the law `reads` names who did not run
    const auto size = std::ranges::lower_bound(engine.cudagraph_capture_sizes, total);
    const std::uint32_t padded = size == engine.cudagraph_capture_sizes.end() ? total : *size;
    if (made.padded_to != padded) {
      fail("padding", made.rows.front().request, {}, [&] {
        return fmt::format("tick {}: launch {} of {} tokens is padded to {}, not {}", tick(),
                           event.launch.value, total, made.padded_to, padded);
      });
    }
  }

  // Rows go on where the last ones ended, less drafts that were not kept; after admission where the
  // hit ends.
  void judge_start(trace::LaunchIndex launch, const Row& row, const Planned& planned) {
    if (!planned.admitted && !row.life.end) return;  // a fork's first rows
    const std::uint32_t start =
        planned.admitted ? planned.hit : std::min(*row.life.end, row.length - 1);
    if (row.first == start) return;
    fail("start", row.ran.request, row.first, [&] {
      return fmt::format(
          "tick {}: launch {} feeds request {} from position {} on; it has computed {} tokens",
          tick(), launch.value, name(row.ran.request), row.first, start);
    });
  }

  void judge_row(trace::LaunchIndex launch, const Row& row) {
    const trace::EngineSettings& engine = scenario().engine;
    const auto wrong = [&](const char* kind, const char* what) {
      fail(kind, row.ran.request, row.first, [&] {
        return fmt::format(
            "tick {}: launch {} feeds positions {}..{} of request {}, which has {} tokens, behind "
            "{} of other rows: {}",
            tick(), launch.value, row.first, row.end - 1, name(row.ran.request), row.length,
            row.before, what);
      });
    };
    if (row.end > engine.max_model_len) wrong("context", "beyond max_model_len");
    if (row.drafts() > 0) {
      judge_drafts(row, wrong);
    } else if (engine.speculative && row.end == row.length && row.first + 1 == row.end) {
      judge_drafts(row, wrong);
    }
    if (forced_steps_) return;
    const std::uint32_t count = row.end - row.first - row.drafts();
    const bool full = row.before + count >= engine.max_num_batched_tokens;
    const bool chunks = engine.enable_chunked_prefill;
    const std::uint32_t chunk = chunks ? engine.chunked_prefill_size : 0;
    if (chunk > 0 && count > chunk) wrong("chunk", "more than chunked_prefill_size");
    if (row.end >= row.length) return;
    // A longer one could not run even alone: behind a hit, or where windows have slid.
    if (!fits_in_empty_pools(engine, row.first, row.end + 1)) return;
    if (!full && (chunk == 0 || count != chunk)) wrong("shortened", "the step has room for more");
    if (!chunks && row.length - row.first <= engine.max_num_batched_tokens) {
      wrong("split", "without chunked prefill it runs whole or waits");
    }
  }

  // What is fed behind the last token is what the drafter proposes for those outputs, as far as
  // steps and context reach.
  template <class Wrong>
  void judge_drafts(const Row& row, const Wrong& wrong) {
    const trace::EngineSettings& engine = scenario().engine;
    const std::uint32_t most = engine.speculative ? engine.speculative->num_speculative_tokens : 0;
    const std::uint32_t count = row.drafts();
    if (count > most) wrong("too_many_drafts", "more drafts than num_speculative_tokens");
    if (row.life.spec == nullptr || row.length < row.life.prompt) return;
    const auto proposed = [&](std::uint32_t i) -> std::optional<trace::TokenId> {
      const std::uint32_t output = row.length + i - row.life.prompt;
      const trace::RequestSpec& spec = *row.life.spec;
      const trace::DraftEntry& entry =
          output < spec.draft.size() ? spec.draft[output] : spec.draft_default;
      if (entry.kind != trace::DraftEntry::Kind::Token) return std::nullopt;
      return entry.token;
    };
    const std::size_t known = row.ran.tokens.size() - count;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (proposed(i) == row.ran.tokens[known + i]) continue;
      wrong("draft", "a draft that the drafter does not propose there");
      return;
    }
    // Fewer where a step is forced or admits the request, before the first output, and where
    // nothing is known for certain yet; none where they alone kept the only running request from
    // its blocks.
    const bool may_leave_out = forced_steps_ || row.admitted || row.placeholders ||
                               row.length == row.life.prompt || (count == 0 && row.first_of_step);
    const bool more = count < most && row.end + 1 < engine.max_model_len &&
                      row.before + (row.end - row.first) < engine.max_num_batched_tokens &&
                      proposed(count).has_value();
    if (more && !may_leave_out) wrong("fewer_drafts", "the drafter proposes more");
  }

  std::vector<Life> lives_;
  std::map<std::uint32_t, Made> made_;  // not run yet
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool>
      samples_;                            // (launch, life): gives a token
  std::vector<trace::RequestId> refused_;  // in this step
  std::optional<trace::Tick> preempted_at_, reset_at_;
  std::uint64_t steps_ = 0;
  std::uint32_t in_flight_ = 0;
  bool forced_steps_ = false, forced_preemptions_ = false, failing_blocks_ = false;
};

}  // namespace

std::unique_ptr<Oracle> steps(ScenarioPointer scenario) {
  return std::make_unique<Steps>(std::move(scenario));
}

}  // namespace lockstep::oracles
