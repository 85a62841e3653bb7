#include "engine/execute/ledger_executor.h"

#include <algorithm>

#include "base/check.h"
#include "engine/sample/verify.h"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kNoMedia = 0;

// Words that nobody wrote: arbitrary, but the same in every run, and no word a right run sees.
std::uint64_t poison(std::uint64_t pool, std::uint64_t block, std::uint64_t offset) {
  return mix(0x706f69736f6e, pool, block, offset);
}

// Words of a block: cells, or a recurrent state and its last conv_width - 1 cells.
std::uint32_t payload_words(const trace::GroupSpec& group) {
  return group.type == trace::GroupType::Mamba ? group.conv_width : group.block_size;
}

}  // namespace

// One sequence of the launch that runs: its rows, and for each group what has been summed so far.
struct LedgerExecutor::Sequence {
  std::uint32_t first_row = 0, row_count = 0;
  std::uint32_t keys_before = 0;  // cells before the first row: sequence_length - row_count
  std::vector<std::span<const BlockId>> tables;    // [group]
  std::vector<std::uint64_t> sums;                 // attention: of the cells read; mamba: R
  std::vector<std::vector<std::uint64_t>> recent;  // mamba: last conv_width - 1 cells, newest first
};

LedgerExecutor::LedgerExecutor(const trace::LedgerModel& model,
                               const trace::EngineSettings& settings, EventSink sink)
    : model_(model), settings_(settings), sink_(std::move(sink)) {
  pools_.resize(settings_.pools.size());
  for (const trace::GroupSpec& group : settings_.groups) {
    Pool& pool = pools_[group.pool];
    pool.stride = std::max(pool.stride, payload_words(group));
  }
  for (std::uint32_t p = 0; p < pools_.size(); ++p) {
    pools_[p].words.resize(std::size_t{settings_.pools[p].num_blocks} * pools_[p].stride);
  }
  reset(true);
}

void LedgerExecutor::reset(bool memory_lost) {
  queue_.clear();
  if (!memory_lost) return;
  for (std::uint32_t p = 0; p < pools_.size(); ++p) {
    Pool& pool = pools_[p];
    for (std::size_t i = 0; i < pool.words.size(); ++i) {
      pool.words[i] = poison(p, i / pool.stride, i % pool.stride);
    }
  }
}

void LedgerExecutor::enqueue(const LaunchBuffers& buffers, const CacheOps& ops) {
  queue_.push_back({&buffers, ops});
}

base::Result<std::vector<LaunchOutput>> LedgerExecutor::run(trace::Tick tick) {
  std::vector<LaunchOutput> outputs;
  while (!queue_.empty()) {
    const Queued queued = std::move(queue_.front());
    queue_.pop_front();
    run_ops(queued.ops);
    outputs.push_back(run_launch(*queued.buffers, tick));
  }
  return outputs;
}

void LedgerExecutor::run_ops(const CacheOps& ops) {
  for (const CopyOp& copy : ops.copies) {
    Pool& pool = pools_[copy.pool];
    const auto begin = [&](BlockId block) {
      return pool.words.begin() + static_cast<std::ptrdiff_t>(block.value) * pool.stride;
    };
    std::copy_n(begin(copy.source), pool.stride, begin(copy.destination));
    sink_(trace::CopyRan{copy.pool, copy.source, copy.destination});
  }
  for (const FillOp& fill : ops.fills) {
    if (settings_.fill_new_blocks == trace::BlockFill::None) continue;
    Pool& pool = pools_[fill.pool];
    const std::size_t begin = std::size_t{fill.block.value} * pool.stride;
    for (std::uint32_t i = 0; i < pool.stride; ++i) {
      pool.words[begin + i] = settings_.fill_new_blocks == trace::BlockFill::Zero
                                  ? 0
                                  : poison(fill.pool, fill.block.value, i);
    }
    sink_(trace::CopyRan{fill.pool, trace::kNoBlock, fill.block});
  }
}

trace::TokenId LedgerExecutor::resolve(TokenInput input) const {
  if (input >= 0) return static_cast<trace::TokenId>(input);
  const auto slot = static_cast<std::size_t>(-1 - input);
  return slot < futures_.size() ? futures_[slot] : 0;
}

std::uint64_t* LedgerExecutor::word(std::uint32_t group, BlockId block, std::uint32_t offset) {
  const std::uint32_t index = settings_.groups[group].pool;
  Pool& pool = pools_[index];
  LS_CHECK(block.value < settings_.pools[index].num_blocks && offset < pool.stride);
  return &pool.words[std::size_t{block.value} * pool.stride + offset];
}

