#include "engine/execute/device_executor.h"

#include "base/check.h"
#include "engine/models/batch.h"
#include "engine/models/forward.h"

namespace lockstep::engine {

DeviceExecutor::DeviceExecutor(device::Device& device, std::unique_ptr<DeviceModel> model,
                               EventSink sink, bool taps)
    : device_(device),
      model_(std::move(model)),
      kernels_(device),
      taps_(device, std::move(sink), taps) {}

base::Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::create(
    const model::Model& model, device::Device& device, const trace::EngineSettings& settings,
    EventSink sink, bool taps) {
  LS_ASSIGN(std::unique_ptr<DeviceModel> uploaded, upload(model, device, settings));
  return std::unique_ptr<DeviceExecutor>(
      new DeviceExecutor(device, std::move(uploaded), std::move(sink), taps));
}

base::Result<std::vector<SampledToken>> DeviceExecutor::execute(const StepPlan& plan) {
  std::vector<SampledToken> sampled;
  if (!plan.decode.empty()) LS_TRY(run_phase(plan.decode, false, plan.launch, sampled));
  if (!plan.prefill.empty()) LS_TRY(run_phase(plan.prefill, true, plan.launch, sampled));
  return sampled;
}

base::Status DeviceExecutor::run_phase(const std::vector<PlannedRows>& planned, bool prefill,
                                       trace::LaunchIndex launch,
                                       std::vector<SampledToken>& sampled) {
  LS_ASSIGN(const Batch batch, make_batch(device_, planned, prefill, model_->kv.page_size));
  taps_.begin(launch, prefill);
  const Forward forward{*model_, batch, {kernels_, {}}, taps_};
  LS_ASSIGN(const std::vector<trace::TokenId> tokens, run_batch(forward));
  LS_CHECK(tokens.size() == batch.sampled.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sampled.push_back({batch.rows[batch.sampled[i]].request, tokens[i]});
  }
  return device_.synchronize();
}

}  // namespace lockstep::engine
