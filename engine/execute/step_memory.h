// Memory of a step: the most that the buffers of one launch take at a time. Counted, not computed:
// the executor's own code runs the largest launch on a device that only counts.
#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "device/device.h"
#include "engine/models/device_model.h"
#include "trace/scenario.h"

namespace lockstep::engine {

// The largest requests that will come, each number the largest of its own.
struct RequestLimits {
  std::uint32_t count = 0;         // that may run at a time; max_num_seqs is a limit too
  std::uint32_t prompt_max = 0;    // tokens of a prompt
  std::uint32_t outputs_max = 0;   // tokens of an output that are fed: all but the last
  std::uint32_t cells_max = 0;     // of both, in one request
  std::uint32_t reserved_max = 0;  // cells that must fit for it to be admitted: prompt + max_tokens
                                   // - 1, though max_model_len may end it before
};
// Of requests that are known; those that are refused for their length do not count.
RequestLimits limits_of(std::span<const trace::RequestSpec> requests, std::uint32_t max_model_len);

// KV blocks that they can use at most, together.
std::uint32_t blocks_needed(const trace::EngineSettings& settings, const RequestLimits& limits);

// No launch of DeviceExecutor takes more of a device like `like`, whatever is planned for such
// requests: every buffer of it is at most as large as that of the largest launch, and lives as
// long. The model's pools may be empty. An Error where a kernel refuses the model's sizes.
base::Result<std::uint64_t> step_bytes(const DeviceModel& model,
                                       const trace::EngineSettings& settings,
                                       const RequestLimits& limits,
                                       const device::DeviceProperties& like);

}  // namespace lockstep::engine
