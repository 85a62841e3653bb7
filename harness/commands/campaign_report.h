// The report of `campaign` and `merge`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/commands/commands.h"
#include "harness/report/scenario_report.h"
#include "harness/search/tally.h"

namespace lockstep::harness {

struct ReportedFinding {
  std::string key, message;
  std::vector<std::string> notes, scenario, timeline;
  std::size_t size_before = 0, size = 0;
  std::uint64_t runs = 0;
  bool repeats = false;
  std::string scenario_file, trace_file;
  std::string failed;  // why it is not minimized
};

struct CampaignReport {
  std::string command, head, repeat, canary;
  std::uint64_t seed = 1, resumed = 0;
  Tally tally;
  std::vector<ReportedFinding> findings;  // of the first keys; others stand in the tally only
  double seconds = 0;
};

oracles::VerdictKind campaign_verdict(const Tally& tally);
// report.json in `folder`, which is there.
base::Status write_campaign(const CampaignReport& report, const std::string& folder);
// Text, or the JSON document, to standard output.
base::Status print_campaign(const CampaignReport& report, const CommonOptions& options);

}  // namespace lockstep::harness
