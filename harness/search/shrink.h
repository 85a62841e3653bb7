// What minimize tries: lists of smaller scenarios, and of numbers that may be smaller.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "trace/scenario.h"

namespace lockstep::harness {

using Edit = std::function<void(trace::Scenario&)>;

// Each sets a field, or some that belong together, back to the default.
std::vector<Edit> default_edits(const trace::Scenario& scenario);
// Shorter prompts, scripts and drafts; blocks of half the size, with prompts to match; arrivals and
// events closer together; prompts of small numbers.
std::vector<Edit> shorter_edits(const trace::Scenario& scenario);

// A number of a scenario that reads best when small.
struct Number {
  std::uint64_t value = 0, least = 0;
  std::function<void(trace::Scenario&, std::uint64_t)> set;
};
std::vector<Number> numbers(const trace::Scenario& scenario);

}  // namespace lockstep::harness
