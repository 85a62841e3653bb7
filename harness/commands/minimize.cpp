// lockstep minimize: the smallest scenario with the same finding.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/commands/scenario_commands.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

struct MinimizeArguments {
  CommonOptions common;
  std::string file, key, out;
  std::uint64_t runs = MinimizeOptions{}.runs_max;
};

std::string default_out(const std::string& file) {
  std::filesystem::path path = file;
  return path.replace_extension(".min.json").string();
}

// Nothing to shrink: the scenario holds all laws.
base::Result<int> nothing_found(const MinimizeArguments& arguments, const ScenarioFile& file,
                                const ScenarioOutcome& outcome, double seconds) {
  const oracles::VerdictKind verdict = verdict_of(outcome.verdicts);
  if (arguments.common.json) {
    const nlohmann::json document = document_json("minimize", file.scenario.seed, verdict,
                                                  laws_json(outcome.verdicts, ""), seconds);
    LS_TRY(print(document.dump(1) + "\n"));
  } else {
    LS_TRY(print(fmt::format("PASS  no finding, nothing to minimize: {}   {}\n",
                             laws_text(outcome.verdicts, ""), seconds_text(seconds))));
  }
  return exit_status(verdict);
}

base::Result<int> execute(const MinimizeArguments& arguments) {
  const Stopwatch watch;
  LS_ASSIGN(const ScenarioFile file, open_scenario(arguments.file));
  const ScenarioRunner run = ledger_runner();
  LS_ASSIGN(const ScenarioOutcome outcome, run(file.scenario, {}));
  if (arguments.key.empty() && find_key(outcome, "") == nullptr) {
    return nothing_found(arguments, file, outcome, watch.seconds());
  }
  const ProgressLine progress(arguments.common);
  MinimizeOptions options;
  options.runs_max = arguments.runs;
  options.progress = [&progress](const std::string& text) { progress.show(text); };
  LS_ASSIGN(Minimized small, minimize(file.scenario, arguments.key, run, options));
  progress.show("");
  small.scenario.note = finding_note(small.key, "minimized from " + arguments.file);
  const std::string path = arguments.out.empty() ? default_out(arguments.file) : arguments.out;
  LS_TRY(write_text(path, trace::write_scenario(small.scenario)));
  LS_ASSIGN(const Recording recording, record(small.scenario, run));
  const oracles::Finding* finding = find_key(recording.outcome, small.key);
  LS_CHECK(finding != nullptr);
  const std::string replay = "./lockstep replay " + shell_quoted(path);
  const auto verdict = oracles::VerdictKind::Finding;
  if (arguments.common.json) {
    nlohmann::json document =
        document_json("minimize", small.scenario.seed, verdict,
                      laws_json(recording.outcome.verdicts, replay), watch.seconds());
    document["key"] = small.key;
    document["file"] = path;
    document["size"] = {file.scenario.size(), small.scenario.size()};
    document["runs"] = small.runs;
    document["repeats"] = small.repeats;
    document["scenario"] = nlohmann::json::parse(trace::write_scenario(small.scenario));
    LS_TRY(print(document.dump(1) + "\n"));
    return exit_status(verdict);
  }
  ScenarioReport report;
  report.verdict = verdict;
  report.head = fmt::format("{}: size {} ({})", arguments.file, file.scenario.size(),
                            size_text(file.scenario));
  ShownFinding shown = shown_finding(*finding, small.scenario, recording.events, true);
  shown.notes.push_back(fmt::format("smallest   size {} ({}) after {} runs; {}",
                                    small.scenario.size(), size_text(small.scenario), small.runs,
                                    small.repeats ? "repeats" : "DOES NOT REPEAT"));
  shown.replay = replay;
  report.findings.push_back(std::move(shown));
  report.last = fmt::format("{}   {}   {}", small.key, seconds_text(watch.seconds()), path);
  LS_TRY(print(text_report(report, text_style(arguments.common))));
  return exit_status(verdict);
}

}  // namespace

void add_minimize(CommandLine& program) {
  auto arguments = std::make_shared<MinimizeArguments>();
  const Command command =
      program.command("minimize", "the smallest scenario with the same finding");
  command.option("file", arguments->file, "a scenario (.json) or a trace (.lstrace)").required();
  command.option("--key", arguments->key, "the finding to keep (default: the first)");
  command.option("--out", arguments->out, "file to write (default: FILE.min.json)");
  command.option("--cases", arguments->runs, "most scenarios to run").shows_default();
  add_common(command, arguments->common);
  command.body([arguments] { return execute(*arguments); });
}

}  // namespace lockstep::harness
