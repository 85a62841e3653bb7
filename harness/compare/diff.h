// diff: two event streams: the first event in which they differ, both sides.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trace/event.h"

namespace lockstep::harness {

struct Difference {
  std::size_t index = 0;            // of the event
  std::string first, second;        // as a trace file holds them; "" past a stream's end
  std::optional<trace::Tick> tick;  // of the last event up to it that has one
};

// Exact: events are equal iff a trace file would hold the same line.
std::optional<Difference> first_difference(const std::vector<trace::Event>& first,
                                           const std::vector<trace::Event>& second);

// The two sides as lines of at most `width` columns, cut around the place where they part.
std::string shown_around(const std::string& text, std::size_t parting, std::size_t width);
std::size_t parting(const std::string& first, const std::string& second);

}  // namespace lockstep::harness
