// timeline: the ticks around a finding as text, for people: a row a request, a column a tick, and
// what happened to the block that the finding names.
#pragma once

#include <string>
#include <vector>

#include "oracles/verdict.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::oracles {

// ASCII, at most 100 columns and about 20 lines; empty where no event has a tick. `events`: the run
// that the laws judged, whole and in order.
std::string timeline(const trace::Scenario& scenario, const std::vector<trace::Event>& events,
                     const Finding& finding);

}  // namespace lockstep::oracles
