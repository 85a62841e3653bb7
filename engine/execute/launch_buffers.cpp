#include "engine/execute/launch_buffers.h"

#include <limits>

#include "base/check.h"

namespace lockstep::engine {
namespace {

// The token at a position: known, or in the future slot of the launch that samples it. Launches in
// flight sample consecutive positions from the first unknown one on.
TokenInput token_at(const Life& life, const PlannedSequence& planned, std::uint32_t position) {
  const std::uint32_t first_draft =
      planned.first + planned.count - static_cast<std::uint32_t>(planned.drafts.size());
  if (position >= first_draft) return planned.drafts[position - first_draft];
  if (position < life.known()) return life.tokens[position];
  std::uint32_t unknown = position - life.known();
  for (const Flight& flight : life.flights) {
    if (!flight.samples) continue;
    if (unknown == 0) return from_future(flight.future_slot);
    --unknown;
  }
  LS_CHECK(false, "a token that no launch in flight samples");
  return 0;
}

std::int64_t slot_of(const trace::GroupSpec& group, std::span<const BlockId> table,
                     std::uint32_t position) {
  const BlockId block = table[position / group.block_size];
  LS_CHECK(block != trace::kNoBlock);
  if (group.type == trace::GroupType::Mamba) return block.value;
  return static_cast<std::int64_t>(block.value) * group.block_size + position % group.block_size;
}

void fill_rows(LaunchBuffers& buffers, const PlannedSequence& planned, const Life& life,
               const KvCache& cache, const trace::EngineSettings& settings, std::uint32_t row) {
  for (std::uint32_t i = 0; i < planned.count; ++i) {
    buffers.tokens[row + i] = token_at(life, planned, planned.first + i);
    buffers.positions[row + i] = planned.first + i;
  }
  for (std::uint32_t g = 0; g < settings.groups.size(); ++g) {
    const trace::GroupSpec& group = settings.groups[g];
    const std::span<const BlockId> table = cache.table(life.id, g);
    for (std::uint32_t i = 0; i < planned.count; ++i) {
      const bool writes = group.type != trace::GroupType::Mamba || i + 1 == planned.count;
      buffers.slots[g][row + i] = writes ? slot_of(group, table, planned.first + i) : kNoSlot;
    }
    buffers.tables[g].insert(buffers.tables[g].end(), table.begin(), table.end());
    buffers.table_start[g].push_back(static_cast<std::uint32_t>(buffers.tables[g].size()));
  }
}

void fill_sampling(LaunchBuffers& buffers, const PlannedSequence& planned, const Life& life,
                   std::uint32_t sequence, std::uint32_t row) {
  const auto draft_count = static_cast<std::uint32_t>(planned.drafts.size());
  SamplingInput input;
  input.sequence = sequence;
  input.first_row = row + planned.count - 1 - draft_count;
  input.future_slot = planned.future_slot;
  input.drafts = planned.drafts;
  input.submission = life.submission;
  input.seed = life.seed();
  input.prompt_count = life.prompt_count;
  const trace::SamplingParams& params = life.spec().sampling;
  input.greedy = params.temperature == 0 && !params.has_penalties() && params.min_tokens == 0 &&
                 params.logit_bias.empty() && !params.logprobs;
  if (input.greedy) {
    buffers.sampling.push_back(std::move(input));
    return;
  }
  const std::uint32_t output_end = planned.first + planned.count - draft_count;
  for (std::uint32_t p = life.prompt_count; p < output_end; ++p) {
    input.output.push_back(token_at(life, planned, p));
  }
  buffers.sampling.push_back(std::move(input));
}

// Tokens and positions that pad rows hold: what must not matter.
void fill_pad_rows(LaunchBuffers& buffers, trace::PadFill kind) {
  for (std::uint32_t row = buffers.token_count; row < buffers.padded_to; ++row) {
    switch (kind) {
      case trace::PadFill::Stale:
        break;
      case trace::PadFill::Zero:
        buffers.tokens[row] = 0;
        buffers.positions[row] = 0;
        break;
      case trace::PadFill::Nan:  // a token has no NaN: no id at all
        buffers.tokens[row] = std::numeric_limits<std::int64_t>::min();
        buffers.positions[row] = -1;
        break;
      case trace::PadFill::Huge:
        buffers.tokens[row] = std::numeric_limits<std::int64_t>::max();
        buffers.positions[row] = std::numeric_limits<std::int64_t>::max();
        break;
    }
    for (auto& slots : buffers.slots) slots[row] = kNoSlot;
    buffers.query_start.push_back(buffers.token_count);
    buffers.sequence_length.push_back(0);
  }
}

void size_rows(LaunchBuffers& buffers, const Step& step, std::size_t group_count) {
  buffers.launch = step.launch;
  buffers.token_count = step.token_count;
  buffers.padded_to = step.padded_to;
  buffers.sequence_count = static_cast<std::uint32_t>(step.sequences.size());
  if (buffers.tokens.size() < step.padded_to) {
    buffers.tokens.resize(step.padded_to);
    buffers.positions.resize(step.padded_to);
  }
  buffers.slots.resize(group_count);
  for (auto& slots : buffers.slots) {
    if (slots.size() < step.padded_to) slots.resize(step.padded_to, kNoSlot);
  }
  buffers.tables.assign(group_count, {});
  buffers.table_start.assign(group_count, {0});
  buffers.query_start.assign(1, 0);
  buffers.sequence_length.clear();
  buffers.adapter_weights.clear();
  buffers.requests.clear();
  buffers.kinds.clear();
  buffers.prompt_counts.clear();
  buffers.sampling.clear();
}

}  // namespace

void fill(LaunchBuffers& buffers, const Step& step, const Schedule& schedule, const KvCache& cache,
          const trace::EngineSettings& settings) {
  size_rows(buffers, step, settings.groups.size());
  std::uint32_t row = 0;
  for (std::uint32_t i = 0; i < step.sequences.size(); ++i) {
    const PlannedSequence& planned = step.sequences[i];
    const Life& life = schedule.life(planned.request);
    fill_rows(buffers, planned, life, cache, settings, row);
    if (planned.samples) fill_sampling(buffers, planned, life, i, row);
    row += planned.count;
    buffers.query_start.push_back(row);
    buffers.sequence_length.push_back(planned.first + planned.count);
    buffers.adapter_weights.push_back(life.submission->adapter_weights);
    buffers.requests.push_back(planned.request);
    buffers.kinds.push_back(planned.kind);
    buffers.prompt_counts.push_back(life.prompt_count);
  }
  LS_CHECK(row == step.token_count);
  fill_pad_rows(buffers, settings.pad_fill);
}

}  // namespace lockstep::engine
