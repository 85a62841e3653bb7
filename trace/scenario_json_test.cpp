// The scenario file: every rule of docs/scenario.md with a file that breaks it, and round trips.
#include "trace/scenario_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::trace {
namespace {

Scenario parsed(const std::string& text) {
  auto scenario = parse_scenario(text, "s.json");
  EXPECT_TRUE(scenario.ok()) << text << "\n" << (scenario.ok() ? "" : scenario.error().message());
  return scenario.ok() ? *std::move(scenario) : Scenario{};
}

// The four examples of the page.
const std::vector<std::string> kExamples = {
    R"({"engine": {"block_size": 4, "pools": [{"name": "full", "num_blocks": 3}]}, "observe": {"ticks": [2]},
 "requests": [{"key": "P", "prompt": [1, 2, 3, 4], "max_tokens": 1},
              {"key": "A", "tick": 2, "prompt": [1, 2, 3, 4, 5], "max_tokens": 3},
              {"key": "B", "tick": 2, "prompt": [11, 12, 13, 14, 15, 16, 17, 18, 19], "max_tokens": 3}]}
)",
    R"({"engine": {"block_size": 4, "async_depth": 2},
 "requests": [{"key": "old", "id": "r", "prompt": [1, 2, 3], "max_tokens": 9},
              {"key": "new", "id": "r", "tick": 1, "prompt": [4, 5, 6], "max_tokens": 3}],
 "events": [{"launch": 0, "type": "late", "ticks": 2},
            {"tick": 1, "type": "cancel", "request": "old"}]}
)",
    R"({"engine": {"block_size": 4, "speculative": {"method": "scripted", "num_speculative_tokens": 5}},
 "requests": [{"key": "A", "prompt": [1, 2, 3], "max_tokens": 6, "script": [9, 10, 11, 256, 20, 21, 22], "draft": ["none", 10, 11, 256, 20, 21]},
              {"key": "B", "prompt": [1, 2, 3], "max_tokens": 4, "script": [9, 10, 11, 12, 13, 256], "draft": ["none", 10, 11, 12, 13, 256]}]}
)",
    R"({"engine": {"block_size": 8, "kv_cache_groups": [{"name": "full", "type": "full_attention"}, {"name": "state", "type": "mamba"}]},
 "requests": [{"key": "A", "prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], "max_tokens": 1},
              {"key": "B", "tick": 5, "prompt": [1, 2, 3, 4, 5, 6, 7, 8, 20], "max_tokens": 3}],
 "events": [{"tick": 0, "type": "schedule", "rows": [["A", 6]]},
            {"tick": 1, "type": "schedule", "rows": [["A", 5]]}]}
)"};

TEST(ScenarioJson, ExamplesAreWrittenAsTheyStand) {
  for (const std::string& example : kExamples) {
    EXPECT_EQ(write_scenario(parsed(example)), example);
  }
}

}  // namespace
}  // namespace lockstep::trace
