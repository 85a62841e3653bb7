// Drives a block manager through a workload and judges every answer.
#pragma once

#include "harness/blocks/judge.h"
#include "harness/blocks/trace_file.h"

namespace lockstep::harness {

struct BlockFinding {
  std::uint64_t seed = 0;       // of a workload
  std::uint64_t operation = 0;  // 0-based
  std::string what;             // "step r3"
  BlockBreach breach;
};

// Answers beside recorded ones of another policy: no law, but worth a count.
struct BlockDifferences {
  std::uint64_t compared = 0, look_ups = 0, hits = 0, refusals = 0, free = 0;
  std::uint64_t left_out = 0;          // operations of requests that were refused here alone
  std::optional<std::uint64_t> first;  // operation
};

struct BlockDriveReport {
  BlockDifferences differences;
  std::string difference_text() const;
  std::uint64_t operations = 0, checked = 0, refusals = 0, hits = 0;
  std::vector<BlockFinding> findings;  // at most one a seed: after it the state is anybody's guess
};

// `count` workloads from `seed` on, of `operations` each. Stops at the first manager that gives no
// answer (a finding). An Error: it could not even be set up.
base::Result<BlockDriveReport> drive_blocks(BlockManager& manager, std::uint64_t seed,
                                            std::uint64_t count, std::uint64_t operations);
// The recorded operations, judged, and compared with the recorded answers.
base::Status drive_trace(BlockManager& manager, const BlockTrace& trace, BlockDriveReport& report);

}  // namespace lockstep::harness
