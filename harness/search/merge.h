// merge: the files of a campaign's shards into one outcome.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "harness/search/campaign_file.h"

namespace lockstep::harness {

struct MergedCampaign {
  CampaignIdentity identity;  // of shard 1
  Tally tally;
};

// Errors: Input (another campaign's file, a shard twice), Environment (a shard is missing, or was
// not done).
base::Result<MergedCampaign> merge_campaigns(const std::vector<std::string>& paths);

}  // namespace lockstep::harness
