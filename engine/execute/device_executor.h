// DeviceExecutor: runs planned launches with our kernels on a Device.
//
// Kernels are chosen by phase, never by size, so that a row's bits do not depend on the batch: rows
// of prompts run on tensor cores, all later rows on CUDA cores, also when a preempted request
// computes them again. A launch runs its prompt rows first.
#pragma once

#include <deque>
#include <memory>

#include "engine/execute/launch_executor.h"
#include "engine/execute/step_memory.h"
#include "engine/execute/tap.h"
#include "engine/models/batch.h"
#include "engine/models/device_model.h"
#include "kernels/kernel_set.h"
#include "model/model.h"
#include "trace/scenario.h"

namespace lockstep::engine {

class DeviceExecutor : public LaunchExecutor {
 public:
  // Uploads the model and makes the KV pool: settings.num_blocks, or what the device's memory gives
  // (kv_budget.h). An Error where weights, pool and the largest step that `limits` allow do
  // not fit together. With `taps` every operation is sent to `sink` as an OpCall.
  static base::Result<std::unique_ptr<DeviceExecutor>> create(const model::Model& model,
                                                              device::Device& device,
                                                              const trace::EngineSettings& settings,
                                                              const RequestLimits& limits,
                                                              EventSink sink, bool taps);
  std::uint32_t num_blocks() const { return num_blocks_; }

  // One group, one launch in flight, no forks: tokens are known and nothing is copied. New blocks
  // are not filled: the device's own check of initialization sees a read of what nobody wrote.
  void enqueue(const LaunchBuffers& buffers, const CacheOps& ops) override;
  base::Result<std::vector<LaunchOutput>> run(trace::Tick tick) override;
  void reset(bool memory_lost) override;

 private:
  DeviceExecutor(device::Device& device, std::unique_ptr<DeviceModel> model,
                 std::uint32_t num_blocks, EventSink sink, bool taps);
  base::Status run_launch(const LaunchBuffers& buffers, LaunchOutput& output);
  base::Status run_phase(const std::vector<PlannedRows>& planned, bool prefill,
                         trace::LaunchIndex launch, LaunchOutput& output);

  device::Device& device_;
  std::unique_ptr<DeviceModel> model_;
  std::uint32_t num_blocks_;
  kernels::KernelSet kernels_;
  EventSink sink_;
  TapRecorder taps_;
  std::deque<const LaunchBuffers*> queue_;
};

}  // namespace lockstep::engine
