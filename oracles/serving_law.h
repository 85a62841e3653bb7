// ServingLaw: what the laws over serving events share: the ordinal of the event at hand, the tick,
// the lives' names, and findings that are described once a key and counted after that.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {

class ServingLaw : public Oracle {
 public:
  explicit ServingLaw(ScenarioPointer scenario) : scenario_(std::move(scenario)) {}

  void on_event(const trace::Event& event) final {
    std::visit(
        [this](const auto& what) {
          if constexpr (requires { what.tick; }) tick_ = what.tick;
          if constexpr (requires { what.client_id; }) began(what);
        },
        event);
    handle(event);
    ++event_index_;
  }

 protected:
  virtual void handle(const trace::Event& event) = 0;

  const trace::Scenario& scenario() const { return *scenario_; }
  trace::Tick tick() const { return tick_; }

  std::string name(trace::RequestId request) const {
    if (request.value < names_.size() && !names_[request.value].empty()) {
      return names_[request.value];
    }
    return fmt::format("#{}", request.value);
  }

  // One more of the finding `<law>.<kind>`; `describe()` gives its line if it is the first.
  template <class Describe>
  void fail(std::string_view kind, trace::RequestId request, std::optional<std::uint32_t> position,
            Describe&& describe) {
    bool is_new = false;
    Finding& finding = findings_.add(fmt::format("{}.{}", law(), kind), is_new);
    if (!is_new) return;
    finding.event_index = event_index_;
    finding.message = describe();
    finding.where.position = position;
    finding.where.request = ordinal(request);
  }

  Verdict verdict(std::uint64_t checked, const char* unit, const char* reason_if_none) {
    return verdict_of(law(), checked, unit, findings_, reason_if_none);
  }

 private:
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
