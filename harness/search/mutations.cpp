// Mutations of a given scenario: `campaign --from`. Each drops, doubles, moves or changes a thing
// or two; what comes out is valid, and ends by itself where the base does.
#include <algorithm>
#include <array>
#include <utility>

#include "harness/search/campaign.h"
#include "harness/search/choices.h"
#include "harness/search/edits.h"
#include "harness/search/shrink.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using trace::ForcedEvent;
using trace::ForcedEventType;
using trace::RequestSpec;
using trace::Scenario;

constexpr int kTries = 20;

void drop_an_item(Scenario& scenario, Choices& choose) {
  if (scenario.size() < 2) return;
  Kept kept = Kept::all(scenario);
  std::uint64_t item = choose.below(scenario.size());
  for (std::vector<bool>* list : {&kept.requests, &kept.events, &kept.faults}) {
    if (item < list->size()) {
      (*list)[item] = false;
      break;
    }
    item -= list->size();
  }
  Scenario less = keep(scenario, kept);
  if (!less.requests.empty()) scenario = std::move(less);
}

void double_a_request(Scenario& scenario, Choices& choose) {
  if (scenario.requests.empty()) return;
  RequestSpec copy = choose.pick(scenario.requests);
  for (int i = 2;; ++i) {
    const std::string key = copy.key + std::to_string(i);
    const auto keys = life_keys(scenario);
    if (std::ranges::find(keys, key) != keys.end()) continue;
    if (copy.id == copy.key) copy.id = key;
    copy.key = key;
    break;
  }
  copy.tick += choose.below(6);
  copy.hold = false;
  // Triggers name lives by number: requests, then forks.
  const auto count = static_cast<std::uint32_t>(scenario.requests.size());
  for (std::vector<ForcedEvent>* events : {&scenario.events, &scenario.faults}) {
    for (ForcedEvent& event : *events) {
      if (event.trigger.request >= count) ++event.trigger.request;
    }
  }
  scenario.requests.push_back(std::move(copy));
}

void double_an_event(Scenario& scenario, Choices& choose) {
  std::vector<ForcedEvent>& list =
      !scenario.events.empty() && (scenario.faults.empty() || choose.chance(70)) ? scenario.events
                                                                                 : scenario.faults;
  if (list.empty()) return;
  ForcedEvent copy = choose.pick(list);
  if (copy.type == ForcedEventType::Fork) return;  // its child's key would come twice
  copy.trigger.value += choose.between(0, 3);
  if (copy.trigger.kind == trace::Trigger::Kind::Launch) copy.launch = copy.trigger.value;
  list.push_back(std::move(copy));
}

void change_a_time(Scenario& scenario, Choices& choose) {
  const std::vector<trace::Tick*> all = times(scenario);
  if (all.empty()) return;
  trace::Tick& time = *choose.pick(all);
  const std::uint64_t by = choose.between(1, 3);
  time = choose.chance(50) ? time + by : time - std::min(by, time);
}

void change_a_number(Scenario& scenario, Choices& choose) {
  const std::vector<Number> list = numbers(scenario);
  if (list.empty()) return;
  const Number& number = choose.pick(list);
  const std::uint64_t by = choose.between(1, 2);
  number.set(scenario, choose.chance(60)
                           ? number.value + by
                           : std::max(number.least, number.value - std::min(by, number.value)));
}

void change_a_prompt(Scenario& scenario, Choices& choose) {
  if (scenario.requests.empty()) return;
  RequestSpec& request =
      scenario.requests[static_cast<std::size_t>(choose.below(scenario.requests.size()))];
  request.prompt_text.clear();
  if (request.prompt.empty()) return;
  switch (choose.small(4)) {
    case 0:
      request.prompt.push_back(request.prompt.front());
      break;
    case 1:
      if (request.prompt.size() > 1) request.prompt.pop_back();
      break;
    case 2:
      request.prompt = choose.pick(scenario.requests).prompt;
      break;
    default:
      request.prompt.back() = request.prompt.front();
  }
}

void change_the_engine(Scenario& scenario, Choices& choose) {
  trace::EngineSettings& engine = scenario.engine;
  switch (choose.small(6)) {
    case 0:
      engine.async_depth = choose.between(1, 3);
      break;
    case 1:
      engine.enable_prefix_caching = !engine.enable_prefix_caching;
      break;
    case 2:
      engine.max_num_seqs = choose.between(1, 8);
      break;
    case 3:
      engine.chunked_prefill_size = choose.small(2 * engine.block_size + 2);
      break;
    case 4:
      engine.pad_fill = choose.pick(std::array<trace::PadFill, 4>{
          trace::PadFill::Stale, trace::PadFill::Zero, trace::PadFill::Nan, trace::PadFill::Huge});
      break;
    default:
      engine.scheduling_policy = engine.scheduling_policy == trace::SchedulingPolicy::Fcfs
                                     ? trace::SchedulingPolicy::Priority
                                     : trace::SchedulingPolicy::Fcfs;
  }
}

void change(Scenario& scenario, Choices& choose) {
  constexpr std::array<void (*)(Scenario&, Choices&), 7> kChanges = {
      change_a_time,   change_a_number, drop_an_item,     double_a_request,
      double_an_event, change_a_prompt, change_the_engine};
  choose.pick(kChanges)(scenario, choose);
}

}  // namespace

Scenario mutated(const Scenario& base, std::uint64_t seed, std::uint64_t number) {
  base::Prng of_seed(seed);
  SeededChoices choose(of_seed.next() ^ (number * 0x9e3779b97f4a7c15u));
  const bool must_end = ends_by_itself(base);
  for (int i = 0; i < kTries; ++i) {
    Scenario scenario = base;
    for (std::uint32_t changes = choose.between(1, 4); changes > 0; --changes) {
      change(scenario, choose);
    }
    if (must_end && !ends_by_itself(scenario)) continue;
    if (trace::parse_scenario(trace::write_scenario(scenario), "mutation")) return scenario;
  }
  return base;
}

}  // namespace lockstep::harness
