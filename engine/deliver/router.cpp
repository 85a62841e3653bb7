#include "engine/deliver/router.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {

void Router::made(trace::LaunchIndex launch, LaunchRecord record) {
  const bool is_new = records_.emplace(launch, std::move(record)).second;
  LS_CHECK(is_new);
}

std::optional<LaunchRecord> Router::complete(trace::LaunchIndex launch) {
  const auto found = records_.find(launch);
  if (found == records_.end()) return std::nullopt;
  LaunchRecord record = std::move(found->second);
  records_.erase(found);
  return record;
}

std::vector<std::pair<trace::LaunchIndex, LaunchRecord>> Router::give_up() {
  std::vector<std::pair<trace::LaunchIndex, LaunchRecord>> given_up;
  for (auto& [launch, record] : records_) given_up.emplace_back(launch, std::move(record));
  records_.clear();
  return given_up;
}

std::optional<trace::Tick> Router::oldest() const {
  std::optional<trace::Tick> oldest;
  for (const auto& [launch, record] : records_) {
    oldest = std::min(oldest.value_or(record.made), record.made);
  }
  return oldest;
}

}  // namespace lockstep::engine
