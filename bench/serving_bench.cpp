// The serving core on the ledger: steps a second on one core, the whole of `run_scenario`: engine,
// ledger, every law, the reference beside each request. The setting that the goals are stated for:
// batch 8, context 256 (200 to 312), 4,096 blocks of 16, vocabulary 257. Prefill steps count as
// steps; the counter `steps` is launches a second of CPU time.
#include <benchmark/benchmark.h>

#include "harness/scenario_run.h"

namespace lockstep {
namespace {

trace::Scenario batch_of_eight(std::uint32_t waves) {
  trace::Scenario scenario;
  scenario.executor = trace::ExecutorKind::Ledger;
  scenario.engine.pools[0].num_blocks = 4096;
  for (std::uint32_t i = 0; i < 8 * waves; ++i) {
    trace::RequestSpec request;
    request.key = request.id = "r" + std::to_string(i);
    for (std::uint32_t j = 0; j < 200; ++j) request.prompt.push_back((i * 31 + j * 7) % 256);
    request.max_tokens = 112;
    request.tick = i / 8 * 112;
    scenario.requests.push_back(std::move(request));
  }
  return scenario;
}

void BM_LedgerSteps(benchmark::State& state) {
  const trace::Scenario scenario = batch_of_eight(16);
  harness::ScenarioRunOptions options;
  options.snapshots_and_steps = false;
  std::uint64_t steps = 0;
  for (auto _ : state) {
    const auto outcome = harness::run_scenario(scenario, options);
    if (!outcome || outcome->finding() != nullptr) {
      state.SkipWithError("a finding");
      return;
    }
    steps += outcome->steps;
  }
  state.counters["steps"] =
      benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_LedgerSteps)->Unit(benchmark::kMillisecond)->MinTime(2);

}  // namespace
}  // namespace lockstep
