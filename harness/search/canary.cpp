#include "harness/search/canary.h"

#include <algorithm>
#include <memory>
#include <variant>
#include <vector>

#include "harness/search/streams.h"
#include "oracles/oracle.h"

namespace lockstep::harness {
namespace {

// Block 0 holds the start of the prompt: every later token depends on it.
trace::Scenario flipped_run() {
  trace::Scenario scenario;
  scenario.seed = 0;
  scenario.executor = trace::ExecutorKind::Ledger;
  scenario.engine.block_size = 4;
  for (trace::GroupSpec& group : scenario.engine.groups) group.block_size = 4;
  trace::RequestSpec request;
  request.key = request.id = "A";
  request.prompt = {1, 2, 3, 4, 5};
  request.max_tokens = 8;
  scenario.requests.push_back(request);
  trace::ForcedEvent flip;
  flip.type = trace::ForcedEventType::Flip;
  flip.trigger.value = 3;  // tick
  flip.block = 0;
  flip.offset = 1;
  scenario.faults.push_back(flip);
  return scenario;
}

}  // namespace

bool canary_sings(const ScenarioRunner& run, std::string& what) {
  trace::Scenario scenario = flipped_run();
  const base::Result<Recording> recording = record(scenario, run);
  if (!recording) {
    what = "the canary cannot be run: " + recording.error().message();
    return false;
  }
  // A subject that is wrong anyhow shows that the laws are awake.
  if (const oracles::Finding* finding = find_key(recording->outcome, "")) {
    what = finding->key;
    return true;
  }
  scenario.faults.clear();
  const auto laws = oracles::serving_laws(scenario);
  for (const trace::Event& event : recording->events) {
    if (std::holds_alternative<trace::CellsFlipped>(event) ||
        std::holds_alternative<trace::RequestTouched>(event)) {
      continue;
    }
    for (const auto& law : laws) law->on_event(event);
  }
  ScenarioOutcome outcome;
  for (const auto& law : laws) outcome.verdicts.push_back(law->finish(outcome.verdicts));
  if (const oracles::Finding* finding = find_key(outcome, "")) {
    what = finding->key;
    return true;
  }
  what = "a run with a changed cell passes all laws";
  return false;
}

}  // namespace lockstep::harness
