// The smallest operation that still shows a finding: fewer rows, then heads, outputs and keys, as
// long as the operation alone, on the same device, gives the finding's key.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "harness/alone/replay.h"
#include "harness/subjects/op_subject.h"
#include "oracles/verdict.h"

namespace lockstep::harness {

struct ShrinkLimits {
  // No clock: the same run gives the same file. A try of a tiny operation takes 2 ms.
  std::uint32_t tries = 400;
  std::uint64_t warp_instructions = 40'000'000;  // of all tries
};

struct Shrunk {
  RecordedOperation operation;
  // The finding came in every run, twice with the recorded bits.
  bool repeats = false;
  std::string reason;  // why not: "all 512 values hold there"
  // The whole call alone: values that have other bits than in the run. An embedding's rows have
  // other neighbours there; else something that the file does not hold takes part.
  std::uint64_t other_bits = 0, values = 0;
  std::uint32_t tries = 0;
};

// `finding` is of the run that `operation` was cut out of. Where it does not repeat alone the
// operation comes back as it was.
base::Result<Shrunk> shrink(const RecordedOperation& operation, const oracles::Finding& finding,
                            const ShrinkLimits& limits = {},
                            const OperationRunner& runner = run_operation);

}  // namespace lockstep::harness
