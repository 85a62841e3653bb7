// The report of `campaign` and `merge`: see campaign_report.h.
#include "harness/commands/campaign_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/commands/scenario_commands.h"
#include "harness/report/format.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;
using oracles::VerdictKind;

VerdictKind kind_of(const LawTally& law) {
  if (law.findings > 0) return VerdictKind::Finding;
  return law.passes > 0 ? VerdictKind::Pass : VerdictKind::NotApplicable;
}

std::string replay_of(const ReportedFinding& finding) {
  const std::string& file = finding.trace_file.empty() ? finding.scenario_file : finding.trace_file;
  return file.empty() ? "" : "./lockstep replay " + shell_quoted(file);
}

const ReportedFinding* reported(const CampaignReport& report, const std::string& key) {
  const auto at = std::ranges::find(report.findings, key, &ReportedFinding::key);
  return at == report.findings.end() ? nullptr : &*at;
}

ShownFinding shown(const CampaignReport& report, const std::string& key) {
  const KeyTally& tally = report.tally.keys.at(key);
  ShownFinding shown;
  shown.key = key;
  shown.message = tally.message;
  const std::string cases = fmt::format("cases      {} of {}, first {}", format_count(tally.count),
                                        format_count(report.tally.cases), tally.cases.front());
  const ReportedFinding* finding = reported(report, key);
  if (finding == nullptr) {
    shown.notes = {cases};
    return shown;
  }
  if (!finding->message.empty()) shown.message = finding->message;
  shown.notes = finding->notes;
  shown.notes.push_back(cases);
  if (finding->failed.empty()) {
    shown.notes.push_back(fmt::format("smallest   size {}, of {} after {} runs; {}", finding->size,
                                      finding->size_before, finding->runs,
                                      finding->repeats ? "repeats" : "DOES NOT REPEAT"));
  } else {
    shown.notes.push_back(fmt::format("smallest   not found: {}; size {} as generated",
                                      finding->failed, finding->size_before));
  }
  shown.scenario = finding->scenario;
  shown.timeline = finding->timeline;
  shown.replay = replay_of(*finding);
  return shown;
}

json key_json(const CampaignReport& report, const std::string& key) {
  const KeyTally& tally = report.tally.keys.at(key);
  json value = {{"key", key},           {"law", tally.law},       {"message", tally.message},
                {"count", tally.count}, {"cases", tally.cases},   {"where", nullptr},
                {"got", nullptr},       {"want", nullptr},        {"bound", nullptr},
                {"ratio", nullptr},     {"replay", report.repeat}};
  const ReportedFinding* finding = reported(report, key);
  if (finding == nullptr) return value;
  if (!replay_of(*finding).empty()) value["replay"] = replay_of(*finding);
  value["scenario_file"] = finding->scenario_file;
  value["trace_file"] = finding->trace_file;
  value["size"] = finding->failed.empty() ? json(finding->size) : json(nullptr);
  value["size_generated"] = finding->size_before;
  value["runs"] = finding->runs;
  value["repeats"] = finding->repeats;
  return value;
}

json laws_of(const CampaignReport& report) {
  json laws = json::array();
  const auto keys = keys_in_order(report.tally);
  for (const std::string& name : report.tally.law_order) {
    const LawTally& law = report.tally.laws.at(name);
    const VerdictKind kind = kind_of(law);
    json value = {
        {"law", name},
        {"device", "ledger"},
        {"verdict", kind == VerdictKind::Finding ? "finding"
                    : kind == VerdictKind::Pass  ? "pass"
                                                 : "not_applicable"},
        {"checked", law.checked},
        {"unit", law.unit},
        {"cases",
         {{"pass", law.passes}, {"finding", law.findings}, {"not_applicable", law.not_applicable}}},
        {"findings", json::array()}};
    for (const std::string& key : keys) {
      if (report.tally.keys.at(key).law != name) continue;
      value["findings"].push_back(key_json(report, key));
    }
    laws.push_back(std::move(value));
  }
  return laws;
}

json document_of(const CampaignReport& report) {
  json document = document_json(report.command, report.seed, campaign_verdict(report.tally),
                                laws_of(report), report.seconds);
  document["findings"] = json::array();
  for (const std::string& key : keys_in_order(report.tally)) {
    document["findings"].push_back(key_json(report, key));
  }
  const auto add = [&](const char* name, std::uint64_t value, const char* unit) {
    document["measured"].push_back({{"name", name},
                                    {"value", value},
                                    {"unit", unit},
                                    {"where", nullptr},
                                    {"device", "ledger"}});
  };
  add("cases", report.tally.cases, "cases");
  add("steps", report.tally.steps, "launches");
  add("ticks", report.tally.ticks, "ticks");
  add("requests", report.tally.requests, "requests");
  add("tokens", report.tally.tokens, "tokens");
  add("not_built", report.tally.not_built, "cases");
  document["canary"] = report.canary;
  document["repeat"] = report.repeat;
  return document;
}

}  // namespace

VerdictKind campaign_verdict(const Tally& tally) {
  if (!tally.keys.empty()) return VerdictKind::Finding;
  const bool checked =
      std::ranges::any_of(tally.laws, [](const auto& entry) { return entry.second.passes > 0; });
  return checked ? VerdictKind::Pass : VerdictKind::NotApplicable;
}

base::Status write_campaign(const CampaignReport& report, const std::string& folder) {
  return write_text((std::filesystem::path(folder) / "report.json").string(),
                    document_of(report).dump(1) + "\n");
}

base::Status print_campaign(const CampaignReport& report, const CommonOptions& options) {
  if (options.json) return print(document_of(report).dump(1) + "\n");
  const Tally& tally = report.tally;
  ScenarioReport page;
  page.head = fmt::format("{}: {} cases, {} steps, {} tokens, seed {}", report.head,
                          format_count(tally.cases), format_count(tally.steps),
                          format_count(tally.tokens), report.seed);
  if (report.resumed > 0) {
    page.lines.push_back(
        fmt::format("  resumed: {} cases were done before", format_count(report.resumed)));
  }
  if (tally.not_built > 0) {
    page.lines.push_back(
        fmt::format("  {} cases ask for what is not built", format_count(tally.not_built)));
  }
  page.verdict = campaign_verdict(tally);
  const std::vector<std::string> keys = keys_in_order(tally);
  for (const std::string& key : keys) page.findings.push_back(shown(report, key));
  for (const std::string& name : tally.law_order) {
    const LawTally& law = tally.laws.at(name);
    std::string where = fmt::format("{} cases", format_count(law.passes + law.findings));
    if (law.findings > 0) where += fmt::format(", {} wrong", format_count(law.findings));
    page.laws.push_back(
        {name, law.unit, where, "no case had data for it", kind_of(law), law.checked});
  }
  const std::string tail =
      fmt::format("{}   repeat: {}", seconds_text(report.seconds), report.repeat);
  if (keys.empty()) {
    page.last = fmt::format("{} cases, no finding   {}", format_count(tally.cases), tail);
  } else {
    page.last = fmt::format("{} different, first {}   {}", keys.size(), keys.front(), tail);
  }
  return print(text_report(page, text_style(options)));
}

}  // namespace lockstep::harness
