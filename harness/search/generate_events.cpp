#include "harness/search/generate_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::harness {
namespace {

using trace::ForcedEvent;
using trace::ForcedEventType;
using trace::RequestSpec;
using trace::Scenario;
using trace::Trigger;

class EventGenerator {
 public:
  EventGenerator(Choices& choices, const Features& features, Scenario& scenario)
      : choose_(choices), features_(features), scenario_(scenario) {
    for (const RequestSpec& request : scenario_.requests) {
      lives_.push_back(request.key);
      last_arrival_ = std::max(last_arrival_, request.tick);
    }
  }

  void events() {
    holds();
    if (on(Feature::IdReuse)) reuse();
    if (on(Feature::Forks)) forks();
    if (on(Feature::Cancels)) repeat(3, [&] { cancel(); });
    if (on(Feature::Preempts)) repeat(3, [&] { preempt(); });
    if (on(Feature::Evictions)) repeat(2, [&] { evict(); });
    if (on(Feature::Schedules)) repeat(4, [&] { schedule(); });
    if (on(Feature::Completions)) repeat(3, [&] { completion(); });
    if (on(Feature::Stalls)) repeat(2, [&] { stall(); });
    if (on(Feature::Failures)) repeat(3, [&] { failure(); });
    if (on(Feature::Flips)) flip();
    if (on(Feature::DeviceLost)) lose_device();
  }

 private:
  bool on(Feature feature) const { return features_[static_cast<std::size_t>(feature)]; }
  template <class Action>
  void repeat(std::uint32_t most, const Action& action) {
    for (std::uint32_t i = choose_.between(1, most); i > 0; --i) action();
  }
  std::uint64_t tick() { return choose_.below(last_arrival_ + 12); }
  std::uint64_t launch() { return choose_.below(last_arrival_ + 10); }
  const std::string& life() { return choose_.pick(lives_); }

  static Trigger at(std::uint64_t value, Trigger::Kind kind = Trigger::Kind::AtTick) {
    Trigger trigger;
    trigger.kind = kind;
    trigger.value = value;
    return trigger;
  }
  // Of a life, mostly: what comes at once after a step is where states meet.
  Trigger any_trigger() {
    const std::uint32_t kind = choose_.small(8);
    if (kind < 3) return at(tick());
    if (kind == 3) return at(launch(), Trigger::Kind::Launch);
    const auto request = choose_.small(static_cast<std::uint32_t>(scenario_.requests.size()));
    const RequestSpec& spec = scenario_.requests[request];
    const bool emitted = kind < 6;
    Trigger trigger = emitted ? at(choose_.between(1, spec.max_tokens), Trigger::Kind::Emitted)
                              : at(1 + choose_.below(spec.prompt.size() + spec.max_tokens),
                                   Trigger::Kind::Computed);
    trigger.request = request;
    return trigger;
  }
  // Mostly while that life is there: elsewhere an event changes nothing.
  Trigger trigger_for(const std::string& key) {
    if (choose_.chance(15)) return any_trigger();
    const auto index = static_cast<std::uint32_t>(std::ranges::find(lives_, key) - lives_.begin());
    if (index >= scenario_.requests.size()) {  // a child: how far it is depends on its parent
      Trigger trigger = at(choose_.between(1, 4), Trigger::Kind::Emitted);
      trigger.request = index;
      return trigger;
    }
    const RequestSpec& spec = scenario_.requests[index];
    const std::uint32_t kind = choose_.small(5);
    if (kind < 2) return at(spec.tick + choose_.below(8));
    Trigger trigger = kind == 2 ? at(1 + choose_.below(spec.prompt.size() + spec.max_tokens),
                                     Trigger::Kind::Computed)
                                : at(choose_.between(1, spec.max_tokens), Trigger::Kind::Emitted);
    trigger.request = index;
    return trigger;
  }
  ForcedEvent event(ForcedEventType type, const Trigger& trigger, std::string request = "") {
    ForcedEvent made;
    made.type = type;
    made.trigger = trigger;
    made.request = std::move(request);
    return made;
  }
  // At any life. One draw a statement: the order of arguments is the compiler's.
  ForcedEvent aimed(ForcedEventType type) {
    const std::string who = life();
    const Trigger trigger = trigger_for(who);
    return event(type, trigger, who);
  }
  void add(ForcedEvent made) { scenario_.events.push_back(std::move(made)); }

  // Every hold ends.
  void holds() {
    for (const RequestSpec& request : scenario_.requests) {
      if (!request.hold) continue;
      if (choose_.chance(25)) add(event(ForcedEventType::Admit, any_trigger(), request.key));
      add(event(ForcedEventType::Admit, at(request.tick + choose_.below(12)), request.key));
    }
  }

  // The old life of an id ends about when the next one comes.
  void reuse() {
    const RequestSpec* former = nullptr;
    for (const RequestSpec& request : scenario_.requests) {
      if (request.id == request.key) continue;
      if (former && choose_.chance(85)) {
        const std::uint64_t earlier = choose_.below(3);
        ForcedEvent made =
            event(ForcedEventType::Cancel,
                  at(request.tick - std::min<std::uint64_t>(earlier, request.tick)), former->key);
        if (choose_.chance(20)) made.delay = choose_.below(3);
        add(std::move(made));
      }
      former = &request;
    }
  }

