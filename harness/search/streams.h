// A run with its event stream.
#pragma once

#include <vector>

#include "base/error.h"
#include "harness/compare/diff.h"
#include "harness/search/minimize.h"

namespace lockstep::harness {

struct Recording {
  ScenarioOutcome outcome;
  std::vector<trace::Event> events;
};

inline base::Result<Recording> record(const trace::Scenario& scenario, const ScenarioRunner& run) {
  Recording recording;
  ScenarioRunOptions options;
  options.record = &recording.events;
  LS_ASSIGN(recording.outcome, run(scenario, options));
  return recording;
}

}  // namespace lockstep::harness
