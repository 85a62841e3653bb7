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

std::vector<std::unique_ptr<Oracle>> serving_laws(const trace::Scenario& scenario) {
  std::vector<std::unique_ptr<Oracle>> laws;
  const auto shared = std::make_shared<const trace::Scenario>(scenario);
  laws.push_back(ownership(shared));
  laws.push_back(one_writer(shared));
  laws.push_back(reads(shared));
  laws.push_back(pad_rows(shared));
  laws.push_back(steps(shared));
  laws.push_back(refusals(shared));
  laws.push_back(cancellation(shared));
  laws.push_back(counts(shared));
  laws.push_back(serving_identity(shared));
  laws.push_back(liveness(shared));
  laws.push_back(subject_checks());
  return laws;
}

}  // namespace lockstep::oracles
