// Chain verification: step-by-step sampling that goes on while the next row was computed for the
// token just chosen.
#include "engine/sample/verify.h"

#include "base/check.h"

namespace lockstep::engine {

Verified verify_chain(const VerifyInput& input, SampleScratch& scratch) {
  LS_CHECK(input.rows.size() == input.drafts.size() + 1);
  Verified result;
  SampleInput step = input.request;
  for (;;) {
    const std::size_t row = result.accepted;
    step.logits = input.rows[row];
    // Every draft accepted so far is history of this row: penalties and min_tokens count it.
    step.accepted = input.drafts.first(row);
    result.emitted.push_back(sample(step, scratch));
    if (row == input.drafts.size() || input.drafts[row] != result.emitted.back().token) break;
    ++result.accepted;
  }
  return result;
}

Verified verify_chain(const VerifyInput& input) {
  SampleScratch scratch;
  return verify_chain(input, scratch);
}

}  // namespace lockstep::engine
