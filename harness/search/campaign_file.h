// A campaign's file, campaign.jsonl: a first line that says which campaign it is, then a line per
// batch of cases, appended whole when the batch is done (so in no order), and a last one.
//
//   {"schema": "lockstep.campaign/1", "seed": 1, "cases": 1000, "shard": [1, 2], "batch": 64,
//    "from": HASH of base cases, "program": HASH of the program}
//   {"batch": 3, "cases": 64, "steps": ..., "laws": [...], "findings": [...]}
//   {"done": true, "batches": 16}
//
// A run that was killed goes on from it: a line without its end is dropped, what is there is not
// done again. The same campaign by the same program only: another one begins a new file.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "harness/search/tally.h"

namespace lockstep::harness {

struct Shard {
  std::uint32_t index = 1, count = 1;  // 1-based
  // Stable: depends on the case's number alone.
  bool has(std::uint64_t case_number) const;
};
base::Result<Shard> parse_shard(const std::string& text);  // "1/4"

struct CampaignIdentity {
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> cases;  // nothing: as many as time allows
  Shard shard;
  std::uint64_t batch_cases = 64;
  std::string from, program;  // hex
};

struct CampaignRecord {
  CampaignIdentity identity;
  std::map<std::uint64_t, Tally> batches;
  std::optional<std::uint64_t> done;  // how many batches the whole campaign has
};

// The record of `path`. `good_bytes` gets the length of its whole lines. Errors: Environment (can't
// be read), Input (no campaign's file).
base::Result<CampaignRecord> read_campaign(const std::string& path, std::uint64_t* good_bytes);

class CampaignFile {
 public:
  // Goes on with the file of the same campaign if it was not done (`record` gets what it has), or
  // begins a new one; another campaign's unfinished file is kept under another name.
  static base::Result<CampaignFile> open(const std::string& path, const CampaignIdentity& identity,
                                         CampaignRecord& record);
  CampaignFile(CampaignFile&& other) noexcept;
  CampaignFile& operator=(CampaignFile&&) = delete;
  ~CampaignFile();

  base::Status add(std::uint64_t batch, const Tally& tally);
  base::Status finish(std::uint64_t batches);

 private:
  CampaignFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  base::Status write_line(const nlohmann::json& line);

  std::string path_;
  int file_ = -1;
};

}  // namespace lockstep::harness
