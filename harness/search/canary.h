// The canary: a run that is wrong on purpose must be found wrong before a campaign says that
// thousands are right.
#pragma once

#include <string>

#include "harness/search/minimize.h"

namespace lockstep::harness {

// Runs a small scenario whose cell a fault changes, and judges its events with every word of the
// fault left out. True: a law objects. `what` gets the finding's key, or what was expected.
bool canary_sings(const ScenarioRunner& run, std::string& what);

}  // namespace lockstep::harness
