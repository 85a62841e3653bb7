#include "harness/alone/tiny_run_test.h"

#include <gtest/gtest.h>

#include <utility>

namespace lockstep::harness {

RecordedOperation TinyRun::operation(trace::Op op, bool prefill,
                                     std::optional<model::WeightRole> weight) const {
  return cut_out(calls.at({op, prefill, weight}), 0, model, scenario, options).value();
}

model::TinyOptions tiny_options(model::Arch arch, model::DType weights) {
  model::TinyOptions tiny;
  tiny.arch = arch;
  tiny.seed = 7;
  tiny.dtype = weights;
  tiny.window = arch == model::Arch::Gemma3 ? 5 : 0;
  tiny.vocab_size = 320;
  return tiny;
}

TinyRun run_tiny_model(
    const model::TinyOptions& tiny, const char* device, model::DType operands,
    device::ApproximationMode approximation,
    const std::function<bool(const model::Model&, const trace::OpCall&)>& wants) {
  TinyRun run;
  run.model = model::make_tiny(tiny);
  run.options.approximation = approximation;
  run.scenario.device = device;
  run.scenario.seed = 11;
  run.scenario.engine.block_size = 3;
  run.scenario.engine.operand_format = operands;
  run.scenario.requests.resize(2);
  run.scenario.requests[0].prompt = {1, 5, 9, 2, 7, 7, 3};
  run.scenario.requests[1].prompt = {4, 2};
  for (trace::RequestSpec& request : run.scenario.requests) request.max_tokens = 3;
  const base::Status status =
      run_engine(run.model, run.scenario, {true, run.options}, [&](const trace::Event& event) {
        const auto* done = std::get_if<trace::OpCompleted>(&event);
        if (done == nullptr || (wants && !wants(run.model, done->call))) return;
        const trace::OpCall& call = done->call;
        run.calls[{call.contract.op, call.prefill, call.weight}] = call;
      });
  EXPECT_TRUE(status.ok()) << status.error().message();
  return run;
}

}  // namespace lockstep::harness
