// campaign: many scenarios of one seed, or mutations of given ones, run in child processes and
// tallied. The outcome depends on the plan alone, not on the number of jobs: batches are added up
// in order, and where it stops early it stops at a batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/search/campaign_file.h"
#include "harness/search/minimize.h"
#include "harness/search/tally.h"
#include "harness/search/workers.h"

namespace lockstep::harness {

struct CampaignPlan {
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> cases;  // nothing: until `more` says no
  Shard shard;
  std::vector<trace::Scenario> bases;  // cases 0, 1, ...; later cases are mutations of them
  unsigned jobs = 1;
  std::uint64_t batch_cases = 64;
  std::uint64_t stop_at_keys = 0;  // stop after the batch with so many different findings; 0: never
  // Asked between batches: whether time is left. Base cases run whatever it says.
  std::function<bool()> more = [] { return true; };
  std::function<void(const std::string&)> progress = {};
};

// Case `number`: a base case, a mutation of one, or what generate() makes.
trace::Scenario campaign_case(const CampaignPlan& plan, std::uint64_t number);

struct CampaignOutcome {
  Tally tally;
  std::uint64_t batches = 0;  // that `tally` adds up
  std::uint64_t resumed = 0;  // cases that an earlier, interrupted run had done
  bool complete = true;       // false: interrupted, or a crash
  std::optional<Crash> crash;
};

// `file`: the campaign's file, with what `record` says done already; null: none is kept.
base::Result<CampaignOutcome> run_campaign(const CampaignPlan& plan, const ScenarioRunner& run,
                                           CampaignFile* file, const CampaignRecord& record);

// `number` of the base with something dropped, doubled or changed; always valid.
trace::Scenario mutated(const trace::Scenario& base, std::uint64_t seed, std::uint64_t number);

}  // namespace lockstep::harness
