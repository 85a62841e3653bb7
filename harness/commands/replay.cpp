// lockstep replay: a scenario or a trace again: same events, same verdict.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/commands/replay_operation.h"
#include "harness/commands/scenario_commands.h"

namespace lockstep::harness {
namespace {

struct ReplayArguments {
  CommonOptions common;
  std::string file;
  std::uint32_t times = 2;
};

// What a replay showed beside the verdict.
struct Comparison {
  std::string recorded;  // "same events, 212 of 212"
  std::optional<Difference> recorded_difference;
  std::optional<Difference> between;  // two runs here: lockstep or its subject is not repeatable
};

base::Result<Comparison> compare(const ScenarioFile& file, const Recording& first,
                                 std::uint32_t times) {
  Comparison comparison;
  for (std::uint32_t i = 1; i < times && !comparison.between; ++i) {
    LS_ASSIGN(const Recording again, record(file.scenario, ledger_runner()));
    comparison.between = first_difference(first.events, again.events);
  }
  if (!file.trace) {
    comparison.recorded =
        fmt::format("no events in this file; {} runs gave the same {}", times, first.events.size());
    return comparison;
  }
  comparison.recorded_difference = first_difference(file.trace->events, first.events);
  if (!comparison.recorded_difference) {
    comparison.recorded =
        fmt::format("same events, {} of {}", first.events.size(), file.trace->events.size());
  } else {
    comparison.recorded =
        fmt::format("other events from event {} of {} on", comparison.recorded_difference->index,
                    file.trace->events.size());
    if (comparison.recorded_difference->tick) {
      comparison.recorded += fmt::format(", tick {}", *comparison.recorded_difference->tick);
    }
  }
  return comparison;
}

std::vector<std::string> difference_lines(const Difference& difference, const char* first,
                                          const char* second) {
  const std::size_t at = parting(difference.first, difference.second);
  return {fmt::format("{:<10} {}", first, shown_around(difference.first, at, 86)),
          fmt::format("{:<10} {}", second, shown_around(difference.second, at, 86))};
}

void add_lines(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

std::string head_of(const ScenarioFile& file) {
  std::string head = fmt::format("{} on the ledger: {}, seed {}", file.path,
                                 size_text(file.scenario), file.scenario.seed);
  if (file.trace) head += "; recorded by lockstep " + file.trace->program_version;
  return head;
}

nlohmann::json replay_json(const ScenarioFile& file, const Recording& recording,
                           const Comparison& comparison, const std::string& command,
                           double seconds) {
  const oracles::VerdictKind verdict =
      comparison.between ? oracles::VerdictKind::Finding : verdict_of(recording.outcome.verdicts);
  nlohmann::json document = document_json("replay", file.scenario.seed, verdict,
                                          laws_json(recording.outcome.verdicts, command), seconds);
  const oracles::Finding* finding = find_key(recording.outcome, "");
  document["recorded"] = {
      {"finding",
       file.finding_key.empty() ? nlohmann::json(nullptr) : nlohmann::json(file.finding_key)},
      {"events", file.trace ? nlohmann::json(file.trace->events.size()) : nlohmann::json(nullptr)},
      {"same_events",
       file.trace ? nlohmann::json(!comparison.recorded_difference) : nlohmann::json(nullptr)},
      {"same_finding", (finding ? finding->key : "") == file.finding_key}};
  document["events"] = recording.events.size();
  document["repeats"] = !comparison.between;
  return document;
}

// The last line, after the verdict's word.
std::string last_line(const ScenarioFile& file, const Recording& recording,
                      const oracles::Finding* finding, const Comparison& comparison) {
  if (comparison.between) return "comes and goes: two runs differ";
  const std::string& key = file.finding_key;
  if (finding != nullptr) {
    if (key.empty()) return "new: " + finding->key;
    return finding->key == key ? "repeats" : fmt::format("another: {}, not {}", finding->key, key);
  }
  const std::string laws = fmt::format("{} events, {}", recording.events.size(),
                                       laws_text(recording.outcome.verdicts, ""));
  return key.empty() ? laws : fmt::format("gone: {}", laws);
}

base::Result<int> execute(const ReplayArguments& arguments) {
  const Stopwatch watch;
  if (arguments.file.ends_with(".lstrace")) {
    LS_ASSIGN(const trace::Trace trace, trace::read_trace(arguments.file));
    if (holds_operation(trace)) {
      return replay_operation(trace, arguments.common, arguments.file);
    }
  }
  LS_ASSIGN(const ScenarioFile file, open_scenario(arguments.file));
  LS_ASSIGN(const Recording recording, record(file.scenario, ledger_runner()));
  LS_ASSIGN(const Comparison comparison, compare(file, recording, arguments.times));
  const std::string command = "./lockstep replay " + shell_quoted(arguments.file);
  const oracles::Finding* finding = find_key(recording.outcome, "");
  ScenarioReport report;
  report.verdict =
      comparison.between ? oracles::VerdictKind::Finding : verdict_of(recording.outcome.verdicts);
  const int status = exit_status(report.verdict);
  if (arguments.common.json) {
    LS_TRY(
        print(replay_json(file, recording, comparison, command, watch.seconds()).dump(1) + "\n"));
    return status;
  }
  report.head = head_of(file);
  std::string recorded = "recorded   " + comparison.recorded;
  if (finding != nullptr && !file.finding_key.empty()) {
    recorded +=
        finding->key == file.finding_key ? "; same finding" : "; it was " + file.finding_key;
  }
  std::vector<std::string> lines{recorded};
  if (comparison.recorded_difference) {
    add_lines(lines, difference_lines(*comparison.recorded_difference, "then", "now"));
  }
  if (comparison.between) {
    lines.push_back(fmt::format("two runs   differ from event {} on", comparison.between->index));
    add_lines(lines, difference_lines(*comparison.between, "once", "again"));
  }
  if (finding != nullptr) {
    report.findings.push_back(
        shown_finding(*finding, file.scenario, recording.events, file.scenario.size() <= 10));
    add_lines(report.findings.back().notes, lines);
  } else {
    for (const std::string& line : lines) report.lines.push_back("  " + line);
  }
  report.last = fmt::format("{}   {}", last_line(file, recording, finding, comparison),
                            seconds_text(watch.seconds()));
  LS_TRY(print(text_report(report, text_style(arguments.common))));
  return status;
}

}  // namespace

void add_replay(CommandLine& program) {
  auto arguments = std::make_shared<ReplayArguments>();
  const Command command =
      program.command("replay", "a scenario or a trace again: same events, same verdict");
  command.option("file", arguments->file, "a scenario (.json) or a trace (.lstrace)").required();
  command.option("--times", arguments->times, "runs, which must all give the same events")
      .in_range(1, 1000)
      .shows_default();
  add_common(command, arguments->common);
  command.option("--device", arguments->common.device,
                 "of a recorded operation: list of vgpu:sm_80, ..., vgpu:all (default: that "
                 "of the record)");
  command.body([arguments] { return execute(*arguments); });
}

}  // namespace lockstep::harness
