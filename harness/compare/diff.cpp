#include "harness/compare/diff.h"

#include <algorithm>
#include <variant>

#include "trace/event_json.h"

namespace lockstep::harness {
namespace {

std::string line_of(const std::vector<trace::Event>& events, std::size_t index) {
  return index < events.size() ? trace::write_event(events[index]) : std::string();
}

std::optional<trace::Tick> tick_of(const trace::Event& event) {
  return std::visit(
      [](const auto& what) -> std::optional<trace::Tick> {
        if constexpr (requires { what.tick; }) return what.tick;
        return std::nullopt;
      },
      event);
}

// An operation's operands are blobs of their own; it is no event of a serving run.
bool compared(const trace::Event& event) { return trace::is_stored(event); }

}  // namespace

std::optional<Difference> first_difference(const std::vector<trace::Event>& first,
                                           const std::vector<trace::Event>& second) {
  Difference difference;
  const std::size_t count = std::max(first.size(), second.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto* events : {&first, &second}) {
      if (i >= events->size()) continue;
      if (const auto tick = tick_of((*events)[i])) difference.tick = tick;
    }
    if (i < first.size() && i < second.size() && !compared(first[i]) && !compared(second[i])) {
      continue;
    }
    difference.first = line_of(first, i);
    difference.second = line_of(second, i);
    if (difference.first == difference.second) continue;
    difference.index = i;
    return difference;
  }
  return std::nullopt;
}

std::size_t parting(const std::string& first, const std::string& second) {
  const auto [a, b] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  return static_cast<std::size_t>(a - first.begin());
}

std::string shown_around(const std::string& text, std::size_t parting, std::size_t width) {
  if (text.empty()) return "(the stream has ended)";
  if (text.size() <= width) return text;
  // A third of the line is what both say before it.
  const std::size_t before = width / 3;
  const std::size_t begin = parting > before ? parting - before : 0;
  std::string cut = text.substr(begin, width);
  if (begin > 0) cut.replace(0, 3, "...");
  if (begin + width < text.size()) cut.replace(cut.size() - 3, 3, "...");
  return cut;
}

}  // namespace lockstep::harness
