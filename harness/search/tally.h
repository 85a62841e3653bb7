// Tally: what many runs came to: cases, steps, a row a law, a row a key of findings. A case counts
// under the key of its first finding: what is wrong there makes more wrong later. It is a line of
// JSON in a campaign's file, and adds up.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/scenario_run.h"

namespace lockstep::harness {

struct LawTally {
  std::string unit;
  std::uint64_t passes = 0, findings = 0, not_applicable = 0;  // cases
  std::uint64_t checked = 0;                                   // units
};

struct KeyTally {
  std::string law, message;          // of the first case
  std::vector<std::uint64_t> cases;  // ascending; the first kCasesMax
  std::uint64_t count = 0;           // of cases in all
  static constexpr std::size_t kCasesMax = 64;
};

struct Tally {
  std::uint64_t cases = 0, steps = 0, ticks = 0, requests = 0, tokens = 0;
  std::uint64_t not_built = 0;           // base cases and mutations that ask for what isn't built
  std::vector<std::string> law_order;    // as the report lists them
  std::map<std::string, LawTally> laws;  // by name
  std::map<std::string, KeyTally> keys;

  void add(std::uint64_t case_number, const ScenarioOutcome& outcome);
  void add(const Tally& other);
};

nlohmann::json tally_json(const Tally& tally);
// `file_name` and `where` place messages.
base::Result<Tally> parse_tally(const nlohmann::json& value, const std::string& file_name,
                                const std::string& where);

// Keys by first case, then name: the order of a report.
std::vector<std::string> keys_in_order(const Tally& tally);

}  // namespace lockstep::harness
