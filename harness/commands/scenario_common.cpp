// What the commands about scenarios share: see scenario_commands.h.
#include <fmt/format.h>

#include <sstream>

#include "harness/commands/scenario_commands.h"
#include "oracles/timeline.h"

namespace lockstep::harness {

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() &&
                     text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=") ==
                         std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

TextStyle text_style(const CommonOptions& options) {
  return {wants_colour(options), options.verbose, options.quiet};
}

base::Status print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    return base::environment_error("standard output", "cannot be written");
  }
  return base::Ok{};
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

ShownFinding shown_finding(const oracles::Finding& finding, const trace::Scenario& scenario,
                           const std::vector<trace::Event>& events, bool with_scenario) {
  ShownFinding shown;
  shown.key = finding.key;
  shown.message = finding.message;
  shown.notes = finding.notes;
  if (with_scenario) shown.scenario = scenario_lines(scenario);
  std::istringstream timeline(oracles::timeline(scenario, events, finding));
  for (std::string line; std::getline(timeline, line);) shown.timeline.push_back(line);
  return shown;
}

ScenarioRunner ledger_runner() {
  return [](const trace::Scenario& scenario, const ScenarioRunOptions& options) {
    return run_scenario(scenario, options);
  };
}

}  // namespace lockstep::harness