  void forks() {
    for (std::uint32_t i = 0, count = choose_.between(1, 2); i < count; ++i) {
      ForcedEvent made = aimed(ForcedEventType::Fork);
      made.as = fmt::format("F{}", i);
      made.back = choose_.small(3);
      const auto bytes = std::min<std::uint32_t>(256, scenario_.ledger.tokenizer_size);
      for (std::uint32_t token = choose_.small(3); token > 0; --token) {
        made.tokens.push_back(choose_.small(bytes));
      }
      lives_.push_back(made.as);
      add(std::move(made));
    }
  }

  void cancel() {
    const auto type = choose_.chance(35) ? ForcedEventType::Disconnect : ForcedEventType::Cancel;
    ForcedEvent made = aimed(type);
    if (choose_.chance(30)) made.delay = choose_.below(4);
    add(std::move(made));
  }

  void preempt() { add(aimed(ForcedEventType::Preempt)); }

  void evict() {
    if (choose_.chance(40)) {
      add(event(ForcedEventType::ResetPrefixCache, any_trigger()));
      return;
    }
    ForcedEvent made = event(ForcedEventType::Evict, any_trigger());
    made.pool = pool();
    made.blocks = choose_.between(1, 4);
    add(std::move(made));
  }
  std::uint32_t pool() {
    return choose_.small(static_cast<std::uint32_t>(scenario_.engine.pools.size()));
  }

  // Rows of requests that have come: a part of the prompt at first, then a token.
  void schedule() {
    ForcedEvent made = event(ForcedEventType::Schedule, at(0));
    const trace::Tick when = choose_.pick(scenario_.requests).tick + choose_.below(5);
    made.trigger.value = when;
    std::vector<const RequestSpec*> come;
    for (const RequestSpec& request : scenario_.requests) {
      if (request.tick <= when) come.push_back(&request);
    }
    const auto count = static_cast<std::uint32_t>(come.size());
    for (std::uint32_t rows = choose_.between(1, std::min(3u, count)); rows > 0; --rows) {
      const auto index = choose_.small(static_cast<std::uint32_t>(come.size()));
      const RequestSpec& request = *come[index];
      const auto prompt = static_cast<std::uint32_t>(request.prompt.size());
      const bool chunk = when < request.tick + 2 || choose_.chance(30);
      made.rows.emplace_back(request.key, chunk ? choose_.between(1, prompt) : 1);
      come.erase(come.begin() + index);
    }
    add(std::move(made));
  }

  void completion() {
    constexpr std::array<ForcedEventType, 4> kTypes = {ForcedEventType::Late, ForcedEventType::Late,
                                                       ForcedEventType::Duplicate,
                                                       ForcedEventType::Lost};
    const ForcedEventType type = choose_.pick(kTypes);
    const std::uint64_t ordinal = launch();
    ForcedEvent made = event(type, at(ordinal, Trigger::Kind::Launch));
    made.launch = ordinal;
    if (type == ForcedEventType::Lost) {
      shorter_watchdog();
    } else {
      made.ticks = choose_.between(1, 6);
      // Beyond the watchdog: it comes for a launch that was given up.
      if (choose_.chance(15)) {
        shorter_watchdog();
        made.ticks = scenario_.engine.watchdog_ticks + choose_.between(0, 3);
      }
    }
    add(std::move(made));
  }
  // What is lost is to be given up soon, so that runs stay short; never before what is merely late.
  void shorter_watchdog() {
    if (choose_.chance(80)) {
      scenario_.engine.watchdog_ticks = scenario_.engine.async_depth + choose_.between(6, 12);
    }
  }

  void stall() {
    ForcedEvent made = event(ForcedEventType::Stall, any_trigger());
    made.ticks = choose_.between(1, choose_.chance(10) ? 24 : 5);
    add(std::move(made));
  }

  void failure() {
    ForcedEvent made = event(ForcedEventType::Fail, any_trigger());
    made.what = choose_.pick(std::array<trace::FailPoint, 5>{
        trace::FailPoint::BlockAlloc, trace::FailPoint::Launch, trace::FailPoint::HostAlloc,
        trace::FailPoint::DeviceAlloc, trace::FailPoint::BlockAlloc});
    made.nth = choose_.between(1, 5);
    made.count = choose_.between(1, 3);
    if (made.what == trace::FailPoint::BlockAlloc && choose_.chance(40)) {
      made.any_pool = false;
      made.pool = pool();
    }
    scenario_.faults.push_back(std::move(made));
  }

  void flip() {
    ForcedEvent made = event(ForcedEventType::Flip, any_trigger());
    made.pool = pool();
    made.block = choose_.small(std::min(8u, scenario_.engine.pools[made.pool].num_blocks));
    std::uint32_t cells = 4096;
    for (const trace::GroupSpec& group : scenario_.engine.groups) {
      if (group.pool == made.pool) cells = std::min(cells, group.block_size);
    }
    made.offset = choose_.small(cells);
    made.bits = 1 + choose_.below(255);
    scenario_.faults.push_back(std::move(made));
  }

  void lose_device() {
    scenario_.faults.push_back(event(ForcedEventType::DeviceLost, any_trigger()));
  }

  Choices& choose_;
  const Features& features_;
  Scenario& scenario_;
  std::vector<std::string> lives_;  // requests, then forked ones: what an event may name
  trace::Tick last_arrival_ = 0;
};

}  // namespace

void generate_events(Choices& choices, const Features& features, Scenario& scenario) {
  EventGenerator(choices, features, scenario).events();
}

}  // namespace lockstep::harness
