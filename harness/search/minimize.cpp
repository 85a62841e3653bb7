#include "harness/search/minimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hash.h"
#include "harness/search/edits.h"
#include "harness/search/shrink.h"
#include "harness/search/streams.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using trace::Scenario;

class Minimizer {
 public:
  // `first`: it is, and stays, the first finding of the run: so the scenario shows one thing.
  Minimizer(const Scenario& scenario, std::string key, bool first, const ScenarioRunner& run,
            const MinimizeOptions& options)
      : best_(scenario), key_(std::move(key)), first_(first), run_(run), options_(options) {
    must_end_ = ends_by_itself(best_);
  }

  void shrink() {
    tried_.insert(fingerprint(best_));
    for (bool smaller = true; smaller && runs_ < options_.runs_max;) {
      smaller = drop_items();
      smaller |= triggers_to_ticks();
      smaller |= try_edits(default_edits);
      smaller |= try_edits(shorter_edits);
      smaller |= smaller_numbers();
    }
    // Last, and once: what never ends takes long to the usual end.
    Scenario candidate = best_;
    candidate.max_ticks = Scenario{}.max_ticks;
    accept(std::move(candidate));
  }

  const Scenario& best() const { return best_; }
  std::uint64_t runs() const { return runs_; }

 private:
  static base::Hash128 fingerprint(const Scenario& scenario) {
    const std::string text = trace::write_scenario(scenario);
    return base::hash_bytes(std::as_bytes(std::span(text)));
  }

