// The generator's second half: what happens to the requests of a scenario.
#pragma once

#include "harness/search/generate.h"

namespace lockstep::harness {

// Tokens that all forks of a scenario are given together, at most.
inline constexpr std::uint32_t kForkTokensMax = 4;

// Appends events and faults of the features that are on; the requests are there already.
void generate_events(Choices& choices, const Features& features, trace::Scenario& scenario);

}  // namespace lockstep::harness
