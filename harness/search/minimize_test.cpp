// minimize with stand-in engines whose bugs are known.
#include "harness/search/minimize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/search/edits.h"
#include "harness/search/generate.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using trace::ForcedEventType;
using trace::Scenario;

ScenarioOutcome outcome_with(std::vector<std::string> keys) {
  ScenarioOutcome outcome;
  oracles::Verdict verdict;
  verdict.law = "fake";
  verdict.kind = oracles::VerdictKind::Pass;
  verdict.checked = 1;
  for (std::string& key : keys) {
    verdict.kind = oracles::VerdictKind::Finding;
    oracles::Finding finding;
    finding.event_index = verdict.findings.size();
    finding.key = std::move(key);
    verdict.findings.push_back(std::move(finding));
  }
  outcome.verdicts.push_back(std::move(verdict));
  return outcome;
}

// Wrong where `is_wrong` says so.
template <class IsWrong>
ScenarioRunner engine(IsWrong is_wrong, int* runs = nullptr) {
  return [=](const Scenario& scenario, const ScenarioRunOptions& options) {
    if (runs != nullptr) ++*runs;
    const bool wrong = is_wrong(scenario);
    if (options.record != nullptr) {
      options.record->push_back(trace::RunEnded{scenario.size(), {}});
    }
    ScenarioOutcome outcome =
        outcome_with(wrong ? std::vector<std::string>{"fake.bug"} : std::vector<std::string>{});
    for (std::size_t i = 0; i < scenario.events.size() + scenario.faults.size(); ++i) {
      outcome.result.events.push_back({"event", 3, true, ""});
    }
    return base::Result<ScenarioOutcome>(std::move(outcome));
  };
}

bool has_cancel(const Scenario& scenario) {
  return std::ranges::any_of(scenario.events, [](const trace::ForcedEvent& event) {
    return event.type == ForcedEventType::Cancel;
  });
}
bool has_long_prompt(const Scenario& scenario, std::size_t tokens) {
  return std::ranges::any_of(scenario.requests, [&](const trace::RequestSpec& request) {
    return request.prompt.size() >= tokens;
  });
}

// A case of the generator that the stand-in gets wrong.
template <class IsWrong>
Scenario wrong_case(IsWrong is_wrong, std::size_t size) {
  for (std::uint64_t number = 0;; ++number) {
    Scenario scenario = generate(1, number);
    if (scenario.size() >= size && is_wrong(scenario)) return scenario;
  }
}

TEST(Minimize, FindsTheKnownMinimumAndKeepsTheKey) {
  const auto wrong = [](const Scenario& scenario) {
    return has_cancel(scenario) && has_long_prompt(scenario, 7) &&
           scenario.engine.async_depth >= 2 && scenario.requests.size() >= 2;
  };
  const Scenario start = wrong_case(wrong, 10);
  const base::Result<Minimized> result = minimize(start, "", engine(wrong));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->key, "fake.bug");
  EXPECT_TRUE(result->repeats);
  EXPECT_LT(result->runs, 1000u);
  const Scenario& small = result->scenario;
  EXPECT_EQ(small.size(), 3u) << trace::write_scenario(small);
  EXPECT_EQ(small.engine.async_depth, 2u);
  EXPECT_EQ(small.requests[0].prompt.size() + small.requests[1].prompt.size(), 8u);
  EXPECT_EQ(small.requests[0].max_tokens, 1u);
  EXPECT_EQ(small.requests[0].tick, 0u);
  EXPECT_EQ(small.events[0].trigger.kind, trace::Trigger::Kind::AtTick);
  // All else is as the format has it by default.
  const trace::EngineSettings usual;
  EXPECT_EQ(small.engine.max_num_batched_tokens, usual.max_num_batched_tokens);
  EXPECT_EQ(small.engine.pools[0].num_blocks, usual.pools[0].num_blocks);
  EXPECT_EQ(small.engine.groups.size(), 1u);
  EXPECT_FALSE(small.engine.speculative.has_value());
  EXPECT_TRUE(small.adapters.empty());
  EXPECT_TRUE(small.faults.empty());
}

