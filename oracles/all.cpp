// The list of laws, in the order of the report.
#include "oracles/oracle.h"

namespace lockstep::oracles {

std::vector<std::unique_ptr<Oracle>> all() {
  std::vector<std::unique_ptr<Oracle>> laws;
  laws.push_back(op_bounds());
  laws.push_back(links());
  laws.push_back(mma_replay());
  laws.push_back(token_identity());
  laws.push_back(batch_invariance());
  laws.push_back(kv_pages());
  laws.push_back(device_checks());
  laws.push_back(subject_checks());
  return laws;
}

}  // namespace lockstep::oracles
