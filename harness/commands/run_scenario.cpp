// lockstep run --scenario: one scenario on the ledger, judged; a line a request, a row a law.
#include <fmt/format.h>

#include <algorithm>
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
  if (first != nullptr || report_wanted) {
    if (first != nullptr) {
      LS_ASSIGN(const FindingFiles files, write_finding(options.report_folder, file.scenario,
                                                        recording, *first, "run --scenario"));
      replay = "./lockstep replay " + shell_quoted(files.trace);
    }
  }
  if (options.json) {
    nlohmann::json document = document_json("run", file.scenario.seed, verdict,
                                            laws_json(outcome.verdicts, replay), watch.seconds());
    document["scenario"] = path;
    document["result"] = scenario_result_json(file.scenario, outcome.result);
    LS_TRY(print(document.dump(1) + "\n"));
    return exit_status(verdict);
  }
  ScenarioReport report;
  report.head = fmt::format("{} on the ledger: {}, seed {}; {} ticks, {} launches", path,
                            size_text(file.scenario), file.scenario.seed, outcome.result.ticks,
                            outcome.result.launches);
  report.lines = request_lines(outcome.result);
  if (first != nullptr) {
    report.findings.push_back(
        shown_finding(*first, file.scenario, recording.events, file.scenario.size() <= 10));
    report.findings.back().notes.push_back("smaller    ./lockstep minimize " + shell_quoted(path));
    report.findings.back().replay = replay;
    for (const oracles::Verdict& judged : outcome.verdicts) {
      for (const oracles::Finding& finding : judged.findings) {
        if (&finding == first) continue;
        report.findings.push_back({finding.key, finding.message, {}, {}, {}, ""});
      }
    }
  }
  report.laws = shown_laws(outcome.verdicts);
  report.verdict = verdict;
  report.last = fmt::format("{}   {}   repeat: ./lockstep run --scenario {}",
                            laws_text(outcome.verdicts, first ? first->key : ""),
                            seconds_text(watch.seconds()), shell_quoted(path));
  LS_TRY(print(text_report(report, text_style(options))));
  return exit_status(verdict);
}

}  // namespace lockstep::harness
