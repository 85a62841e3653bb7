// device_checks: no launch read or wrote outside its allocations, read what nobody wrote, raced, or
// misused a barrier. subject_checks: no invariant of the subject's own failed.
#include <fmt/format.h>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {
namespace {

class DeviceChecks : public Oracle {
 public:
  std::string_view law() const override { return "device_checks"; }

  void on_event(const trace::Event& event) override {
    if (const auto* counted = std::get_if<trace::DeviceCounted>(&event)) {
      checked_ += counted->checked_accesses;
    } else if (const auto* report = std::get_if<trace::DeviceReported>(&event)) {
      bool is_new = false;
      Finding& finding =
          findings_.add(fmt::format("device_checks.{}.{}", report->checker, report->kind), is_new);
      finding.count += report->count - 1;
      if (!is_new) return;
      finding.where.op = report->kernel;
      finding.message = fmt::format(
          "{}{}{}: {}", report->source.empty() ? report->kernel : report->source,
          report->source_second.empty() ? "" : " and ", report->source_second, report->message);
    }
  }

  Verdict finish(const std::vector<Verdict>&) override {
    Verdict verdict =
        verdict_of(law(), checked_, "accesses", findings_, "the device runs without checks");
    if (verdict.kind == VerdictKind::Pass) {
      verdict.where = "bounds, initialization, races, barriers";
    }
    return verdict;
  }

 private:
  FindingList findings_;
  std::uint64_t checked_ = 0;
};

class SubjectChecks : public Oracle {
 public:
  std::string_view law() const override { return "subject_checks"; }
  void on_event(const trace::Event& event) override {
    if (const auto* failed = std::get_if<trace::SubjectFailed>(&event)) {
      bool is_new = false;
      Finding& finding =
          findings_.add(fmt::format("check:{}:{}", failed->file, failed->function), is_new);
      if (is_new) {
        finding.message = failed->message;
        finding.event_index = event_index_;
      }
    }
    ++event_index_;
  }
  Verdict finish(const std::vector<Verdict>&) override {
    return verdict_of(law(), 0, "checks", findings_, "no invariant of the subject's own failed");
  }

 private:
  FindingList findings_;
  std::uint64_t event_index_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> device_checks() { return std::make_unique<DeviceChecks>(); }
std::unique_ptr<Oracle> subject_checks() { return std::make_unique<SubjectChecks>(); }

}  // namespace lockstep::oracles
