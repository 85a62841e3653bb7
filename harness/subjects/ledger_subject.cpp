#include "harness/subjects/ledger_subject.h"

#include "base/check.h"
#include "harness/subjects/ledger_driver.h"

namespace lockstep::harness {

LedgerRun run_ledger(const trace::Scenario& scenario, bool observe,
                     const std::function<void(trace::Event)>& sink) {
  LedgerRun run;
  LedgerDriver driver(scenario, observe, sink, run);
  driver.drive();
  return run;
}

}  // namespace lockstep::harness
