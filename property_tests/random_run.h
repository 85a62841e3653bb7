// Random runs of tiny models: from a seed, everything that `lockstep run` lets a user choose.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run.h"
#include "model/model.h"
#include "trace/scenario.h"

namespace lockstep::property_tests {

struct RandomRun {
  trace::Scenario scenario;
  harness::RunOptions options;
  std::string command;  // "./lockstep run tiny:...": repeats it
};

// Architecture, weight type, generation, operand format, approximation mode, page size, chunk size
// and ragged prompts, all drawn from `seed`.
RandomRun random_run(std::uint64_t seed);

// The scenario's model; a check fails if there is none of that name.
model::Model open(const RandomRun& run);

// One line a finding, for a test's message; empty if there is none.
std::string findings(const harness::RunOutcome& outcome);

}  // namespace lockstep::property_tests
