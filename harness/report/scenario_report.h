// What the commands about scenarios print: findings with the scenario that shows them, a row a law,
// one line to end; and the same as JSON (docs/cli.md).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/report.h"
#include "harness/scenario_run.h"
#include "trace/scenario.h"

namespace lockstep::harness {

// A finding as a report shows it.
struct ShownFinding {
  std::string key, message;
  std::vector<std::string> notes;     // further lines: "before it ...", "recorded ..."
  std::vector<std::string> scenario;  // lines of the scenario that shows it; may be empty
  std::vector<std::string> timeline;
  std::string replay;  // the command
};

// A law's row.
struct ShownLaw {
  std::string law, unit, where, reason;
  oracles::VerdictKind kind = oracles::VerdictKind::NotApplicable;
  std::uint64_t checked = 0;
};
std::vector<ShownLaw> shown_laws(const std::vector<oracles::Verdict>& verdicts);

struct ScenarioReport {
  std::string head;                // what is judged
  std::vector<std::string> lines;  // figures: a line a request, or of the campaign
  std::vector<ShownFinding> findings;
  std::vector<ShownLaw> laws;
  std::string last;  // of the last line, after the verdict's word
  oracles::VerdictKind verdict = oracles::VerdictKind::NotApplicable;
};
std::string text_report(const ScenarioReport& report, const TextStyle& style);

// "2 requests, 1 event, 0 faults"
std::string size_text(const trace::Scenario& scenario);
// The scenario's file without its note, whole, so that it can be copied.
std::vector<std::string> scenario_lines(const trace::Scenario& scenario);
oracles::VerdictKind verdict_of(const std::vector<oracles::Verdict>& verdicts);
int exit_status(oracles::VerdictKind verdict);
// "2 laws, first ownership.foreign", or "9 laws, 2 not applicable"
std::string laws_text(const std::vector<oracles::Verdict>& verdicts, const std::string& first_key);

// `laws` of docs/cli.md, of a run on the ledger.
nlohmann::json laws_json(const std::vector<oracles::Verdict>& verdicts, const std::string& replay);
// The document around it; `command` is its name.
nlohmann::json document_json(const std::string& command, std::uint64_t seed,
                             oracles::VerdictKind verdict, nlohmann::json laws, double seconds);

}  // namespace lockstep::harness
