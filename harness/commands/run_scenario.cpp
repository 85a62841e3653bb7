// lockstep run --scenario: one scenario on the ledger, judged; a line a request, a row a law.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/commands/scenario_commands.h"
#include "harness/report/scenario_result.h"

namespace lockstep::harness {
namespace {

std::string token_list(const std::vector<trace::TokenId>& tokens, std::size_t width) {
  std::string text = "[";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string next = (i == 0 ? "" : ", ") + std::to_string(tokens[i]);
    if (text.size() + next.size() + 6 > width) return text + ", ...]";
    text += next;
  }
  return text + "]";
}

// key, state, tokens; what the client sees of it.
std::vector<std::string> request_lines(const trace::RunResult& result) {
  std::size_t width = 1;
  for (const trace::RequestResult& request : result.requests) {
    width = std::max(width, request.key.size());
  }
  std::vector<std::string> lines;
  for (const trace::RequestResult& request : result.requests) {
    const std::string end =
        request.state == trace::LifeState::Live ? "live" : request.finish_reason;
    std::string line = fmt::format("  {:<{}}  {:<8}{:>4} cached {:>4} scheduled   ", request.key,
                                   width, end, request.counts.cached, request.counts.scheduled);
    if (request.state == trace::LifeState::Refused) {
      line += request.error_code;
      if (!request.error_message.empty()) line += ": " + request.error_message;
    } else {
      line += token_list(request.tokens, 60);
    }
    lines.push_back(std::move(line));
  }
  for (std::size_t i = 0; i < result.events.size(); ++i) {
    const trace::EventResult& event = result.events[i];
    if (event.applied) continue;
    lines.push_back(fmt::format("  event {} ({}) changed nothing: {}", i, event.type,
                                event.reason.empty() ? "its trigger never came" : event.reason));
  }
  return lines;
}

base::Status write_report_json(const std::string& folder, const nlohmann::json& document) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return write_text((std::filesystem::path(folder) / "report.json").string(),
                    document.dump(1) + "\n");
}

// The first finding in full; the others are mostly what it led to.
std::vector<ShownFinding> shown_findings(const ScenarioFile& file, const Recording& recording,
                                         const oracles::Finding* first, const std::string& replay) {
  std::vector<ShownFinding> shown;
  if (first == nullptr) return shown;
  shown.push_back(
      shown_finding(*first, file.scenario, recording.events, file.scenario.size() <= 10));
  shown.back().notes.push_back("smaller    ./lockstep minimize " + shell_quoted(file.path));
  shown.back().replay = replay;
  for (const oracles::Verdict& verdict : recording.outcome.verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      if (&finding != first) shown.push_back({finding.key, finding.message, {}, {}, {}, ""});
    }
  }
  return shown;
}

}  // namespace

base::Result<int> run_scenario_command(const std::string& path, const CommonOptions& options,
                                       bool report_wanted) {
  const Stopwatch watch;
  LS_ASSIGN(const ScenarioFile file, open_scenario(path));
  LS_ASSIGN(const Recording recording, record(file.scenario, ledger_runner()));
  const ScenarioOutcome& outcome = recording.outcome;
  const oracles::Finding* first = find_key(outcome, "");
  const oracles::VerdictKind verdict = verdict_of(outcome.verdicts);
  std::string replay = "./lockstep replay " + shell_quoted(path);
  if (first != nullptr) {
    LS_ASSIGN(const FindingFiles files, write_finding(options.report_folder, file.scenario,
                                                      recording, *first, "run --scenario"));
    replay = "./lockstep replay " + shell_quoted(files.trace);
  }
  nlohmann::json document = document_json("run", file.scenario.seed, verdict,
                                          laws_json(outcome.verdicts, replay), watch.seconds());
  document["scenario"] = path;
  document["result"] = scenario_result_json(file.scenario, outcome.result);
  if (first != nullptr || report_wanted) {
    LS_TRY(write_report_json(options.report_folder, document));
  }
  if (options.json) {
    LS_TRY(print(document.dump(1) + "\n"));
    return exit_status(verdict);
  }
  ScenarioReport report;
  report.head = fmt::format("{} on the ledger: {}, seed {}; {} ticks, {} launches", path,
                            size_text(file.scenario), file.scenario.seed, outcome.result.ticks,
                            outcome.result.launches);
  report.lines = request_lines(outcome.result);
  report.findings = shown_findings(file, recording, first, replay);
  report.laws = shown_laws(outcome.verdicts);
  report.verdict = verdict;
  report.last = fmt::format("{}   {}   repeat: ./lockstep run --scenario {}",
                            laws_text(outcome.verdicts, first ? first->key : ""),
                            seconds_text(watch.seconds()), shell_quoted(path));
  LS_TRY(print(text_report(report, text_style(options))));
  return exit_status(verdict);
}

}  // namespace lockstep::harness
