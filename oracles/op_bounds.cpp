// op_bounds: every element of every operation lies in the interval that the operation's contract
// allows around the double reference, computed from the operation's true operands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "oracles/findings.h"
#include "oracles/oracle.h"
#include "oracles/values.h"

namespace lockstep::oracles {
namespace {

using trace::Expected;
using trace::OpCompleted;
using trace::TapTensor;

// Ratio |got - want| / allowed of one element; 0 within an exact match; infinite for a NaN or where
// nothing is allowed.
double ratio_of(double got, double want, double low, double high) {
  if (got == want) return 0;
  const double bound = std::max(high - want, want - low);
  if (!(bound > 0) || std::isnan(got)) return HUGE_VAL;
  if (std::isinf(bound)) return 0;
  return std::fabs(got - want) / bound;
}

class OpBounds : public Oracle {
 public:
  std::string_view law() const override { return "op_bounds"; }

  void on_event(const trace::Event& event) override {
    if (const auto* done = std::get_if<OpCompleted>(&event)) judge(*done);
  }

  Verdict finish(const std::vector<Verdict>&) override {
    for (Finding& finding : findings_.all()) add_extent(finding);
    Verdict verdict = verdict_of(law(), checked_, "values", findings_,
                                 uncomputed_.empty() ? "no operation was tapped" : uncomputed_);
    verdict.written = written_;
    if (checked_ > 0) {
      verdict.worst = worst_;
      verdict.where = worst_place_;
    }
    return verdict;
  }

 private:
  struct Extent {
    std::set<std::uint32_t> layers;
    std::uint64_t calls = 0;
  };

  void judge(const OpCompleted& done) {
    for (const TapTensor& tap : done.call.writes) {
      written_ += std::uint64_t{tap.width} * tap.rows.size();
    }
    if (!done.reference.computed) {
      uncomputed_ = done.reference.reason;
      return;
    }
    if (done.call.launch != launch_) {
      launch_ = done.call.launch;
      before_count_ = 0;
      before_worst_ = 0;
    }
    double call_worst = 0;
    bool wrong = false;
    for (std::size_t i = 0; i < done.call.writes.size(); ++i) {
      wrong |= judge_write(done, done.call.writes[i], done.reference.expected[i], call_worst);
    }
    if (wrong) {
      Extent& extent = extents_[key_of(done)];
      extent.layers.insert(done.call.layer.value);
      ++extent.calls;
    } else {
      ++before_count_;
      before_worst_ = std::max(before_worst_, call_worst);
    }
  }

  static std::string key_of(const OpCompleted& done) {
    return "op_bounds." + std::string(trace::name(done.call.contract.op));
  }

  bool judge_write(const OpCompleted& done, const TapTensor& tap, const Expected& expected,
                   double& call_worst) {
    const std::vector<double> got = values_of(tap);
    LS_CHECK(expected.want.size() == got.size());
    std::uint64_t wrong_count = 0;
    double write_worst = -1;
    std::size_t worst_index = 0, first_wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool holds = expected.low[i] <= got[i] && got[i] <= expected.high[i];
      const double ratio = ratio_of(got[i], expected.want[i], expected.low[i], expected.high[i]);
      if (!holds && wrong_count++ == 0) first_wrong = i;
      if (ratio > write_worst) {
        write_worst = ratio;
        worst_index = i;
      }
    }
    checked_ += got.size();
    // A rounding to 16 bits of a value near the middle of two may go either way: its ratio is 0 or
    // 1 and says nothing about how much of the bound was used. Such results are judged, not ranked.
    const bool ranked = tap.dtype == model::DType::F32 || wrong_count > 0;
    if (ranked) call_worst = std::max(call_worst, write_worst);
    if (ranked && (write_worst > worst_ || worst_place_.empty())) {
      worst_ = std::max(write_worst, 0.0);
      worst_place_ = place(done, tap, worst_index);
    }
    if (wrong_count > 0) report(done, tap, expected, got, first_wrong, wrong_count, write_worst);
    return wrong_count > 0;
  }

  void report(const OpCompleted& done, const TapTensor& tap, const Expected& expected,
              const std::vector<double>& got, std::size_t index, std::uint64_t wrong_count,
              double write_worst) {
    bool is_new = false;
    Finding& finding = findings_.add(key_of(done), is_new);
    if (!is_new) {
      finding.count += wrong_count - 1;
      return;
    }
    finding.count = wrong_count;
    const trace::RowId row = tap.rows[index / tap.width];
    finding.where = {row.request.value, done.call.layer.value,
                     std::string(trace::name(done.call.contract.op)), row.position,
                     index % tap.width};
    finding.got = got[index];
    finding.want = expected.want[index];
    finding.bound = std::max(expected.high[index] - expected.want[index],
                             expected.want[index] - expected.low[index]);
    const double ratio =
        ratio_of(got[index], expected.want[index], expected.low[index], expected.high[index]);
    if (std::isfinite(ratio)) finding.ratio = ratio;
    finding.message = fmt::format("{} of {}: {}", trace::name(tap.point), done.call.contract.kernel,
                                  place(done, tap, index));
    finding.notes.push_back(
        before_count_ == 0
            ? std::string("before it  it is the first operation of its step")
            : fmt::format("before it  {} operations of the same step, worst ratio {:.2f}: its "
                          "operands are right",
                          before_count_, before_worst_));
    finding.notes.push_back(
        fmt::format("this call  {} of {} values wrong, worst ratio {}", wrong_count, got.size(),
                    std::isfinite(write_worst) ? fmt::format("{:.1e}", write_worst)
                                               : std::string("infinite (nothing is allowed)")));
    finding.operation = std::make_shared<OpCompleted>(done);
  }

  void add_extent(Finding& finding) {
    const Extent& extent = extents_[finding.key];
    finding.notes.push_back(fmt::format("extent     {} calls in {} layers, {} values", extent.calls,
                                        extent.layers.size(), finding.count));
  }

  static std::string place(const OpCompleted& done, const TapTensor& tap, std::size_t index) {
    const trace::RowId row = tap.rows[index / tap.width];
    return fmt::format("layer {} {} ({}), prompt {}, position {}, channel {}",
                       done.call.layer.value, trace::name(done.call.contract.op),
                       trace::name(tap.point), row.request.value + 1, row.position,
                       index % tap.width);
  }

  FindingList findings_;
  std::map<std::string, Extent> extents_;
  std::uint64_t checked_ = 0, written_ = 0;
  double worst_ = 0;
  std::string worst_place_, uncomputed_;
  trace::LaunchIndex launch_{~0u};
  std::uint64_t before_count_ = 0;
  double before_worst_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> op_bounds() { return std::make_unique<OpBounds>(); }

}  // namespace lockstep::oracles
