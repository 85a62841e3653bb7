// The largest launches, phase by phase; step_memory.h.
#include "engine/execute/step_memory.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "device/counting_device.h"
#include "engine/models/batch.h"
#include "engine/models/forward.h"
#include "kernels/kernel_set.h"
#include "kernels/lib/formats.h"

namespace lockstep::engine {
namespace {

constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();

std::uint32_t at_a_time(const trace::EngineSettings& settings, const RequestLimits& limits) {
  return std::max(1u, std::min(settings.max_num_seqs, limits.count));
}

// Rows of a phase, where a request has at most `of_request` tokens that may run in it.
std::uint32_t rows_max(const trace::EngineSettings& settings, const RequestLimits& limits,
                       std::uint32_t of_request) {
  if (settings.chunked_prefill_size > 0) {
    of_request = std::min(of_request, settings.chunked_prefill_size);
  }
  const std::uint64_t all = std::uint64_t{at_a_time(settings, limits)} * of_request;
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(all, 1, std::max(1u, settings.max_num_batched_tokens)));
}

// `segments` requests' rows, as evenly as they go, the last of each at the last position that
// there is; the first `sampled` give tokens.
std::vector<PlannedRows> plan(std::uint32_t rows, std::uint32_t segments, std::uint32_t sampled,
                              std::uint32_t cells, std::uint32_t page_size) {
  std::vector<PlannedRows> planned(segments);
  for (std::uint32_t i = 0; i < segments; ++i) {
    const std::uint32_t count = rows / segments + (i < rows % segments ? 1 : 0);
    LS_CHECK(count <= cells);
    planned[i].request = trace::RequestId{i};
    planned[i].first_position = cells - count;
    planned[i].tokens.assign(count, 0);
    planned[i].samples = i < sampled;
    planned[i].pages.assign(kernels::divide_up(cells, page_size), trace::PageId{0});
  }
  return planned;
}

base::Result<std::uint64_t> phase_bytes(const DeviceModel& model,
                                        const std::vector<PlannedRows>& planned, bool prefill,
                                        const device::DeviceProperties& like) {
  device::CountingDevice counting(like);
  kernels::KernelSet kernels(counting);
  TapRecorder taps(counting, {}, false);  // taps take host memory only
  LS_ASSIGN(const Batch batch, make_batch(counting, planned, prefill, model.kv.page_size));
  LS_TRY(run_batch({model, batch, {kernels, {}}, taps}));
  return counting.peak_bytes();
}

}  // namespace

RequestLimits limits_of(std::span<const trace::RequestSpec> requests, std::uint32_t max_model_len) {
  const auto raise = [](std::uint32_t& most, std::uint64_t value) {
    most = std::max(most, static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMost)));
  };
  RequestLimits limits;
  raise(limits.count, requests.size());
  for (const trace::RequestSpec& request : requests) {
    const std::uint64_t prompt = request.prompt.size();
    if (prompt == 0 || request.max_tokens == 0 || prompt >= max_model_len) continue;
    // Neither the last token of an output nor the last that the model may hold is fed.
    const std::uint64_t reserved = prompt + request.max_tokens - 1;
    const std::uint64_t cells = std::min<std::uint64_t>(reserved, max_model_len - 1);
    raise(limits.prompt_max, prompt);
    raise(limits.outputs_max, cells - prompt);
    raise(limits.cells_max, cells);
    raise(limits.reserved_max, reserved);
  }
  return limits;
}

std::uint32_t blocks_needed(const trace::EngineSettings& settings, const RequestLimits& limits) {
  const std::uint64_t blocks =
      std::uint64_t{at_a_time(settings, limits)} *
      std::max(1u, kernels::divide_up(limits.reserved_max, settings.block_size));
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(blocks, std::numeric_limits<std::uint32_t>::max()));
}

base::Result<std::uint64_t> step_bytes(const DeviceModel& model,
                                       const trace::EngineSettings& settings,
                                       const RequestLimits& limits,
                                       const device::DeviceProperties& like) {
  const std::uint32_t requests = at_a_time(settings, limits);
  const std::uint32_t cells = std::max(1u, limits.cells_max);
  // Rows of prompts: a segment a request.
  const std::uint32_t prompt_rows =
      rows_max(settings, limits, std::clamp(limits.prompt_max, 1u, cells));
  const std::uint32_t segments = std::min(requests, prompt_rows);
  LS_ASSIGN(const std::uint64_t prefill,
            phase_bytes(model, plan(prompt_rows, segments, segments, cells, model.kv.page_size),
                        true, like));
  // Rows behind prompts: a segment a row. A request that was preempted computes all of its own
  // again.
  const std::uint32_t output_rows = rows_max(settings, limits, std::max(1u, limits.outputs_max));
  LS_ASSIGN(const std::uint64_t decode,
            phase_bytes(model,
                        plan(output_rows, output_rows, std::min(requests, output_rows), cells,
                             model.kv.page_size),
                        false, like));
  return std::max(prefill, decode);
}

}  // namespace lockstep::engine
