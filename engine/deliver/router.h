// Router: which completions count. A launch's ordinal is its generation number: a completion is
// taken once, for a launch that is in flight; a duplicate, or one that comes after a reset gave the
// launch up, is told apart and changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trace/ids.h"

namespace lockstep::engine {

struct LaunchRecord {
  trace::Tick made = 0;
  // Blocks that it may read or write: (pool, block).
  std::vector<std::pair<std::uint32_t, trace::BlockId>> uses;
  std::vector<trace::RequestId> requests;
};

class Router {
 public:
  void made(trace::LaunchIndex launch, LaunchRecord record);
  // Its record, if the completion counts; nothing for a duplicate or a launch given up.
  std::optional<LaunchRecord> complete(trace::LaunchIndex launch);
  // All that is in flight is over: their records, oldest first.
  std::vector<std::pair<trace::LaunchIndex, LaunchRecord>> give_up();

  bool is_in_flight(trace::LaunchIndex launch) const { return records_.contains(launch); }
  std::uint32_t in_flight() const { return static_cast<std::uint32_t>(records_.size()); }
  // Tick at which the oldest launch in flight was made.
  std::optional<trace::Tick> oldest() const;

 private:
  std::map<trace::LaunchIndex, LaunchRecord> records_;
};

}  // namespace lockstep::engine