  // Takes `candidate` if it has the finding. A liveness finding of a scenario that can't end would
  // be another finding: what ended by itself must go on doing so.
  bool accept(Scenario candidate) {
    if (runs_ >= options_.runs_max) return false;
    drop_unused(candidate);
    if (must_end_ && !ends_by_itself(candidate)) return false;
    const std::string text = trace::write_scenario(candidate);
    if (!tried_.insert(base::hash_bytes(std::as_bytes(std::span(text)))).second) return false;
    if (!trace::parse_scenario(text, "candidate")) return false;
    ++runs_;
    if (options_.progress && runs_ % 64 == 0) {
      options_.progress(fmt::format("minimize {}: {} runs, size {}", key_, runs_, best_.size()));
    }
    const base::Result<ScenarioOutcome> outcome = run_(candidate, {});
    if (!outcome || !has_finding(*outcome)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool has_finding(const ScenarioOutcome& outcome) const {
    const oracles::Finding* finding = find_key(outcome, first_ ? std::string() : key_);
    return finding != nullptr && finding->key == key_;
  }

  // Chunks of half of all items, then a quarter, ... then each alone.
  bool drop_items() {
    bool smaller = false;
    const auto item_count = [&] { return best_.size(); };
    for (std::size_t chunk = std::max<std::size_t>(1, item_count() / 2); chunk > 0; chunk /= 2) {
      // From the last item on: faults and events, then requests.
      for (std::size_t end = item_count(); end > 0;) {
        const std::size_t begin = end > chunk ? end - chunk : 0;
        Kept kept = Kept::all(best_);
        for (std::size_t item = begin; item < end; ++item) drop_item(kept, item);
        if (accept(keep(best_, kept))) {
          smaller = true;
          end = std::min(begin, item_count());
        } else {
          end = begin;
        }
      }
    }
    return smaller;
  }
  static void drop_item(Kept& kept, std::size_t item) {
    if (item < kept.requests.size()) {
      kept.requests[item] = false;
      return;
    }
    item -= kept.requests.size();
    if (item < kept.events.size()) {
      kept.events[item] = false;
    } else {
      kept.faults[item - kept.events.size()] = false;
    }
  }

  // An event that waits for a request's progress becomes one of a tick: the request may then go.
  bool triggers_to_ticks() {
    const auto waits = [](const trace::ForcedEvent& event) {
      using Type = trace::ForcedEventType;
      const bool of_launch =
          event.type == Type::Late || event.type == Type::Duplicate || event.type == Type::Lost;
      return !of_launch && event.trigger.kind != trace::Trigger::Kind::AtTick;
    };
    if (std::ranges::none_of(best_.events, waits) && std::ranges::none_of(best_.faults, waits)) {
      return false;
    }
    ++runs_;
    const base::Result<ScenarioOutcome> outcome = run_(best_, {});
    if (!outcome) return false;
    bool changed = false;
    for (std::size_t i = 0; i < best_.events.size() + best_.faults.size(); ++i) {
      const auto event_at = [i](Scenario& scenario) -> trace::ForcedEvent& {
        return i < scenario.events.size() ? scenario.events[i]
                                          : scenario.faults[i - scenario.events.size()];
      };
      if (!waits(event_at(best_)) || i >= outcome->result.events.size()) continue;
      const std::optional<trace::Tick> tick = outcome->result.events[i].tick;
      if (!tick) continue;
      Scenario candidate = best_;
      event_at(candidate).trigger = {trace::Trigger::Kind::AtTick, *tick, 0};
      changed |= accept(std::move(candidate));
    }
    return changed;
  }

  // The list is made again after each success: an edit speaks of what is there.
  bool try_edits(std::vector<Edit> (*list)(const Scenario&)) {
    bool smaller = false;
    std::vector<Edit> edits = list(best_);
    for (std::size_t i = 0; i < edits.size() && runs_ < options_.runs_max;) {
      Scenario candidate = best_;
      edits[i](candidate);
      if (accept(std::move(candidate))) {
        smaller = true;
        edits = list(best_);
      } else {
        ++i;
      }
    }
    return smaller;
  }

  bool smaller_numbers() {
    bool smaller = false;
    const std::size_t count = numbers(best_).size();
    for (std::size_t i = 0; i < count; ++i) smaller |= smaller_number(i);
    return smaller;
  }
  // The least value first, then halfway, a quarter off, ... one off.
  bool smaller_number(std::size_t index) {
    bool smaller = false;
    for (bool again = true; again;) {
      again = false;
      const std::vector<Number> list = numbers(best_);
      if (index >= list.size()) return smaller;
      const Number& number = list[index];
      if (number.value <= number.least) return smaller;
      for (std::uint64_t step = number.value - number.least; step > 0 && !again; step /= 2) {
        Scenario candidate = best_;
        number.set(candidate, number.value - step);
        again = accept(std::move(candidate));
      }
      smaller |= again;
    }
    return smaller;
  }

  Scenario best_;
  std::string key_;
  bool first_;
  const ScenarioRunner& run_;
  const MinimizeOptions& options_;
  bool must_end_ = false;
  std::uint64_t runs_ = 0;
  std::set<base::Hash128> tried_;
};

}  // namespace

const oracles::Finding* find_key(const ScenarioOutcome& outcome, const std::string& key) {
  const oracles::Finding* first = nullptr;
  for (const oracles::Verdict& verdict : outcome.verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      if (!key.empty() && finding.key != key) continue;
      if (first == nullptr || finding.event_index < first->event_index) first = &finding;
    }
  }
  return first;
}

base::Result<Minimized> minimize(const Scenario& scenario, const std::string& key,
                                 const ScenarioRunner& run, const MinimizeOptions& options) {
  LS_ASSIGN(const ScenarioOutcome outcome, run(scenario, {}));
  const oracles::Finding* finding = find_key(outcome, key);
  if (finding == nullptr) {
    return base::input_error("", key.empty() ? "the scenario has no finding: nothing to minimize"
                                             : "the scenario has no finding " + key);
  }
  const bool is_first = find_key(outcome, "")->key == finding->key;
  Minimizer minimizer(scenario, finding->key, is_first, run, options);
  minimizer.shrink();
  Minimized result{minimizer.best(), finding->key, minimizer.runs() + 1, false};
  LS_ASSIGN(const Recording first, record(result.scenario, run));
  LS_ASSIGN(const Recording second, record(result.scenario, run));
  result.runs += 2;
  result.repeats = !first_difference(first.events, second.events) &&
                   find_key(first.outcome, result.key) && find_key(second.outcome, result.key);
  return result;
}

}  // namespace lockstep::harness
