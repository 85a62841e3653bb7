#include "harness/report/scenario_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/report/format.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;
using oracles::Verdict;
using oracles::VerdictKind;

constexpr std::size_t kFindingsInFull = 3;

class Page {
 public:
  explicit Page(const TextStyle& style) : style_(style) {}

  void line(std::string text) {
    while (!text.empty() && text.back() == ' ') text.pop_back();
    text_ += text + "\n";
  }
  std::string paint(const std::string& text, const char* code) const {
    return style_.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  std::string bold(const std::string& text) const { return paint(text, "1"); }
  std::string word(VerdictKind kind, int width) const {
    switch (kind) {
      case VerdictKind::Pass:
        return paint(fmt::format("{:<{}}", "PASS", width), "32");
      case VerdictKind::Finding:
        return paint(fmt::format("{:<{}}", "FINDING", width), "31");
      case VerdictKind::NotApplicable:
        break;
    }
    return fmt::format("{:<{}}", "n/a", width);
  }
  std::string take() { return std::move(text_); }

 private:
  TextStyle style_;
  std::string text_;
};

void write_finding(Page& page, const ShownFinding& finding, bool in_full) {
  page.line(fmt::format("{} {}   {}", page.paint("FINDING", "31"), finding.key, finding.message));
  if (!in_full) return;
  for (const std::string& note : finding.notes) page.line("  " + note);
  for (const std::string& line : finding.scenario) page.line("    " + line);
  if (!finding.timeline.empty()) {
    for (const std::string& line : finding.timeline) page.line("  " + line);
  }
  if (!finding.replay.empty()) page.line("  " + page.bold("replay     " + finding.replay));
  page.line("");
}

void write_laws(Page& page, const ScenarioReport& report, bool verbose) {
  const bool shrink = report.verdict == VerdictKind::Finding && !verbose;
  std::size_t passes = 0, without_data = 0;
  page.line(fmt::format("  {:<17} {:<8} {:>16} {:>8}  {}", "law", "verdict", "checked", "worst",
                        "where"));
  for (const ShownLaw& law : report.laws) {
    passes += law.kind == VerdictKind::Pass;
    without_data += law.kind == VerdictKind::NotApplicable;
    if (law.kind == VerdictKind::NotApplicable) {
      if (verbose) page.line(fmt::format("  {:<17} {:<8} {}", law.law, "n/a", law.reason));
      continue;
    }
    if (law.kind == VerdictKind::Pass && shrink) continue;
    page.line(fmt::format("  {:<17} {} {:>16} {:>8}  {}", law.law, page.word(law.kind, 8),
                          format_count(law.checked) + " " + law.unit, "-", law.where));
  }
  if (shrink) {
    page.line(fmt::format("  {} law{} pass, {} not applicable", passes, passes == 1 ? "" : "s",
                          without_data));
  }
  page.line("");
}

const char* word_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::Pass:
      return "pass";
    case VerdictKind::Finding:
      return "finding";
    case VerdictKind::NotApplicable:
      break;
  }
  return "not_applicable";
}

