// FindingList: one Finding per key, in the order met, with counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oracles/verdict.h"

namespace lockstep::oracles {

class FindingList {
 public:
  // The finding of `key`, made if new; `is_new` says so. Counts one more occurrence.
  Finding& add(const std::string& key, bool& is_new);
  // Adds an occurrence; fills message and place if it is the first.
  void add(const std::string& key, const std::string& message, const Where& where);
  bool empty() const { return findings_.empty(); }
  std::vector<Finding> take() { return std::move(findings_); }
  std::vector<Finding>& all() { return findings_; }

 private:
  std::vector<Finding> findings_;
};

// Pass, finding or not applicable, from what was counted.
Verdict verdict_of(std::string_view law, std::uint64_t checked, std::string unit,
                   FindingList& findings, std::string reason_if_none);

// The finding that a run's events show first (the earlier law, where two show at one event), or
// null.
const Finding* earliest_finding(const std::vector<Verdict>& verdicts);

}  // namespace lockstep::oracles
