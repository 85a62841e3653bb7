// What one request needs of pools that hold nothing else: blocks of positions [0, end) of each
// group, but those that lie wholly before the window of the step's first position.
#pragma once

#include <cstdint>

#include "trace/scenario.h"

namespace lockstep::oracles {

// Whether a step of positions [first, end) fits.
bool fits_in_empty_pools(const trace::EngineSettings& engine, std::uint32_t first,
                         std::uint32_t end);

// Whether a request runs alone: its prompt in steps as large as the settings allow, and any
// position in a step of one token.
bool runs_in_empty_pools(const trace::EngineSettings& engine, std::uint32_t prompt_tokens,
                         std::uint32_t tokens);

}  // namespace lockstep::oracles