std::string plural(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

template <class T>
json maybe(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json finding_json(const oracles::Finding& finding, const std::string& replay) {
  return {{"key", finding.key},
          {"message", finding.message},
          {"where",
           {{"request", maybe(finding.where.request)},
            {"layer", maybe(finding.where.layer)},
            {"op", finding.where.op.empty() ? json(nullptr) : json(finding.where.op)},
            {"position", maybe(finding.where.position)},
            {"index", maybe(finding.where.index)}}},
          {"got", maybe(finding.got)},
          {"want", maybe(finding.want)},
          {"bound", maybe(finding.bound)},
          {"ratio", maybe(finding.ratio)},
          {"count", finding.count},
          {"notes", finding.notes},
          {"replay", replay}};
}

}  // namespace

std::vector<ShownLaw> shown_laws(const std::vector<Verdict>& verdicts) {
  std::vector<ShownLaw> laws;
  for (const Verdict& verdict : verdicts) {
    laws.push_back(
        {verdict.law, verdict.unit, verdict.where, verdict.reason, verdict.kind, verdict.checked});
  }
  return laws;
}

std::string text_report(const ScenarioReport& report, const TextStyle& style) {
  Page page(style);
  if (!style.quiet) {
    page.line(page.bold(report.head));
    page.line("");
    for (std::size_t i = 0; i < report.findings.size(); ++i) {
      write_finding(page, report.findings[i], i < kFindingsInFull);
    }
    if (report.findings.size() > kFindingsInFull) page.line("");
    for (const std::string& line : report.lines) page.line(line);
    if (!report.lines.empty()) page.line("");
    if (!report.laws.empty()) write_laws(page, report, style.verbose);
  }
  switch (report.verdict) {
    case VerdictKind::Pass:
      page.line(page.paint("PASS", "32") + "  " + report.last);
      break;
    case VerdictKind::Finding:
      page.line(page.paint("FINDING", "31") + "  " + report.last);
      break;
    case VerdictKind::NotApplicable:
      page.line("NOTHING CHECKED  " + report.last);
      break;
  }
  return page.take();
}

std::string size_text(const trace::Scenario& scenario) {
  return plural(scenario.requests.size(), "request") + ", " +
         plural(scenario.events.size(), "event") + ", " + plural(scenario.faults.size(), "fault");
}

std::vector<std::string> scenario_lines(const trace::Scenario& scenario) {
  trace::Scenario shown = scenario;
  shown.note.clear();
  const std::string text = trace::write_scenario(shown);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty()) lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

VerdictKind verdict_of(const std::vector<Verdict>& verdicts) {
  bool checked = false;
  for (const Verdict& verdict : verdicts) {
    if (verdict.kind == VerdictKind::Finding) return VerdictKind::Finding;
    checked |= verdict.kind == VerdictKind::Pass;
  }
  return checked ? VerdictKind::Pass : VerdictKind::NotApplicable;
}

int exit_status(VerdictKind verdict) {
  switch (verdict) {
    case VerdictKind::Pass:
      return 0;
    case VerdictKind::Finding:
      return 1;
    case VerdictKind::NotApplicable:
      break;
  }
  return 4;
}

std::string laws_text(const std::vector<Verdict>& verdicts, const std::string& first_key) {
  const auto count = [&](VerdictKind kind) {
    return static_cast<std::size_t>(std::ranges::count(verdicts, kind, &Verdict::kind));
  };
  if (!first_key.empty()) {
    return plural(count(VerdictKind::Finding), "law") + ", first " + first_key;
  }
  return fmt::format("{}, {} not applicable", plural(count(VerdictKind::Pass), "law"),
                     count(VerdictKind::NotApplicable));
}

json laws_json(const std::vector<Verdict>& verdicts, const std::string& replay) {
  json laws = json::array();
  for (const Verdict& verdict : verdicts) {
    json law = {
        {"law", verdict.law},         {"device", "ledger"},   {"verdict", word_of(verdict.kind)},
        {"checked", verdict.checked}, {"unit", verdict.unit}, {"findings", json::array()}};
    if (verdict.worst) law["worst"] = *verdict.worst;
    if (!verdict.where.empty()) law["where"] = verdict.where;
    if (!verdict.reason.empty()) law["reason"] = verdict.reason;
    for (const oracles::Finding& finding : verdict.findings) {
      law["findings"].push_back(finding_json(finding, replay));
    }
    laws.push_back(std::move(law));
  }
  return laws;
}

json document_json(const std::string& command, std::uint64_t seed, VerdictKind verdict, json laws,
                   double seconds) {
  return {{"schema", "lockstep." + command + "/1"},
          {"version", LOCKSTEP_VERSION},
          {"command", command},
          {"seed", seed},
          {"verdict", word_of(verdict)},
          {"laws", std::move(laws)},
          {"measured", json::array()},
          {"timing_s", seconds}};
}

}  // namespace lockstep::harness
