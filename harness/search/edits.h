// Edits that keep a scenario whole: what is removed takes along what names it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/scenario.h"

namespace lockstep::harness {

// Keys of all lives: requests, then forks' children in the order of their events: what a trigger's
// `request` is an index into.
std::vector<std::string> life_keys(const trace::Scenario& scenario);

// One entry an item; false: it goes. Events that name a life that goes, go too, and rows of a
// forced step; triggers are numbered again.
struct Kept {
  std::vector<bool> requests, events, faults;
  static Kept all(const trace::Scenario& scenario);
};
trace::Scenario keep(const trace::Scenario& scenario, const Kept& kept);

// Adapters that no request names, and pools that neither a group nor an event names, go.
void drop_unused(trace::Scenario& scenario);
// Group `index` goes, with its pool if no other has it. There is more than one.
void drop_group(trace::Scenario& scenario, std::size_t index);

// Every field that holds a time: arrivals and triggers of kind Tick.
std::vector<trace::Tick*> times(trace::Scenario& scenario);

// On a right engine such a scenario ends by itself: what is held is admitted at some tick, and what
// is computed in one step, or has drafts, fits its budget and its pools. (A live request at
// max_ticks is a finding; it means something only here.)
bool ends_by_itself(const trace::Scenario& scenario);

}  // namespace lockstep::harness
