// refusals: a refused admission or growth leaves every pool as it was, order included; and a
// request is refused at arrival only where the reason that is given holds (docs/scenario.md, rule
// 5).
#include <algorithm>

#include "oracles/empty_pools.h"
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class Refusals : public ServingLaw<Refusals> {
 public:
  using ServingLaw<Refusals>::ServingLaw;
  std::string_view law() const override { return "refusals"; }

  Verdict finish(const std::vector<Verdict>&) override {
    return verdict(checked_, "refusals", "nothing was refused");
  }

  void on(const trace::AllocationRefused& event) {
    ++checked_;
    if (event.pool_before == event.pool_after) return;
    fail("pool_changed", event.request, {}, [&] {
      return fmt::format("tick {}: request {} is refused blocks, but the pools are not as before",
                         tick(), name(event.request));
    });
  }

  void on(const trace::LifeBegan& event) {
    Life life;
    life.client_id = event.client_id;
    life.prompt_tokens = event.prompt_tokens;
    life.max_tokens = event.max_tokens;
    life.began = true;
    life.forked = event.parent.has_value();
    life.odd_tokens = std::any_of(event.tokens.begin(), event.tokens.end(), [&](auto token) {
      return token >= scenario().ledger.tokenizer_size;
    });
    life.duplicate = !event.parent && live_namesake(event.client_id, event.request);
    grown(lives_, event.request.value) = life;
  }

  void on(const trace::LifeAborted& event) { grown(lives_, event.request.value).over = true; }

  void on(const trace::LifeEnded& event) {
    Life& life = grown(lives_, event.request.value);
    const bool unexplained = event.reason == "refused" && !life.explained && life.began;
    life.over = true;
    if (!unexplained) return;
    ++checked_;
    if (may_be_invalid(life) || reason_for(life)) return;
    fail("no_reason", event.request, {}, [&] {
      return fmt::format(
          "tick {}: request {} (id {}, {} prompt tokens, max_tokens {}) is refused, "
          "and no reason for that holds",
          tick(), name(event.request), life.client_id, life.prompt_tokens, life.max_tokens);
    });
  }

  void on(const trace::RequestRefused& event) {
    ++checked_;
    Life& life = grown(lives_, event.request.value);
    life.over = life.explained = true;
    if (!life.began || holds(life, event.reason)) return;
    fail(event.reason, event.request, {}, [&] {
      return fmt::format(
          "tick {}: request {} (id {}, {} prompt tokens, max_tokens {}) is refused as "
          "{}, which it is not",
          tick(), name(event.request), life.client_id, life.prompt_tokens, life.max_tokens,
          event.reason);
    });
  }

  // A request that should have been refused runs.
  void on(const trace::LaunchMade& event) {
    for (const trace::RequestId request : event.requests) {
      Life& life = grown(lives_, request.value);
      if (!life.began || life.runs) continue;
      life.runs = true;
      if (life.duplicate) {
        accepted(request, "duplicate_id");
      } else if (life.prompt_tokens >= scenario().engine.max_model_len) {
        accepted(request, "context_length");
      } else if (!life.forked && !runs_alone(life)) {
        accepted(request, "kv_capacity");
      }
    }
  }

 private:
  struct Life {
    std::string client_id;
    std::uint32_t prompt_tokens = 0, max_tokens = 0;
    bool began = false, over = false;  // ended or aborted: its id is free
    bool duplicate = false;            // another life had its id when it began
    bool forked = false, runs = false;
    bool explained = false;   // why it was refused has been judged
    bool odd_tokens = false;  // its prompt has ids beyond the tokenizer's
  };

  void accepted(trace::RequestId request, const char* reason) {
    fail(fmt::format("accepted_{}", reason), request, {}, [&] {
      return fmt::format("tick {}: request {} runs; it was to be refused as {}", tick(),
                         name(request), reason);
    });
  }

  bool live_namesake(const std::string& client_id, trace::RequestId self) const {
    for (std::uint32_t id = 0; id < lives_.size(); ++id) {
      const Life& other = lives_[id];
      const bool live = other.began && !other.over && id != self.value;
      if (live && other.client_id == client_id && !client_leaves(name({id}))) return true;
    }
    return false;
  }

  // A cancel frees the id at once, and the engine may learn of it later: not judged.
  bool client_leaves(const std::string& key) const {
    return std::any_of(scenario().events.begin(), scenario().events.end(), [&](const auto& event) {
      return (event.type == trace::ForcedEventType::Cancel ||
              event.type == trace::ForcedEventType::Disconnect) &&
             event.request == key && event.delay > 0;
    });
  }

  bool may_be_invalid(const Life& life) const {
    const trace::EngineSettings& engine = scenario().engine;
    const bool too_long =
        !engine.enable_chunked_prefill && life.prompt_tokens > engine.max_num_batched_tokens;
    return life.prompt_tokens == 0 || life.max_tokens == 0 || life.odd_tokens || too_long;
  }

  bool runs_alone(const Life& life) const {
    return runs_in_empty_pools(scenario().engine, life.prompt_tokens,
                               life.prompt_tokens + life.max_tokens - 1);
  }

  bool reason_for(const Life& life) const {
    for (const char* reason : {"duplicate_id", "context_length", "kv_capacity", "queue_full"}) {
      if (holds(life, reason)) return true;
    }
    return false;
  }

  bool holds(const Life& life, std::string_view reason) const {
    const trace::EngineSettings& engine = scenario().engine;
    if (reason == "duplicate_id") {
      return std::any_of(lives_.begin(), lives_.end(), [&](const Life& other) {
        return &other != &life && other.began && !other.over && other.client_id == life.client_id;
      });
    }
    if (reason == "context_length") return life.prompt_tokens >= engine.max_model_len;
    if (reason == "kv_capacity") return !runs_alone(life);
    if (reason == "queue_full") {
      const auto live = std::count_if(lives_.begin(), lives_.end(),
                                      [](const Life& other) { return other.began && !other.over; });
      return engine.max_waiting > 0 && live >= static_cast<std::int64_t>(engine.max_waiting);
    }
    return true;  // invalid, unsupported: of the request's own fields
  }

  std::vector<Life> lives_;
  std::uint64_t checked_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> refusals(ScenarioPointer scenario) {
  return std::make_unique<Refusals>(std::move(scenario));
}

}  // namespace lockstep::oracles
