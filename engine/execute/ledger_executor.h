// LedgerExecutor: launches over KV cells that hold 64-bit words instead of tensors: "attention" is
// the sum of the cells that the block table and the mask let a row read, and a cell's value depends
// on all that was read when it was written (docs/scenario.md). One wrong block, mask, key or
// position changes every later token. No kernel, no device; tens of thousands of steps a second.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/hash.h"
#include "engine/execute/launch_executor.h"
#include "engine/execute/ledger_model.h"
#include "engine/sample/sampler.h"
#include "trace/scenario.h"

namespace lockstep::engine {

class LedgerExecutor : public LaunchExecutor {
 public:
  // `sink` gets CopyRan and LaunchRan.
  LedgerExecutor(const trace::LedgerModel& model, const trace::EngineSettings& settings,
                 EventSink sink);

  void enqueue(const LaunchBuffers& buffers, const CacheOps& ops) override;
  base::Result<std::vector<LaunchOutput>> run(trace::Tick tick) override;
  void reset(bool memory_lost) override;

  // A fault: bits of one cell change. False: no such cell.
  bool flip(std::uint32_t pool, std::uint32_t block, std::uint32_t offset, std::uint64_t bits);
  // Changes if and only if a cell of the block does (but for a collision of 128 bits).
  base::Hash128 digest(std::uint32_t pool, BlockId block) const;

 private:
  struct Pool {
    std::uint32_t stride = 0;  // words of a block
    std::vector<std::uint64_t> words;
  };
  struct Queued {
    const LaunchBuffers* buffers = nullptr;
    CacheOps ops;
  };
  struct Sequence;  // one sequence of the launch that runs

  void run_ops(const CacheOps& ops);
  LaunchOutput run_launch(const LaunchBuffers& buffers, trace::Tick tick);
  void begin_sequence(const LaunchBuffers& buffers, std::uint32_t index, Sequence& sequence,
                      trace::RanRows& ran);
  void begin_group(Sequence& sequence, std::uint32_t group);
  std::uint64_t read_group(Sequence& sequence, std::uint32_t group, std::uint32_t row);
  void write_group(Sequence& sequence, std::uint32_t group, std::uint64_t cell, std::int64_t slot);
  void run_sequence(const LaunchBuffers& buffers, std::uint32_t index, trace::RanRows& ran);
  void run_pad_rows(const LaunchBuffers& buffers, trace::LaunchRan& ran);
  trace::TokenId resolve(TokenInput input) const;
  SequenceOutput sample_rows(const LaunchBuffers& buffers, const SamplingInput& input);
  void sample_general(const SamplingInput& input, SequenceOutput& output);

  std::uint64_t* word(std::uint32_t group, BlockId block, std::uint32_t offset);
  std::uint64_t read_cell(const Sequence& sequence, std::uint32_t group, std::uint32_t position);
  std::uint64_t sum_cells(const Sequence& sequence, std::uint32_t group, std::uint32_t begin,
                          std::uint32_t end);

  trace::LedgerModel model_;
  trace::EngineSettings settings_;
  EventSink sink_;
  std::vector<Pool> pools_;
  std::deque<Queued> queue_;
  std::vector<trace::TokenId> futures_;
  std::vector<std::uint64_t> row_values_;  // v of each row of the launch that runs
  SampleScratch scratch_;
  std::vector<std::vector<double>> logits_;
};

}  // namespace lockstep::engine