// A cell through the block table. What the table does not name reads as something arbitrary.
std::uint64_t LedgerExecutor::read_cell(const Sequence& sequence, std::uint32_t group,
                                        std::uint32_t position) {
  const std::uint32_t block_size = settings_.groups[group].block_size;
  const std::size_t index = position / block_size;
  const std::span<const BlockId> table = sequence.tables[group];
  if (index >= table.size() || table[index] == trace::kNoBlock) return poison(~0u, index, position);
  return *word(group, table[index], position % block_size);
}

std::uint64_t LedgerExecutor::sum_cells(const Sequence& sequence, std::uint32_t group,
                                        std::uint32_t begin, std::uint32_t end) {
  const std::uint32_t block_size = settings_.groups[group].block_size;
  const std::span<const BlockId> table = sequence.tables[group];
  std::uint64_t sum = 0;
  for (std::uint32_t position = begin; position < end;) {
    const std::uint32_t offset = position % block_size;
    const std::uint32_t count = std::min(block_size - offset, end - position);
    const std::size_t index = position / block_size;
    if (index >= table.size() || table[index] == trace::kNoBlock) {
      for (std::uint32_t i = 0; i < count; ++i) sum += read_cell(sequence, group, position + i);
    } else {
      const std::uint64_t* cells = word(group, table[index], offset);
      for (std::uint32_t i = 0; i < count; ++i) sum += cells[i];
    }
    position += count;
  }
  return sum;
}

namespace {

// First position that a query which sees `keys` cells before it reads.
std::uint32_t window_begin(const trace::GroupSpec& group, std::uint32_t keys) {
  if (group.type != trace::GroupType::SlidingWindow) return 0;
  return keys >= group.window ? keys - (group.window - 1) : 0;
}

// Contribution of the recent cells to what a recurrent group reads.
std::uint64_t convolution(const std::vector<std::uint64_t>& recent) {
  std::uint64_t sum = 0;
  for (std::size_t d = 1; d <= recent.size(); ++d) sum += mix(6, d, recent[d - 1]);
  return sum;
}

}  // namespace

// What each group has read before the sequence's first row.
void LedgerExecutor::begin_group(Sequence& sequence, std::uint32_t g) {
  const trace::GroupSpec& group = settings_.groups[g];
  const std::uint32_t keys = sequence.keys_before;
  if (group.type != trace::GroupType::Mamba) {
    sequence.sums[g] = sum_cells(sequence, g, window_begin(group, keys), keys);
    return;
  }
  if (keys == 0) return;
  const std::uint32_t last = (keys - 1) / group.block_size;
  const std::span<const BlockId> table = sequence.tables[g];
  const bool held = last < table.size() && table[last] != trace::kNoBlock;
  const auto state = [&](std::uint32_t d) {
    return held ? *word(g, table[last], d) : poison(~0u, g, d);
  };
  sequence.sums[g] = state(0);
  const std::uint32_t recent = std::min(group.conv_width - 1, keys);
  for (std::uint32_t d = 1; d <= recent; ++d) sequence.recent[g].push_back(state(d));
}

// What the group lets row `i` read.
std::uint64_t LedgerExecutor::read_group(Sequence& sequence, std::uint32_t g, std::uint32_t i) {
  const trace::GroupSpec& group = settings_.groups[g];
  if (group.type == trace::GroupType::Mamba) {
    return sequence.sums[g] + convolution(sequence.recent[g]);
  }
  if (i > 0) {  // the cell before joins, the one that left the window goes
    const std::uint32_t keys = sequence.keys_before + i;
    sequence.sums[g] += read_cell(sequence, g, keys - 1);
    const std::uint32_t begin = window_begin(group, keys);
    if (begin > window_begin(group, keys - 1)) {
      sequence.sums[g] -= read_cell(sequence, g, begin - 1);
    }
  }
  return sequence.sums[g];
}

