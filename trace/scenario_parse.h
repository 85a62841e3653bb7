// The parts of the scenario parser, a section of docs/scenario.md each. Used by
// scenario_parse*.cpp and scenario_write.cpp only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trace/scenario.h"
#include "trace/scenario_reader.h"

namespace lockstep::trace {

// Ids that a scenario's tokens may have: below tokenizer_size; of a device model, whose size only
// the model knows, below the loader's limit.
std::uint64_t token_limit(const Scenario& scenario, std::uint64_t vocabulary_size_limit);

// Token i of the prompt run {"seed": seed, "length": ...}: mix(8, seed, i) mod
// min(256, tokenizer_size); `modulus` is the latter. Defined here since it is what a file says.
TokenId run_token(std::uint64_t seed, std::uint64_t i, std::uint64_t modulus);
std::uint64_t run_modulus(const Scenario& scenario);

// A list of plain token ids below `limit`.
std::vector<TokenId> parse_tokens(const Field& field, std::uint64_t limit, std::uint64_t count_max);

void parse_engine(const Field& field, Scenario& scenario);
// After engine and adapters.
void parse_requests(const Field& field, std::uint64_t limit, Scenario& scenario);
// After requests.
void parse_events(const Field& events, const Field& faults, std::uint64_t limit,
                  Scenario& scenario);

}  // namespace lockstep::trace
