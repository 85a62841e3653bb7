// lockstep diff: two traces, or scenarios that are run: the first event in which they differ.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/commands/scenario_commands.h"

namespace lockstep::harness {
namespace {

struct DiffArguments {
  CommonOptions common;
  std::string first, second;
};

// Recorded events of a trace; of a scenario, those of a run.
base::Result<std::vector<trace::Event>> events_of(const std::string& path) {
  LS_ASSIGN(ScenarioFile file, open_scenario(path));
  if (file.trace) return std::move(file.trace->events);
  LS_ASSIGN(Recording recording, record(file.scenario, ledger_runner()));
  return std::move(recording.events);
}

base::Result<int> execute(const DiffArguments& arguments) {
  const Stopwatch watch;
  LS_ASSIGN(const std::vector<trace::Event> first, events_of(arguments.first));
  LS_ASSIGN(const std::vector<trace::Event> second, events_of(arguments.second));
  const std::optional<Difference> difference = first_difference(first, second);
  const auto verdict = difference ? oracles::VerdictKind::Finding : oracles::VerdictKind::Pass;
  if (arguments.common.json) {
    nlohmann::json document = document_json("diff", arguments.common.seed, verdict,
                                            nlohmann::json::array(), watch.seconds());
    document["events"] = {first.size(), second.size()};
    document["difference"] = nullptr;
    if (difference) {
      const auto side = [](const std::string& line) {
        return line.empty() ? nlohmann::json(nullptr) : nlohmann::json::parse(line);
      };
      document["difference"] = {
          {"event", difference->index},
          {"tick", difference->tick ? nlohmann::json(*difference->tick) : nlohmann::json(nullptr)},
          {"first", side(difference->first)},
          {"second", side(difference->second)}};
    }
    LS_TRY(print(document.dump(1) + "\n"));
    return exit_status(verdict);
  }
  ScenarioReport report;
  report.verdict = verdict;
  report.head = fmt::format("{} ({} events) beside {} ({} events)", arguments.first, first.size(),
                            arguments.second, second.size());
  if (difference) {
    const std::size_t at = parting(difference->first, difference->second);
    ShownFinding shown;
    shown.key = "diff";
    shown.message = fmt::format("event {}", difference->index);
    if (difference->tick) shown.message += fmt::format(", tick {}", *difference->tick);
    shown.notes = {"first      " + shown_around(difference->first, at, 86),
                   "second     " + shown_around(difference->second, at, 86)};
    report.findings.push_back(std::move(shown));
    report.last = fmt::format("they differ from event {} on   {}", difference->index,
                              seconds_text(watch.seconds()));
  } else {
    report.last =
        fmt::format("the same {} events   {}", first.size(), seconds_text(watch.seconds()));
  }
  LS_TRY(print(text_report(report, text_style(arguments.common))));
  return exit_status(verdict);
}

}  // namespace

void add_diff(CommandLine& program) {
  auto arguments = std::make_shared<DiffArguments>();
  const Command command =
      program.command("diff", "two traces: the first event that differs, both sides");
  command.option("first", arguments->first, "a trace (.lstrace), or a scenario, which is run")
      .required();
  command.option("second", arguments->second, "likewise").required();
  add_common(command, arguments->common);
  command.body([arguments] { return execute(*arguments); });
}

}  // namespace lockstep::harness