// The row's cell, where its slot says.
void LedgerExecutor::write_group(Sequence& sequence, std::uint32_t g, std::uint64_t cell,
                                 std::int64_t slot) {
  const trace::GroupSpec& group = settings_.groups[g];
  if (group.type != trace::GroupType::Mamba) {
    if (slot == kNoSlot) return;
    *word(g, BlockId{static_cast<std::uint32_t>(slot / group.block_size)},
          static_cast<std::uint32_t>(slot % group.block_size)) = cell;
    return;
  }
  sequence.sums[g] = mix(5, sequence.sums[g], cell);
  std::vector<std::uint64_t>& recent = sequence.recent[g];
  recent.insert(recent.begin(), cell);
  if (recent.size() >= group.conv_width) recent.pop_back();
  if (slot == kNoSlot) return;
  const BlockId block{static_cast<std::uint32_t>(slot)};
  *word(g, block, 0) = sequence.sums[g];
  for (std::uint32_t d = 1; d <= recent.size(); ++d) *word(g, block, d) = recent[d - 1];
}

void LedgerExecutor::begin_sequence(const LaunchBuffers& buffers, std::uint32_t index,
                                    Sequence& sequence, trace::RanRows& ran) {
  const std::size_t group_count = settings_.groups.size();
  sequence.first_row = buffers.query_start[index];
  sequence.row_count = buffers.query_start[index + 1] - sequence.first_row;
  LS_CHECK(buffers.sequence_length[index] >= sequence.row_count);
  sequence.keys_before = buffers.sequence_length[index] - sequence.row_count;
  sequence.sums.assign(group_count, 0);
  sequence.recent.resize(group_count);
  for (std::uint32_t g = 0; g < group_count; ++g) {
    const std::uint32_t begin = buffers.table_start[g][index];
    sequence.tables.push_back(
        std::span(buffers.tables[g]).subspan(begin, buffers.table_start[g][index + 1] - begin));
    ran.tables.emplace_back(sequence.tables[g].begin(), sequence.tables[g].end());
    begin_group(sequence, g);
  }
  ran.slots.resize(group_count);
  ran.request = buffers.requests[index];
  ran.first_position = static_cast<trace::Position>(buffers.positions[sequence.first_row]);
  ran.sequence_length = buffers.sequence_length[index];
}

void LedgerExecutor::run_sequence(const LaunchBuffers& buffers, std::uint32_t index,
                                  trace::RanRows& ran) {
  Sequence sequence;
  begin_sequence(buffers, index, sequence, ran);
  const auto group_count = static_cast<std::uint32_t>(settings_.groups.size());
  for (std::uint32_t i = 0; i < sequence.row_count; ++i) {
    const std::uint32_t row = sequence.first_row + i;
    const trace::TokenId token = resolve(buffers.tokens[row]);
    ran.tokens.push_back(token);
    std::uint64_t v = mix(3, mix(1, model_.seed, buffers.adapter_weights[index], token,
                                 buffers.positions[row], kNoMedia));
    for (std::uint32_t g = 0; g < group_count; ++g) v = mix_in(v, read_group(sequence, g, i));
    row_values_[row] = v;
    for (std::uint32_t g = 0; g < group_count; ++g) {
      const std::int64_t slot = buffers.slots[g][row];
      write_group(sequence, g, mix(4, g, v), slot);
      if (slot != kNoSlot) ran.slots[g].push_back(slot);
    }
  }
}

// A pad row computes like any other; with no slot it leaves no trace.
void LedgerExecutor::run_pad_rows(const LaunchBuffers& buffers, trace::LaunchRan& ran) {
  for (std::uint32_t row = buffers.token_count; row < buffers.padded_to; ++row) {
    for (std::uint32_t g = 0; g < settings_.groups.size(); ++g) {
      const std::int64_t slot = buffers.slots[g][row];
      if (slot < 0) continue;
      const trace::GroupSpec& group = settings_.groups[g];
      const bool mamba = group.type == trace::GroupType::Mamba;
      const std::int64_t size = mamba ? 1 : group.block_size;
      const std::uint64_t x = mix(1, model_.seed, 0, resolve(buffers.tokens[row]),
                                  static_cast<std::uint64_t>(buffers.positions[row]), kNoMedia);
      *word(g, BlockId{static_cast<std::uint32_t>(slot / size)},
            static_cast<std::uint32_t>(slot % size)) = mix(4, g, mix(3, x));
      ran.pad_slots.push_back(slot);
    }
  }
}

