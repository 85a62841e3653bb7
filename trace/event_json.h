// An Event as one JSON array, both ways, exactly: ["life_aborted", request, tick]. The elements
// after the name are the event's fields in the order of event.h; docs/trace_format.md lists them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "trace/event.h"

namespace lockstep::trace {

std::string_view name(const Event& event);  // "life_aborted"

// Whether a trace file holds it: all but OpCompleted, whose operands are blobs of their own.
bool is_stored(const Event& event);

// One line without the end of line. `event` is one that is stored.
std::string write_event(const Event& event);

// Nothing, and what is wrong in `problem`, where the array is no event.
std::optional<Event> read_event(const nlohmann::json& array, std::string& problem);

}  // namespace lockstep::trace
