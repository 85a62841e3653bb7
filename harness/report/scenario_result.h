// `result` of `run --scenario --json`: what a scenario run came to (docs/scenario.md, "Result").
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::harness {

// The scenario gives the names of groups and pools, and says who asked for log-probabilities. The
// same result gives the same document, key order included.
nlohmann::json scenario_result_json(const trace::Scenario& scenario,
                                    const trace::RunResult& result);

}  // namespace lockstep::harness