TEST(Minimize, PrintsAScenarioOfSizeEightInAboutEightLines) {
  const auto wrong = [](const Scenario& scenario) { return scenario.size() >= 8; };
  const base::Result<Minimized> result = minimize(wrong_case(wrong, 12), "", engine(wrong));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->scenario.size(), 8u);
  const std::string text = trace::write_scenario(result->scenario);
  EXPECT_LE(std::ranges::count(text, '\n'), 9) << text;
}

TEST(Minimize, KeepsThatItIsTheFirstFinding) {
  // With a cancel the other thing goes wrong first.
  const ScenarioRunner run = [](const Scenario& scenario, const ScenarioRunOptions&) {
    std::vector<std::string> keys;
    if (scenario.requests.size() < 3) keys.emplace_back("fake.other");
    if (has_long_prompt(scenario, 3)) keys.emplace_back("fake.bug");
    return base::Result<ScenarioOutcome>(outcome_with(keys));
  };
  const Scenario start = wrong_case(
      [](const Scenario& scenario) {
        return scenario.requests.size() >= 4 && has_long_prompt(scenario, 10);
      },
      8);
  const base::Result<Minimized> result = minimize(start, "", run);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->key, "fake.bug");
  EXPECT_EQ(result->scenario.requests.size(), 3u);
}

TEST(Minimize, IsTheSameTwiceAndStaysInItsBudget) {
  const auto wrong = [](const Scenario& scenario) { return has_long_prompt(scenario, 5); };
  const Scenario start = wrong_case(wrong, 8);
  int runs = 0;
  MinimizeOptions options;
  options.runs_max = 40;
  const auto first = minimize(start, "fake.bug", engine(wrong, &runs), options);
  EXPECT_LE(runs, 44);
  const auto second = minimize(start, "fake.bug", engine(wrong), options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(trace::write_scenario(first->scenario), trace::write_scenario(second->scenario));
  EXPECT_EQ(first->runs, second->runs);
}

TEST(Minimize, WhatEndsByItselfGoesOnDoingSo) {
  // A stand-in that calls every run stuck: the shrinker must not make one that has to be.
  const auto wrong = [](const Scenario& scenario) { return !scenario.requests.empty(); };
  for (std::uint64_t number = 0; number < 40; ++number) {
    const auto result = minimize(generate(2, number), "", engine(wrong));
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(ends_by_itself(result->scenario)) << trace::write_scenario(result->scenario);
    EXPECT_EQ(result->scenario.size(), 1u);
  }
}

TEST(Minimize, SaysSoWhereThereIsNothingToFind) {
  const auto right = [](const Scenario&) { return false; };
  const auto none = minimize(generate(1, 0), "", engine(right));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().exit_status(), 2);
}

TEST(Minimize, SaysSoWhereARunDoesNotRepeat) {
  std::uint64_t calls = 0;
  const ScenarioRunner run = [&](const Scenario&, const ScenarioRunOptions& options) {
    if (options.record != nullptr) options.record->push_back(trace::RunEnded{++calls, {}});
    return base::Result<ScenarioOutcome>(outcome_with({"fake.bug"}));
  };
  const auto result = minimize(generate(1, 0), "", run);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->repeats);
}

TEST(Edits, ARequestTakesAlongWhatNamesIt) {
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const Scenario scenario = generate(9, number);
    Kept kept = Kept::all(scenario);
    kept.requests[number % kept.requests.size()] = false;
    const Scenario less = keep(scenario, kept);
    ASSERT_EQ(less.requests.size() + 1, scenario.requests.size());
    if (less.requests.empty()) continue;
    const std::string text = trace::write_scenario(less);
    ASSERT_TRUE(trace::parse_scenario(text, "less").ok()) << text;
    // Nothing but what named it is gone, and whom a trigger names is the same.
    const std::string gone = scenario.requests[number % scenario.requests.size()].key;
    const auto keys = life_keys(less);
    for (const trace::ForcedEvent& event : less.events) EXPECT_NE(event.request, gone);
    EXPECT_EQ(std::ranges::count(keys, gone), 0);
  }
}

}  // namespace
}  // namespace lockstep::harness
