#include "harness/commands/replay_operation.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "harness/alone/probe.h"
#include "harness/commands/device_names.h"
#include "harness/report/format.h"
#include "harness/report/report.h"
#include "harness/subjects/op_subject.h"
#include "oracles/oracle.h"
#include "reference/local.h"

namespace lockstep::harness {
namespace {

using oracles::Finding;
using oracles::Verdict;
using oracles::VerdictKind;

const Verdict* verdict_of(const RunOutcome& outcome, std::string_view law) {
  for (const Verdict& verdict : outcome.verdicts) {
    if (verdict.law == law) return &verdict;
  }
  return nullptr;
}

class Text {
 public:
  Text(const RecordedOperation& operation, const trace::Trace& trace, const CommonOptions& options)
      : operation_(operation), trace_(trace), colour_(wants_colour(options)), options_(options) {}

  std::string of(const OperationReplay& replay, const std::string& needle, double seconds) const {
    std::string text;
    const Finding* found = finding_of(replay.outcome, trace_.finding_key);
    if (found == nullptr) found = finding_of(replay.outcome, "");
    if (!options_.quiet) {
      text += bold(fmt::format("{} alone on {}: {}; recorded with seed {}",
                               trace::name(operation_.call.contract.op), replay.device,
                               shape_of(operation_), operation_.seed)) +
              "\n";
      if (found != nullptr) text += "\n";
      for (const Verdict& verdict : replay.outcome.verdicts) {
        for (const Finding& finding : verdict.findings) text += in_full(finding);
      }
      if (found != nullptr) {
        if (!operation_.from.empty()) text += "  from       " + operation_.from + "\n";
        if (!needle.empty()) text += "  needle     " + needle + "\n";
        text += "  recorded   " + bits(replay) + same_finding(*found) + "\n";
      }
    }
    return text + last_line(replay, found, seconds);
  }

 private:
  std::string paint(const std::string& text, const char* code) const {
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  std::string bold(const std::string& text) const { return paint(text, "1"); }

  std::string in_full(const Finding& finding) const {
    std::string text =
        fmt::format("{} {}   {}\n", paint("FINDING", "31"), finding.key, finding.message);
    if (finding.got && finding.want) {
      text += fmt::format("  got {:.6g}   want {:.6g}   off by {:.1e}", *finding.got, *finding.want,
                          std::fabs(*finding.got - *finding.want));
      if (finding.bound) text += fmt::format("   allowed {:.1e}", *finding.bound);
      text += fmt::format("   ratio {}\n", finding.ratio ? format_ratio(finding.ratio)
                                                         : std::string("- (equality)"));
    }
    return text;
  }

  std::string bits(const OperationReplay& replay) const {
    const std::string elsewhere =
        replay.device == operation_.device ? "" : ", recorded on " + operation_.device;
    return fmt::format("{}, {} of {}{}", replay.same == replay.values ? "same bits" : "other bits",
                       format_count(replay.same), format_count(replay.values), elsewhere);
  }
  std::string same_finding(const Finding& found) const {
    if (trace_.finding_key.empty()) return "; it held then";
    return found.key == trace_.finding_key ? "; same finding" : "; then " + trace_.finding_key;
  }

  // What is known of the kernel now and then.
  std::string kernel(const OperationReplay& replay) const {
    const std::string now = kernel_hash(operation_.call.contract.op, replay.device);
    if (replay.device != operation_.device || operation_.kernel_hash.empty()) return "";
    if (now == operation_.kernel_hash) return fmt::format("; the kernel is the same ({})", now);
    return fmt::format("; the kernel has changed ({} -> {})", operation_.kernel_hash, now);
  }

  std::string last_line(const OperationReplay& replay, const Finding* found, double seconds) const {
    const std::string time = fmt::format("   {:.1f} s", seconds);
    if (found != nullptr) {
      const bool again = found->key == trace_.finding_key;
      return fmt::format("{}  {}{}   elsewhere: --device vgpu:all\n", paint("FINDING", "31"),
                         again ? std::string("repeats") : found->key, time);
    }
    const Verdict* bounds = verdict_of(replay.outcome, "op_bounds");
    if (bounds == nullptr || bounds->kind != VerdictKind::Pass) {
      return fmt::format("NOTHING CHECKED  {}{}\n", bounds ? bounds->reason : "", time);
    }
    const std::string same = replay.same == replay.values ? "; " + bits(replay) : "";
    return fmt::format("{}  {}{} values, worst {}{}{}{}\n", paint("PASS", "32"),
                       trace_.finding_key.empty() ? "" : "gone: ", format_count(bounds->checked),
                       format_ratio(bounds->worst), same, kernel(replay), time);
  }

  const RecordedOperation& operation_;
  const trace::Trace& trace_;
  bool colour_;
  const CommonOptions& options_;
};

// What a probe shows of each finding of the operation itself.
std::vector<KeptOperation> explain(const RecordedOperation& operation,
                                   const OperationReplay& replay) {
  std::vector<KeptOperation> kept;
  std::string needle;
  for (const Verdict& verdict : replay.outcome.verdicts) {
    for (std::size_t i = 0; i < verdict.findings.size(); ++i) {
      if (kept.empty()) needle = probe(operation, {replay.device});
      kept.push_back({"", operation.from, needle, ""});
    }
  }
  return kept;
}

}  // namespace

base::Result<int> replay_operation(const trace::Trace& trace, const CommonOptions& options,
                                   const std::string& file) {
  LS_ASSIGN(const RecordedOperation operation, operation_of(trace, file));
  const Text text(operation, trace, options);
  RunReport report;
  report.command = "replay";
  report.model_name = std::string(trace::name(operation.call.contract.op)) + " alone";
  report.scenario.seed = operation.seed;
  report.repeat = "./lockstep replay " + file;
  if (!options.device.empty()) report.repeat += " --device " + options.device;
  for (const std::string& device : device_names(options.device, operation.device)) {
    const auto start = std::chrono::steady_clock::now();
    LS_ASSIGN(OperationReplay replay, replay_on(operation, device));
    const std::vector<KeptOperation> kept = explain(operation, replay);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.seconds += seconds;
    if (!options.json) std::cout << text.of(replay, kept.empty() ? "" : kept[0].needle, seconds);
    report.devices.push_back({device, std::move(replay.outcome), kept});
  }
  if (options.json) std::cout << json_report(report).dump(1) << "\n";
  std::cout.flush();
  if (!std::cout) return base::environment_error("standard output", "cannot be written");
  return report.exit_status();
}

}  // namespace lockstep::harness
