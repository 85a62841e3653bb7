// minimize: the smallest scenario with the same finding: delta debugging (Zeller, Hildebrandt, IEEE
// TSE 2002) over requests, events and faults, then fields back to their defaults, prompts shorter,
// times earlier, numbers smaller, until nothing gets smaller or the budget of runs is spent.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "harness/scenario_run.h"
#include "trace/scenario.h"

namespace lockstep::harness {

// run_scenario(), or a test's stand-in.
using ScenarioRunner =
    std::function<base::Result<ScenarioOutcome>(const trace::Scenario&, const ScenarioRunOptions&)>;

// The finding of that key; null: there is none. An empty key: the finding of the earliest event.
const oracles::Finding* find_key(const ScenarioOutcome& outcome, const std::string& key);

struct MinimizeOptions {
  std::uint64_t runs_max = 4000;
  std::function<void(const std::string&)> progress = {};  // one line, replaced by the next
};

struct Minimized {
  trace::Scenario scenario;
  std::string key;
  std::uint64_t runs = 0;
  bool repeats = false;  // two more runs gave the same events
};

// Deterministic: the same scenario, key and runner give the same result. Error: the scenario can't
// be run, or has no finding of that key (empty: of any).
base::Result<Minimized> minimize(const trace::Scenario& scenario, const std::string& key,
                                 const ScenarioRunner& run, const MinimizeOptions& options = {});

}  // namespace lockstep::harness
