// libFuzzer target: bytes as the generator's choices, so that mutations of bytes are mutations of
// scenarios. Any finding on the correct engine ends it, with the scenario printed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "harness/scenario_run.h"
#include "harness/search/generate.h"
#include "trace/scenario_json.h"

namespace {

[[noreturn]] void fail(const lockstep::trace::Scenario& scenario, const std::string& what) {
  std::fprintf(stderr, "%s\n%s\n", what.c_str(), lockstep::trace::write_scenario(scenario).c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const trace::Scenario scenario =
      harness::generate_from_bytes(std::as_bytes(std::span(data, size)));
  // What is generated is valid, whatever the bytes.
  const std::string text = trace::write_scenario(scenario);
  const base::Result<trace::Scenario> again = trace::parse_scenario(text, "generated");
  if (!again.ok()) fail(scenario, again.error().message());
  harness::ScenarioRunOptions options;
  options.snapshots_and_steps = false;
  const base::Result<harness::ScenarioOutcome> outcome = harness::run_scenario(scenario, options);
  if (!outcome.ok()) fail(scenario, outcome.error().message());
  for (const oracles::Verdict& verdict : outcome->verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      fail(scenario, finding.key + ": " + finding.message);
    }
  }
  return 0;
}
