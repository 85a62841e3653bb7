// LedgerSubject: drives our engine through a Scenario on the ledger, tick by tick
// (docs/scenario.md, "Time"): completions, cancels, arrivals and other events, one step, streams,
// clients. Nothing but the tick moves.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trace/event.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::harness {

// One life as the reference must answer it.
struct LedgerLife {
  trace::RequestId id;
  std::uint32_t request = 0;  // index into Scenario::requests: whose prompt, script and sampling
  std::vector<trace::TokenId> inherited;  // a fork's outputs at its birth
  std::uint64_t seed = 0;                 // of its draws
  std::uint32_t result = 0;               // index into RunResult::requests
};

struct LedgerRun {
  trace::RunResult result;
  std::vector<LedgerLife> lives;  // that began, refused ones left out
};

// Runs `scenario` (drafts resolved, executor ledger) until every request has ended, or max_ticks.
// A failed check of the engine's own ends it and is an event. `observe`: fill steps and snapshots.
LedgerRun run_ledger(const trace::Scenario& scenario, bool observe,
                     const std::function<void(trace::Event)>& sink);

}  // namespace lockstep::harness
