#include "engine/execute/device_executor.h"

#include <algorithm>

#include "base/check.h"
#include "engine/execute/kv_budget.h"
#include "engine/models/batch.h"
#include "engine/models/forward.h"

namespace lockstep::engine {
namespace {

// The rows [begin, end) of a sequence.
PlannedRows rows_of(const LaunchBuffers& buffers, std::uint32_t sequence, std::uint32_t begin,
                    std::uint32_t end, bool samples) {
  PlannedRows rows;
  rows.request = buffers.requests[sequence];
  rows.first_position = static_cast<trace::Position>(buffers.positions[begin]);
  for (std::uint32_t row = begin; row < end; ++row) {
    LS_CHECK(buffers.tokens[row] >= 0, "one launch in flight knows its tokens");
    rows.tokens.push_back(static_cast<trace::TokenId>(buffers.tokens[row]));
  }
  rows.samples = samples;
  const auto table = buffers.tables[0].begin();
  rows.pages.assign(table + buffers.table_start[0][sequence],
                    table + buffers.table_start[0][sequence + 1]);
  return rows;
}

// A launch's rows by phase. A row behind the prompt is a segment of its own, as in decode.
struct Phases {
  std::vector<PlannedRows> prefill, decode;
};

Phases split(const LaunchBuffers& buffers) {
  Phases phases;
  for (std::uint32_t s = 0; s < buffers.sequence_count; ++s) {
    const std::uint32_t begin = buffers.query_start[s], end = buffers.query_start[s + 1];
    const bool samples = std::ranges::any_of(
        buffers.sampling, [s](const SamplingInput& input) { return input.sequence == s; });
    const auto first = static_cast<std::uint32_t>(buffers.positions[begin]);
    const std::uint32_t prompt = buffers.prompt_counts[s];
    const std::uint32_t prompt_end =
        begin + std::min(end - begin, prompt - std::min(prompt, first));
    if (prompt_end > begin) {
      phases.prefill.push_back(
          rows_of(buffers, s, begin, prompt_end, samples && prompt_end == end));
    }
    for (std::uint32_t row = prompt_end; row < end; ++row) {
      phases.decode.push_back(rows_of(buffers, s, row, row + 1, samples && row + 1 == end));
    }
  }
  return phases;
}

// What the kernels are given to read and write, as events.
trace::LaunchRan ran_event(const LaunchBuffers& buffers, trace::Tick tick) {
  trace::LaunchRan ran;
  ran.launch = buffers.launch;
  ran.tick = tick;
  for (std::uint32_t s = 0; s < buffers.sequence_count; ++s) {
    const std::uint32_t begin = buffers.query_start[s], end = buffers.query_start[s + 1];
    const PlannedRows rows = rows_of(buffers, s, begin, end, false);
    trace::RanRows& one = ran.rows.emplace_back();
    one.request = rows.request;
    one.first_position = rows.first_position;
    one.tokens = rows.tokens;
    one.sequence_length = buffers.sequence_length[s];
    one.tables = {rows.pages};
    one.slots.emplace_back(buffers.slots[0].begin() + begin, buffers.slots[0].begin() + end);
  }
  return ran;
}

}  // namespace

DeviceExecutor::DeviceExecutor(device::Device& device, std::unique_ptr<DeviceModel> model,
                               std::uint32_t num_blocks, EventSink sink, bool taps)
    : device_(device),
      model_(std::move(model)),
      num_blocks_(num_blocks),
      kernels_(device),
      sink_(sink),
      taps_(device, std::move(sink), taps) {}

base::Result<std::unique_ptr<DeviceExecutor>> DeviceExecutor::create(
    const model::Model& model, device::Device& device, const trace::EngineSettings& settings,
    const RequestLimits& limits, EventSink sink, bool taps) {
  LS_CHECK(settings.groups.size() == 1 && settings.async_depth == 1);
  LS_ASSIGN(std::unique_ptr<DeviceModel> uploaded,
            upload(model, device, settings, std::max(1u, limits.cells_max)));
  KvBudget budget;
  budget.total_bytes = device.memory().total_bytes;
  budget.free_bytes = device.memory().free_bytes;
  budget.utilization = settings.gpu_memory_utilization;
  LS_ASSIGN(budget.step_bytes, step_bytes(*uploaded, settings, limits, device.properties()));
  budget.buffers = 2 * uploaded->layers.size();
  budget.block_bytes = page_bytes(uploaded->kv);
  budget.overhead_bytes = device.properties().allocation_overhead_bytes;
  budget.blocks_wanted = settings.num_blocks;
  budget.blocks_needed = blocks_needed(settings, limits);
  LS_ASSIGN(const std::uint32_t num_blocks, kv_blocks(budget));
  LS_TRY(add_pools(*uploaded, device, num_blocks));
  return std::unique_ptr<DeviceExecutor>(
      new DeviceExecutor(device, std::move(uploaded), num_blocks, std::move(sink), taps));
}

void DeviceExecutor::enqueue(const LaunchBuffers& buffers, const CacheOps& ops) {
  LS_CHECK(ops.copies.empty());
  queue_.push_back(&buffers);
}

void DeviceExecutor::reset(bool) { queue_.clear(); }

base::Result<std::vector<LaunchOutput>> DeviceExecutor::run(trace::Tick tick) {
  std::vector<LaunchOutput> outputs;
  while (!queue_.empty()) {
    const LaunchBuffers& buffers = *queue_.front();
    queue_.pop_front();
    sink_(ran_event(buffers, tick));
    LaunchOutput output;
    const base::Status status = run_launch(buffers, output);
    // create() found every kernel: what the environment can still lack is memory.
    if (!status && status.error().kind != base::ErrorKind::Environment) return status.error();
    if (!status) output.error = status.error().message();
    outputs.push_back(std::move(output));
  }
  return outputs;
}

base::Status DeviceExecutor::run_launch(const LaunchBuffers& buffers, LaunchOutput& output) {
  output.launch = buffers.launch;
  for (std::uint32_t s = 0; s < buffers.sequence_count; ++s) {
    SequenceOutput& sequence = output.sequences.emplace_back();
    sequence.request = buffers.requests[s];
    sequence.kind = buffers.kinds[s];
  }
  const Phases phases = split(buffers);
  if (!phases.prefill.empty()) LS_TRY(run_phase(phases.prefill, true, buffers.launch, output));
  if (!phases.decode.empty()) LS_TRY(run_phase(phases.decode, false, buffers.launch, output));
  return base::Ok{};
}

base::Status DeviceExecutor::run_phase(const std::vector<PlannedRows>& planned, bool prefill,
                                       trace::LaunchIndex launch, LaunchOutput& output) {
  LS_ASSIGN(const Batch batch, make_batch(device_, planned, prefill, model_->kv.page_size));
  taps_.begin(launch, prefill);
  const Forward forward{*model_, batch, {kernels_, {}}, taps_};
  LS_ASSIGN(const std::vector<trace::TokenId> tokens, run_batch(forward));
  LS_CHECK(tokens.size() == batch.sampled.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const trace::RequestId request = batch.rows[batch.sampled[i]].request;
    const auto sequence = std::ranges::find(output.sequences, request, &SequenceOutput::request);
    LS_CHECK(sequence != output.sequences.end());
    sequence->tokens = sequence->sampled = {tokens[i]};
  }
  return device_.synchronize();
}

}  // namespace lockstep::engine
