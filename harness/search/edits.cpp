#include "harness/search/edits.h"

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::harness {
namespace {

using trace::ForcedEvent;
using trace::ForcedEventType;
using trace::RequestSpec;
using trace::Scenario;
using trace::Trigger;

bool names_request(const Trigger& trigger) {
  return trigger.kind == Trigger::Kind::Emitted || trigger.kind == Trigger::Kind::Computed;
}

// Lives that are left: kept requests, and children of kept forks of lives that are left.
std::set<std::string> lives_left(const Scenario& scenario, const Kept& kept) {
  std::set<std::string> left;
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
    if (kept.requests[i]) left.insert(scenario.requests[i].key);
  }
  const std::vector<std::string> keys = life_keys(scenario);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < scenario.events.size(); ++i) {
      const ForcedEvent& event = scenario.events[i];
      if (event.type != ForcedEventType::Fork || !kept.events[i] || left.contains(event.as)) {
        continue;
      }
      const bool trigger_left =
          !names_request(event.trigger) ||
          (event.trigger.request < keys.size() && left.contains(keys[event.trigger.request]));
      if (left.contains(event.request) && trigger_left) changed = left.insert(event.as).second;
    }
  }
  return left;
}

// The event without what is gone; false: nothing is left of it.
bool adapt(ForcedEvent& event, const std::vector<std::string>& old_keys,
           const std::set<std::string>& left) {
  if (names_request(event.trigger) && (event.trigger.request >= old_keys.size() ||
                                       !left.contains(old_keys[event.trigger.request]))) {
    return false;
  }
  if (!event.request.empty() && !left.contains(event.request)) return false;
  if (event.type == ForcedEventType::Schedule) {
    std::erase_if(event.rows, [&](const auto& row) { return !left.contains(row.first); });
    return !event.rows.empty();
  }
  return true;
}

void number_again(std::vector<ForcedEvent>& events, const std::vector<std::string>& old_keys,
                  const std::vector<std::string>& new_keys) {
  for (ForcedEvent& event : events) {
    if (!names_request(event.trigger)) continue;
    const auto at = std::ranges::find(new_keys, old_keys[event.trigger.request]);
    event.trigger.request = static_cast<std::uint32_t>(at - new_keys.begin());
  }
}

std::uint32_t draft_tokens(const Scenario& scenario) {
  return scenario.engine.speculative ? scenario.engine.speculative->num_speculative_tokens : 0;
}

// Most tokens of one life that are in the cache, drafts included. A child may begin with tokens
// that its parent never had.
std::uint64_t longest(const Scenario& scenario) {
  std::uint64_t tokens = 0, forked = 0;
  for (const RequestSpec& request : scenario.requests) {
    tokens = std::max<std::uint64_t>(tokens, request.prompt.size() + request.max_tokens - 1);
  }
  for (const ForcedEvent& event : scenario.events) {
    if (event.type == ForcedEventType::Fork) forked += event.tokens.size();
  }
  return tokens + forked + draft_tokens(scenario);
}

bool every_hold_ends(const Scenario& scenario) {
  return std::ranges::all_of(scenario.requests, [&](const RequestSpec& request) {
    return !request.hold || std::ranges::any_of(scenario.events, [&](const ForcedEvent& event) {
      return event.type == ForcedEventType::Admit && event.request == request.key &&
             event.trigger.kind == Trigger::Kind::AtTick && event.trigger.value >= request.tick;
    });
  });
}

}  // namespace

std::vector<std::string> life_keys(const Scenario& scenario) {
  std::vector<std::string> keys;
  for (const RequestSpec& request : scenario.requests) keys.push_back(request.key);
  for (const ForcedEvent& event : scenario.events) {
    if (event.type == ForcedEventType::Fork) keys.push_back(event.as);
  }
  return keys;
}

Kept Kept::all(const Scenario& scenario) {
  return {std::vector<bool>(scenario.requests.size(), true),
          std::vector<bool>(scenario.events.size(), true),
          std::vector<bool>(scenario.faults.size(), true)};
}

