// Executor: runs a StepPlan and says which tokens came out.
#pragma once

#include <vector>

#include "base/error.h"
#include "engine/schedule/step_plan.h"

namespace lockstep::engine {

struct SampledToken {
  trace::RequestId request;
  trace::TokenId token = 0;  // argmax of the row's logits, lowest id at a tie
};

class Executor {
 public:
  virtual ~Executor() = default;
  // One token for each of the plan's rows that samples, decode rows first.
  virtual base::Result<std::vector<SampledToken>> execute(const StepPlan& plan) = 0;
};

}  // namespace lockstep::engine
