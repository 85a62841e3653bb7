#include "trace/event.h"

namespace lockstep::trace {

Event::Event() = default;
Event::~Event() = default;
Event::Event(const Event&) = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(const Event&) = default;
Event& Event::operator=(Event&&) noexcept = default;

}  // namespace lockstep::trace
