#include "harness/run.h"

#include <memory>

#include "harness/chained.h"
#include "harness/subjects/engine_subject.h"
#include "oracles/oracle.h"
#include "reference/local.h"

namespace lockstep::harness {
namespace {

// The event stream of the judged run: operations meet their reference, then everything goes to the
// laws and to what the report shows.
class Judge {
 public:
  Judge(const model::Model& model, const trace::Scenario& scenario, const RunOptions& options,
        const trace::DeviceInfo& info)
      : options_(options),
        local_(model, info, scenario.seed),
        chained_(model, scenario),
        laws_(oracles::all()) {
    outcome_.outputs.resize(scenario.requests.size());
  }

  void on_event(trace::Event event) {
    if (auto* done = std::get_if<trace::OpCompleted>(&event)) {
      if (options_.taps == Taps::Ops) {
        done->reference = local_.judge(done->call);
      } else {
        done->reference.reason = "operations are not tapped";
      }
    }
    note(event);
    chained_.on_event(event);
    for (const auto& law : laws_) law->on_event(event);
  }

  base::Status compare_chained() {
    LS_ASSIGN(outcome_.drift, chained_.compare([this](trace::Event event) {
      for (const auto& law : laws_) law->on_event(event);
    }));
    if (outcome_.drift->tokens == 0) outcome_.drift.reset();
    return base::Ok{};
  }

  const std::vector<std::unique_ptr<oracles::Oracle>>& laws() const { return laws_; }
  bool device_objected() const { return device_objected_; }

  RunOutcome finish() {
    for (const auto& law : laws_) outcome_.verdicts.push_back(law->finish(outcome_.verdicts));
    return std::move(outcome_);
  }

 private:
  void note(const trace::Event& event) {
    if (const auto* admitted = std::get_if<trace::RequestAdmitted>(&event)) {
      local_.tell_tokens(admitted->request, 0, admitted->prompt);
    } else if (const auto* sampled = std::get_if<trace::TokenSampled>(&event)) {
      outcome_.outputs[sampled->request.value].tokens.push_back(sampled->argmax);
      local_.tell_tokens(sampled->request, sampled->position, std::span(&sampled->fed, 1));
      if (options_.progress) options_.progress("token " + std::to_string(++tokens_));
    } else if (const auto* finished = std::get_if<trace::RequestFinished>(&event)) {
      outcome_.outputs[finished->request.value].finish_reason = finished->reason;
      local_.release(finished->request);
    } else if (const auto* refused = std::get_if<trace::RequestRefused>(&event)) {
      outcome_.outputs[refused->request.value].finish_reason = "refused: " + refused->reason;
    } else if (const auto* counted = std::get_if<trace::DeviceCounted>(&event)) {
      outcome_.warp_instructions += counted->warp_instructions;
      outcome_.launches += counted->launches;
    } else if (std::holds_alternative<trace::DeviceReported>(event) ||
               std::holds_alternative<trace::SubjectFailed>(event)) {
      device_objected_ = true;
    }
  }

  const RunOptions& options_;
  reference::LocalReference local_;
  ChainedComparison chained_;
  std::vector<std::unique_ptr<oracles::Oracle>> laws_;
  RunOutcome outcome_;
  bool device_objected_ = false;
  std::uint64_t tokens_ = 0;
};

// The runs that laws ask for beside the judged one. The judged run has shown what the device's
// checks say; these compare bits only.
base::Status run_further(const model::Model& model, const trace::Scenario& scenario,
                         const RunOptions& options, const Judge& judge) {
  SubjectOptions subject{options.taps == Taps::Ops, options.device};
  subject.device.memcheck = subject.device.initcheck = false;
  subject.device.racecheck = subject.device.synccheck = false;
  for (const auto& law : judge.laws()) {
    const std::vector<oracles::FurtherRun> runs = law->further_runs(scenario);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (options.progress) options.progress("further run " + std::to_string(i + 1));
      LS_TRY(run_engine(model, runs[i].scenario, subject,
                        [&](trace::Event event) { law->on_further_event(i, event); }));
    }
  }
  return base::Ok{};
}

}  // namespace

base::Result<RunOutcome> run(const model::Model& model, const trace::Scenario& scenario,
                             const RunOptions& options) {
  // 1. What the device is, and what it is judged as.
  LS_ASSIGN(const trace::DeviceInfo actual, device_info(scenario.device));
  const trace::DeviceInfo info = options.judged_as.value_or(actual);
  // 2. The subject runs; each operation is judged as it streams by.
  Judge judge(model, scenario, options, info);
  LS_TRY(run_engine(model, scenario, {options.taps != Taps::None, options.device},
                    [&](trace::Event event) { judge.on_event(std::move(event)); }));
  // 3. Further runs: the same requests alone and in chunks.
  if (options.further_runs && !judge.device_objected()) {
    LS_TRY(run_further(model, scenario, options, judge));
  }
  // 4. The chained reference: margins and drift.
  if (options.progress) options.progress("chained reference");
  LS_TRY(judge.compare_chained());
  // 5. Verdicts.
  return judge.finish();
}

}  // namespace lockstep::harness
