// DeviceExecutor: runs a StepPlan with our kernels on a Device.
#pragma once

#include <memory>

#include "engine/execute/executor.h"
#include "engine/execute/tap.h"
#include "engine/models/device_model.h"
#include "kernels/kernel_set.h"
#include "model/model.h"
#include "trace/scenario.h"

namespace lockstep::engine {

class DeviceExecutor : public Executor {
 public:
  // Uploads the model. With `taps` every operation is sent to `sink` as an OpCall.
  static base::Result<std::unique_ptr<DeviceExecutor>> create(const model::Model& model,
                                                              device::Device& device,
                                                              const trace::EngineSettings& settings,
                                                              EventSink sink, bool taps);

  base::Result<std::vector<SampledToken>> execute(const StepPlan& plan) override;

 private:
  DeviceExecutor(device::Device& device, std::unique_ptr<DeviceModel> model, EventSink sink,
                 bool taps);
  base::Status run_phase(const std::vector<PlannedRows>& planned, bool prefill,
                         trace::LaunchIndex launch, std::vector<SampledToken>& sampled);

  device::Device& device_;
  std::unique_ptr<DeviceModel> model_;
  kernels::KernelSet kernels_;
  TapRecorder taps_;
};

}  // namespace lockstep::engine
