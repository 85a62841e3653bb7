// Oracle: a judge of one law, a fold over the event stream of a run (and of the further runs it
// asks for). Oracles see traces only: never the engine, the reference or a device.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "oracles/verdict.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::oracles {

// Further runs of the subject. Request i of a further scenario is request `requests[i]` of the
// judged one.
struct FurtherRun {
  trace::Scenario scenario;
  std::vector<std::uint32_t> requests;
};

class Oracle {
 public:
  virtual ~Oracle() = default;
  virtual std::string_view law() const = 0;
  virtual void on_event(const trace::Event& event) = 0;
  virtual std::vector<FurtherRun> further_runs(const trace::Scenario&) { return {}; }
  // `run`: index into further_runs().
  virtual void on_further_event(std::size_t run, const trace::Event& event) {
    (void)run;
    (void)event;
  }
  // `earlier`: verdicts of the laws listed before this one.
  virtual Verdict finish(const std::vector<Verdict>& earlier) = 0;
};

// All laws of `lockstep run`, in the order of the report.
std::vector<std::unique_ptr<Oracle>> all();

// Laws of a run on the serving core (docs/scenario.md), in the order of the report: those that look
// at causes before those that look at results.
std::vector<std::unique_ptr<Oracle>> serving_laws(const trace::Scenario& scenario);

// One constructor a law; oracles/<law>.cpp.
std::unique_ptr<Oracle> op_bounds();
std::unique_ptr<Oracle> links();
std::unique_ptr<Oracle> mma_replay();
std::unique_ptr<Oracle> token_identity();
std::unique_ptr<Oracle> batch_invariance();
std::unique_ptr<Oracle> kv_pages();
std::unique_ptr<Oracle> device_checks();
std::unique_ptr<Oracle> subject_checks();
using ScenarioPointer = std::shared_ptr<const trace::Scenario>;
std::unique_ptr<Oracle> ownership(ScenarioPointer scenario);
std::unique_ptr<Oracle> one_writer(ScenarioPointer scenario);
std::unique_ptr<Oracle> reads(ScenarioPointer scenario);
std::unique_ptr<Oracle> pad_rows(ScenarioPointer scenario);
std::unique_ptr<Oracle> steps(ScenarioPointer scenario);
std::unique_ptr<Oracle> refusals(ScenarioPointer scenario);
std::unique_ptr<Oracle> cancellation(ScenarioPointer scenario);
std::unique_ptr<Oracle> counts(ScenarioPointer scenario);
std::unique_ptr<Oracle> serving_identity(ScenarioPointer scenario);  // law token_identity
std::unique_ptr<Oracle> liveness(ScenarioPointer scenario);

}  // namespace lockstep::oracles
