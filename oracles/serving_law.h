// ServingLaw: what the laws over serving events share: the ordinal of the event at hand, the tick,
// the lives' names, and findings that are described once a key and counted after that.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {

// A law derives from ServingLaw<Law> and has a public `on(const E&)` for each event E that it looks
// at; no others cost it more than a look at a table.
template <class Law>
class ServingLaw : public Oracle {
 public:
  explicit ServingLaw(ScenarioPointer scenario) : scenario_(std::move(scenario)) {}

  void on_event(const trace::Event& event) final {
    static constexpr auto kHandlers =
        handlers(std::make_index_sequence<std::variant_size_v<trace::AnyEvent>>{});
    if (const Handler handler = kHandlers[event.index()]) handler(static_cast<Law&>(*this), event);
    ++event_index_;
  }

 protected:
  const trace::Scenario& scenario() const { return *scenario_; }
  trace::Tick tick() const { return tick_; }

  std::string name(trace::RequestId request) const {
    if (request.value < names_.size() && !names_[request.value].empty()) {
      return names_[request.value];
    }
    return fmt::format("#{}", request.value);
  }

  struct BlockPlace {
    std::uint32_t pool = 0;
    trace::BlockId block;
  };

  // One more of the finding `<law>.<kind>`; `describe()` gives its line if it is the first.
  template <class Describe>
  void fail(std::string_view kind, trace::RequestId request, std::optional<std::uint32_t> position,
            Describe&& describe, std::optional<BlockPlace> block = std::nullopt) {
    bool is_new = false;
    Finding& finding = findings_.add(fmt::format("{}.{}", this->law(), kind), is_new);
    if (!is_new) return;
    finding.event_index = event_index_;
    finding.message = describe();
    finding.where.position = position;
    finding.where.request = ordinal(request);
    finding.request = request;
    if (!block) return;
    finding.pool = block->pool;
    finding.block = block->block;
  }

  Verdict verdict(std::uint64_t checked, const char* unit, const char* reason_if_none) {
    return verdict_of(this->law(), checked, unit, findings_, reason_if_none);
  }

 private:
  using Handler = void (*)(Law&, const trace::Event&);

  template <std::size_t kIndex>
  static constexpr Handler handler_of() {
    using What = std::variant_alternative_t<kIndex, trace::AnyEvent>;
    constexpr bool kJudged = requires(Law & law, const What& what) { law.on(what); };
    // Tokens are accepted in the tick of a completion, whose event comes first.
    constexpr bool kTimed = requires(const What& what) { what.tick; }
    &&!std::is_same_v<What, trace::TokensAccepted>;
    constexpr bool kNames = std::is_same_v<What, trace::LifeBegan>;
    if constexpr (kJudged || kTimed || kNames) {
      return [](Law& law, const trace::Event& event) {
        const What& what = *std::get_if<kIndex>(&event);
        ServingLaw& self = law;
        if constexpr (kTimed) self.tick_ = what.tick;
        if constexpr (kNames) self.began(what);
        if constexpr (kJudged) law.on(what);
      };
    } else {
      return nullptr;
    }
  }
  template <std::size_t... kIndices>
  static constexpr std::array<Handler, sizeof...(kIndices)> handlers(
      std::index_sequence<kIndices...>) {
    return {handler_of<kIndices>()...};
  }

  // Its place in the scenario; forked lives come after those of the file.
  std::uint32_t ordinal(trace::RequestId request) const {
    const std::string key = name(request);
    for (std::uint32_t i = 0; i < scenario_->requests.size(); ++i) {
      if (scenario_->requests[i].key == key) return i;
    }
    return request.value;
  }

  void began(const trace::LifeBegan& life) {
    if (life.request.value >= names_.size()) names_.resize(life.request.value + 1);
    names_[life.request.value] = life.key;
  }

  ScenarioPointer scenario_;
  FindingList findings_;
  std::vector<std::string> names_;
  std::uint64_t event_index_ = 0;
  trace::Tick tick_ = 0;
};

// Element `id` of a vector that grows as ids come.
template <class T>
T& grown(std::vector<T>& list, std::uint32_t id) {
  if (id >= list.size()) list.resize(id + std::size_t{1});
  return list[id];
}

}  // namespace lockstep::oracles
