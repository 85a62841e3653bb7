#include "harness/search/merge.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace lockstep::harness {
namespace {

bool same_campaign(const CampaignIdentity& a, const CampaignIdentity& b) {
  return a.seed == b.seed && a.cases == b.cases && a.shard.count == b.shard.count &&
         a.batch_cases == b.batch_cases && a.from == b.from;
}

// A shard is whole if it says so and no batch is missing.
base::Status check_whole(const CampaignRecord& record, const std::string& path) {
  if (!record.done) {
    return base::environment_error(
        path, fmt::format("shard {}/{} was not done", record.identity.shard.index,
                          record.identity.shard.count));
  }
  for (std::uint64_t batch = 0; batch < *record.done; ++batch) {
    if (!record.batches.contains(batch)) {
      return base::environment_error(path, fmt::format("batch {} is missing", batch));
    }
  }
  return base::Ok{};
}

}  // namespace

base::Result<MergedCampaign> merge_campaigns(const std::vector<std::string>& paths) {
  std::map<std::uint32_t, std::pair<std::string, CampaignRecord>> shards;
  for (const std::string& path : paths) {
    LS_ASSIGN(CampaignRecord record, read_campaign(path, nullptr));
    LS_TRY(check_whole(record, path));
    const std::uint32_t index = record.identity.shard.index;
    if (!shards.empty()) {
      const auto& [first_path, first] = shards.begin()->second;
      if (!same_campaign(first.identity, record.identity)) {
        return base::input_error(path, "is of another campaign than " + first_path);
      }
    }
    const auto [at, added] = shards.try_emplace(index, path, std::move(record));
    if (!added) {
      return base::input_error(path, fmt::format("is shard {} as {} is", index, at->second.first));
    }
  }
  if (shards.empty()) return base::environment_error("", "no shard is given");
  MergedCampaign merged{shards.begin()->second.second.identity, {}};
  for (std::uint32_t index = 1; index <= merged.identity.shard.count; ++index) {
    const auto shard = shards.find(index);
    if (shard == shards.end()) {
      return base::environment_error(
          "", fmt::format("shard {}/{} is missing", index, merged.identity.shard.count));
    }
    for (const auto& [batch, tally] : shard->second.second.batches) {
      if (batch < *shard->second.second.done) merged.tally.add(tally);
    }
  }
  return merged;
}

}  // namespace lockstep::harness
