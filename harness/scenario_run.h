// run_scenario: a ledger Scenario -> events -> verdicts and result. The one path of `run
// --scenario`, `replay`, `minimize` and `campaign`.
#pragma once

#include <vector>

#include "base/error.h"
#include "oracles/verdict.h"
#include "trace/event.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::harness {

struct ScenarioRunOptions {
  bool snapshots_and_steps = true;              // fill result.steps and result.snapshots
  std::vector<trace::Event>* record = nullptr;  // all events, in order, if wanted
};

struct ScenarioOutcome {
  trace::RunResult result;
  std::vector<oracles::Verdict> verdicts;
  std::uint64_t steps = 0;  // launches made

  // The first finding, or null.
  const oracles::Finding* finding() const;
};

// An Error: the scenario asks for what isn't built (exit 4), or can't be (exit 2).
base::Result<ScenarioOutcome> run_scenario(const trace::Scenario& scenario,
                                           const ScenarioRunOptions& options = {});

}  // namespace lockstep::harness