Scenario keep(const Scenario& scenario, const Kept& kept) {
  const std::vector<std::string> old_keys = life_keys(scenario);
  const std::set<std::string> left = lives_left(scenario, kept);
  Scenario result = scenario;
  result.requests.clear();
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
    if (kept.requests[i]) result.requests.push_back(scenario.requests[i]);
  }
  const auto filter = [&](const std::vector<ForcedEvent>& from, const std::vector<bool>& mask) {
    std::vector<ForcedEvent> events;
    for (std::size_t i = 0; i < from.size(); ++i) {
      ForcedEvent event = from[i];
      if (!mask[i] || !adapt(event, old_keys, left)) continue;
      if (event.type == ForcedEventType::Fork && !left.contains(event.as)) continue;
      events.push_back(std::move(event));
    }
    return events;
  };
  result.events = filter(scenario.events, kept.events);
  result.faults = filter(scenario.faults, kept.faults);
  const std::vector<std::string> new_keys = life_keys(result);
  number_again(result.events, old_keys, new_keys);
  number_again(result.faults, old_keys, new_keys);
  return result;
}

void drop_unused(Scenario& scenario) {
  for (std::uint32_t i = static_cast<std::uint32_t>(scenario.adapters.size()); i-- > 0;) {
    const auto names = [&](const RequestSpec& request) { return request.adapter == i; };
    if (std::ranges::any_of(scenario.requests, names)) continue;
    scenario.adapters.erase(scenario.adapters.begin() + i);
    for (RequestSpec& request : scenario.requests) {
      if (request.adapter && *request.adapter > i) --*request.adapter;
    }
  }
  trace::EngineSettings& engine = scenario.engine;
  for (std::uint32_t i = static_cast<std::uint32_t>(engine.pools.size()); i-- > 0;) {
    const auto in_pool = [&](const auto& named) { return named.pool == i; };
    // An event of another type has pool 0 without meaning it.
    const auto event_in_pool = [&](const ForcedEvent& event) {
      const bool named = event.type == ForcedEventType::Evict ||
                         event.type == ForcedEventType::Flip ||
                         (event.type == ForcedEventType::Fail && !event.any_pool);
      return named && event.pool == i;
    };
    if (std::ranges::any_of(engine.groups, in_pool) ||
        std::ranges::any_of(scenario.events, event_in_pool) ||
        std::ranges::any_of(scenario.faults, event_in_pool)) {
      continue;
    }
    engine.pools.erase(engine.pools.begin() + i);
    const auto renumber = [&](auto& list) {
      for (auto& entry : list) {
        if (entry.pool > i) --entry.pool;
      }
    };
    renumber(engine.groups);
    renumber(scenario.events);
    renumber(scenario.faults);
  }
}

void drop_group(Scenario& scenario, std::size_t index) {
  scenario.engine.groups.erase(scenario.engine.groups.begin() + static_cast<std::ptrdiff_t>(index));
  drop_unused(scenario);
}

std::vector<trace::Tick*> times(Scenario& scenario) {
  std::vector<trace::Tick*> all;
  for (RequestSpec& request : scenario.requests) all.push_back(&request.tick);
  for (std::vector<ForcedEvent>* events : {&scenario.events, &scenario.faults}) {
    for (ForcedEvent& event : *events) {
      if (event.trigger.kind == Trigger::Kind::AtTick) all.push_back(&event.trigger.value);
    }
  }
  return all;
}

bool ends_by_itself(const Scenario& scenario) {
  if (!every_hold_ends(scenario)) return false;
  const trace::EngineSettings& engine = scenario.engine;
  const std::uint64_t tokens = longest(scenario);
  const std::uint64_t step =
      engine.enable_chunked_prefill ? 1 + draft_tokens(scenario) : tokens + 1;
  if (engine.max_num_batched_tokens < step) return false;
  if (!engine.speculative) return true;  // who can never fit is refused at arrival
  for (std::uint32_t pool = 0; pool < engine.pools.size(); ++pool) {
    std::uint64_t need = 0;
    for (const trace::GroupSpec& group : engine.groups) {
      if (group.pool == pool) need += (tokens + group.block_size - 1) / group.block_size;
    }
    if (engine.pools[pool].num_blocks < need) return false;
  }
  return true;
}

}  // namespace lockstep::harness