LaunchOutput LedgerExecutor::run_launch(const LaunchBuffers& buffers, trace::Tick tick) {
  row_values_.assign(buffers.padded_to, 0);
  trace::LaunchRan ran{buffers.launch, tick, {}, {}};
  LaunchOutput output{buffers.launch, {}, {}};
  ran.rows.resize(buffers.sequence_count);
  output.sequences.resize(buffers.sequence_count);
  for (std::uint32_t i = 0; i < buffers.sequence_count; ++i) {
    run_sequence(buffers, i, ran.rows[i]);
    output.sequences[i].request = buffers.requests[i];
    output.sequences[i].kind = buffers.kinds[i];
  }
  run_pad_rows(buffers, ran);
  for (const SamplingInput& input : buffers.sampling) {
    SequenceOutput sampled = sample_rows(buffers, input);
    if (futures_.size() <= input.future_slot) futures_.resize(input.future_slot + 1);
    futures_[input.future_slot] = sampled.tokens.back();
    output.sequences[input.sequence] = std::move(sampled);
  }
  sink_(std::move(ran));
  return output;
}

namespace {

const trace::ScriptEntry& script_entry(const trace::RequestSpec& spec, std::size_t output_index) {
  static const trace::ScriptEntry kOwn;
  return output_index < spec.script.size() ? spec.script[output_index] : kOwn;
}

}  // namespace

SequenceOutput LedgerExecutor::sample_rows(const LaunchBuffers& buffers,
                                           const SamplingInput& input) {
  SequenceOutput output;
  output.request = buffers.requests[input.sequence];
  output.kind = buffers.kinds[input.sequence];
  output.drafts = input.drafts;
  const trace::RequestSpec& spec = input.submission->spec;
  const auto index = static_cast<std::size_t>(buffers.positions[input.first_row]) + 1 -
                     input.prompt_count;  // of the first token that is sampled
  if (!input.greedy) {
    logits_.resize(input.drafts.size() + 1);
    for (std::size_t i = 0; i <= input.drafts.size(); ++i) {
      fill_logits(row_values_[input.first_row + i], model_, script_entry(spec, index + i),
                  logits_[i]);
    }
    sample_general(input, output);
    return output;
  }
  for (std::size_t i = 0; i <= input.drafts.size(); ++i) {
    output.sampled.push_back(
        greedy_token(row_values_[input.first_row + i], model_, script_entry(spec, index + i)));
  }
  while (output.accepted < input.drafts.size() &&
         input.drafts[output.accepted] == output.sampled[output.accepted]) {
    ++output.accepted;
  }
  output.tokens.assign(output.sampled.begin(), output.sampled.begin() + output.accepted + 1);
  return output;
}

void LedgerExecutor::sample_general(const SamplingInput& input, SequenceOutput& output) {
  std::vector<trace::TokenId> history;
  for (const TokenInput token : input.output) history.push_back(resolve(token));
  const std::span<const trace::TokenId> prompt =
      std::span(input.submission->spec.prompt).first(input.prompt_count);
  std::vector<std::span<const double>> rows;
  for (std::size_t i = 0; i <= input.drafts.size(); ++i) rows.emplace_back(logits_[i]);
  VerifyInput verify;
  verify.request.tokenizer_size = model_.tokenizer_size;
  verify.request.params = &input.submission->spec.sampling;
  verify.request.eos = model_.eos_token_ids;
  verify.request.prompt = prompt;
  verify.request.output = history;
  verify.request.seed = input.seed;
  verify.rows = rows;
  verify.drafts = input.drafts;
  const Verified verified = verify_chain(verify, scratch_);
  output.accepted = verified.accepted;
  for (const SampledDraw& one : verified.emitted) {
    output.tokens.push_back(one.token);
    output.sampled.push_back(one.token);
    if (one.drawn) output.draws.push_back(one.draw);
    if (input.submission->spec.sampling.logprobs) output.logprobs.push_back(one.logprobs);
  }
}

bool LedgerExecutor::flip(std::uint32_t pool, std::uint32_t block, std::uint32_t offset,
                          std::uint64_t bits) {
  if (pool >= pools_.size() || block >= settings_.pools[pool].num_blocks) return false;
  if (offset >= pools_[pool].stride) return false;
  pools_[pool].words[std::size_t{block} * pools_[pool].stride + offset] ^= bits;
  return true;
}

base::Hash128 LedgerExecutor::digest(std::uint32_t pool, BlockId block) const {
  const Pool& memory = pools_[pool];
  return base::hash_bytes(
      std::as_bytes(std::span(memory.words))
          .subspan(std::size_t{block.value} * memory.stride * 8, std::size_t{memory.stride} * 8));
}

}  // namespace lockstep::engine
