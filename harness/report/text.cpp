// The text report: one line on what is judged, findings, a row a law, drift, and one line to end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/report/format.h"
#include "harness/report/report.h"

namespace lockstep::harness {
namespace {

using oracles::Finding;
using oracles::Verdict;
using oracles::VerdictKind;

constexpr std::size_t kFindingsInFull = 3;

class Writer {
 public:
  explicit Writer(const TextStyle& style) : style_(style) {}

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
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

struct Counts {
  std::size_t pass = 0, finding = 0, not_applicable = 0;
};
Counts count(const std::vector<Verdict>& verdicts) {
  Counts counts;
  for (const Verdict& verdict : verdicts) {
    if (verdict.kind == VerdictKind::Pass) ++counts.pass;
    if (verdict.kind == VerdictKind::Finding) ++counts.finding;
    if (verdict.kind == VerdictKind::NotApplicable) ++counts.not_applicable;
  }
  return counts;
}

void write_head(Writer& out, const RunReport& report, const DeviceReport& device) {
  std::uint32_t tokens = 0;
  for (const trace::RequestSpec& request : report.scenario.requests) {
    tokens = std::max(tokens, request.max_tokens);
  }
  const std::size_t prompts = report.scenario.requests.size();
  out.line("{}",
           out.bold(fmt::format(
               "{}, engine on {} beside the double reference: {} prompt{}, {} token{}, seed {}",
               report.model_name, device.device, prompts, prompts == 1 ? "" : "s", tokens,
               tokens == 1 ? "" : "s", report.scenario.seed)));
  out.line("");
}

std::string token_list(const std::vector<trace::TokenId>& tokens, std::size_t width) {
  std::string text;
  for (const trace::TokenId token : tokens) {
    const std::string next = (text.empty() ? "" : " ") + std::to_string(token);
    if (text.size() + next.size() + 4 > width) return text + " ...";
    text += next;
  }
  return text;
}

void write_outputs(Writer& out, const RunReport& report, const DeviceReport& device) {
  std::vector<std::string> prompts;
  std::size_t width = 0;
  for (const trace::RequestSpec& request : report.scenario.requests) {
    prompts.push_back(request.prompt_text.empty() ? token_list(request.prompt, 32)
                                                  : quote(request.prompt_text, 32));
    width = std::max(width, prompts.back().size());
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const RequestOutput& output = device.outcome.outputs[i];
    const std::size_t room = 90 - std::min<std::size_t>(width, 40);
    std::string text = report.model && report.model->tokenizer
                           ? quote(report.model->tokenizer->decode(output.tokens), room)
                           : token_list(output.tokens, room);
    if (output.finish_reason.starts_with("refused")) text = output.finish_reason;
    if (output.finish_reason == "error")
      text = "error: a step did not fit into the device's memory";
    out.line(" {:>2}  {:<{}}   {}", report.scenario.requests[i].key, prompts[i], width, text);
  }
  out.line("");
}

void write_finding(Writer& out, const Finding& finding, const KeptOperation& kept,
                   const std::string& repeat) {
  out.line("{} {}   {}", out.paint("FINDING", "31"), finding.key, finding.message);
  if (finding.got && finding.want) {
    std::string text = fmt::format("  got {:.6g}   want {:.6g}", *finding.got, *finding.want);
    text += fmt::format("   off by {:.1e}", std::fabs(*finding.got - *finding.want));
    if (finding.bound) text += fmt::format("   allowed {:.1e}", *finding.bound);
    text += fmt::format("   ratio {}",
                        finding.ratio ? format_ratio(finding.ratio) : std::string("- (equality)"));
    out.line("{}", text);
  }
  for (const std::string& note : finding.notes) out.line("  {}", note);
  if (!kept.needle.empty()) out.line("  needle     {}", kept.needle);
  if (!kept.smallest.empty()) out.line("  smallest   {}", kept.smallest);
  if (!kept.file.empty()) {
    out.line("  {}", out.bold("replay     ./lockstep replay " + kept.file));
  }
  out.line("  {}", out.bold("repeat     " + repeat));
  out.line("");
}

void write_findings(Writer& out, const RunReport& report, const DeviceReport& device) {
  std::size_t shown = 0;
  for (const Verdict& verdict : device.outcome.verdicts) {
    for (const Finding& finding : verdict.findings) {
      const KeptOperation kept = device.kept_of(shown);
      if (shown++ < kFindingsInFull) {
        write_finding(out, finding, kept, report.repeat);
      } else {
        out.line("{} {}   {} ({})", out.paint("FINDING", "31"), finding.key, finding.message,
                 format_count(finding.count));
      }
    }
  }
  if (shown > kFindingsInFull) out.line("");
}

void write_table(Writer& out, const std::vector<Verdict>& verdicts, bool verbose) {
  const Counts counts = count(verdicts);
  out.line("  {:<17} {:<8} {:>16} {:>8}  {}", "law", "verdict", "checked", "worst", "where");
  for (const Verdict& verdict : verdicts) {
    if (verdict.kind == VerdictKind::NotApplicable) {
      if (verbose) out.line("  {:<17} {:<8} {}", verdict.law, "n/a", verdict.reason);
      continue;
    }
    // Beside a finding, what passed shrinks to one line.
    if (verdict.kind == VerdictKind::Pass && counts.finding > 0 && !verbose) continue;
    std::string worst = fmt::format("{:>8}", format_ratio(verdict.worst));
    if (verdict.worst && *verdict.worst > 0.9) worst = out.paint(worst, "33");
    out.line("  {:<17} {} {:>16} {}  {}", verdict.law, out.word(verdict.kind, 8),
             format_count(verdict.checked) + " " + verdict.unit, worst, verdict.where);
    // Coverage: what was checked of what the operations wrote.
    if (verdict.written && (verbose || *verdict.written > verdict.checked)) {
      out.line("  {:<26} of {} values written", "", format_count(*verdict.written));
    }
  }
  if (counts.finding > 0 && !verbose) {
    out.line("  {} law{} pass, {} not applicable", counts.pass, counts.pass == 1 ? "" : "s",
             counts.not_applicable);
  }
  out.line("");
}

void write_drift(Writer& out, const Drift& drift) {
  out.line(
      "  drift, no verdict: relative rms of the residual stream after each layer, chained from "
      "the tokens");
  constexpr std::size_t kPerLine = 9;
  for (std::size_t first = 0; first < drift.layer_median.size(); first += kPerLine) {
    const std::size_t last = std::min(first + kPerLine, drift.layer_median.size()) - 1;
    std::string row = fmt::format("  {:>7} ", fmt::format("{}-{}", first, last));
    for (std::size_t layer = first; layer <= last; ++layer) {
      row += fmt::format("  {}", format_error(drift.layer_median[layer]));
    }
    out.line("{}", row);
  }
  if (!drift.layer_worst.empty()) {
    const auto worst = std::max_element(drift.layer_worst.begin(), drift.layer_worst.end());
    out.line("  (median over positions; the worst position: {} after layer {})",
             format_error(*worst), worst - drift.layer_worst.begin());
  }
  out.line(
      "  logits   rms {:.2g}   max {:.2g}   sigma {:.2g}   KL {}   top-1 equal {} of {}   "
      "top-5 sets equal {} of {}",
      drift.logits_rms, drift.logits_max, drift.sigma, format_error(drift.kl_mean),
      drift.top1_equal, drift.tokens, drift.top5_equal, drift.tokens);
  out.line("");
}

void write_last_line(Writer& out, const RunReport& report) {
  Counts counts;
  std::string first;
  for (const DeviceReport& device : report.devices) {
    const Counts here = count(device.outcome.verdicts);
    counts.pass += here.pass;
    counts.finding += here.finding;
    counts.not_applicable += here.not_applicable;
    for (const Verdict& verdict : device.outcome.verdicts) {
      if (first.empty() && !verdict.findings.empty()) first = verdict.findings.front().key;
    }
  }
  const std::string tail =
      fmt::format("{:.0f} s   repeat: {}", report.seconds, out.bold(report.repeat));
  switch (report.verdict()) {
    case VerdictKind::Pass:
      out.line("{}  {} laws, {} not applicable   {}", out.paint("PASS", "32"), counts.pass,
               counts.not_applicable, tail);
      break;
    case VerdictKind::Finding:
      out.line("{}  {} law{}, first {}   {}", out.paint("FINDING", "31"), counts.finding,
               counts.finding == 1 ? "" : "s", first, tail);
      break;
    case VerdictKind::NotApplicable:
      if (const std::size_t cut = report.requests_cut(); cut > 0) {
        out.line("OUT OF MEMORY  {} request{} ended with an error, {} laws pass   {}", cut,
                 cut == 1 ? "" : "s", counts.pass, tail);
        break;
      }
      out.line("NOTHING CHECKED  {} laws not applicable   {}", counts.not_applicable, tail);
      break;
  }
}

}  // namespace

VerdictKind RunReport::verdict() const {
  bool checked = false;
  for (const DeviceReport& device : devices) {
    for (const Verdict& verdict : device.outcome.verdicts) {
      if (verdict.kind == VerdictKind::Finding) return VerdictKind::Finding;
      checked |= verdict.kind == VerdictKind::Pass;
    }
  }
  return checked && requests_cut() == 0 ? VerdictKind::Pass : VerdictKind::NotApplicable;
}

std::size_t RunReport::requests_cut() const {
  std::size_t cut = 0;
  for (const DeviceReport& device : devices) {
    for (const RequestOutput& output : device.outcome.outputs) {
      cut += output.finish_reason == "error" ? 1 : 0;
    }
  }
  return cut;
}

int RunReport::exit_status() const {
  const VerdictKind kind = verdict();
  return kind == VerdictKind::Pass ? 0 : kind == VerdictKind::Finding ? 1 : 4;
}

std::string text_report(const RunReport& report, const TextStyle& style) {
  Writer out(style);
  if (!style.quiet) {
    for (const DeviceReport& device : report.devices) {
      write_head(out, report, device);
      write_findings(out, report, device);
      if (count(device.outcome.verdicts).finding == 0) write_outputs(out, report, device);
      write_table(out, device.outcome.verdicts, style.verbose);
      if (device.outcome.drift && count(device.outcome.verdicts).finding == 0) {
        write_drift(out, *device.outcome.drift);
      }
    }
  }
  write_last_line(out, report);
  return out.take();
}

}  // namespace lockstep::harness
