// The result document: names, text keys, nulls.
#include "harness/report/scenario_result.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using nlohmann::json;
using trace::BlockId;

trace::Scenario two_groups() {
  auto scenario = trace::parse_scenario(
      R"({"engine": {"kv_cache_groups": [{"name": "full", "type": "full_attention", "pool": "p"},
                                         {"name": "state", "type": "mamba", "pool": "q"}]},
          "requests": [{"key": "A", "id": "r", "prompt": [1], "logprobs": 1},
                       {"key": "B", "prompt": [2]}],
          "events": [{"tick": 1, "type": "fork", "request": "A", "as": "C", "tokens": [7]}]})",
      "s.json");
  EXPECT_TRUE(scenario.ok());
  return *scenario;
}

TEST(ScenarioResult, AnEmptyResultHasEveryField) {
  const json want = json::parse(R"({"ticks": 0, "launches": 0, "events": [], "requests": {},
                                    "steps": [], "snapshots": []})");
  EXPECT_EQ(scenario_result_json({}, {}), want);
}

TEST(ScenarioResult, EventsAreNumberedAndWhatNeverCameIsNull) {
  trace::RunResult result;
  result.events = {{"cancel", 3, true, ""}, {"flip", {}, false, "its trigger never came"}};
  const json want = json::parse(R"([
      {"index": 0, "type": "cancel", "tick": 3, "applied": true, "reason": null},
      {"index": 1, "type": "flip", "tick": null, "applied": false,
       "reason": "its trigger never came"}])");
  EXPECT_EQ(scenario_result_json(two_groups(), result)["events"], want);
}

TEST(ScenarioResult, RequestsAreKeyedAndSayWhatTheyAskedFor) {
  trace::RunResult result;
  result.requests.resize(3);
  trace::RequestResult& a = result.requests[0];
  a.key = "A";
  a.id = "r";
  a.state = trace::LifeState::Finished;
  a.finish_reason = "stop";
  a.stop_token = 9;
  a.tokens = {8, 9};
  a.text = "\b\t";
  a.counts = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  a.logprobs = {{{{8, -0.5}, {3, -std::numeric_limits<double>::infinity()}}}, {}};
  a.stream = {{4, {8}, "\b"}};
  a.draws = {{{11, 5, trace::DrawPurpose::Bonus, 0}, 0.25}};
  result.requests[1].key = result.requests[1].id = "B";
  result.requests[1].state = trace::LifeState::Refused;
  result.requests[1].finish_reason = "refused";
  result.requests[1].error_code = "kv_capacity";
  result.requests[1].error_message = "never fits";
  result.requests[2].key = result.requests[2].id = "C";
  const json got = scenario_result_json(two_groups(), result)["requests"];
  EXPECT_EQ(got["A"], json::parse(R"({"id": "r", "state": "finished", "finish_reason": "stop",
      "stop_reason": 9, "error": null, "tokens": [8, 9], "text": "\b\t",
      "counts": {"prompt": 1, "cached": 2, "external": 3, "scheduled": 4, "proposed": 5,
                 "accepted": 6, "emitted": 7, "preemptions": 8, "aborts": 9},
      "logprobs": [[[8, -0.5], [3, null]], []], "prompt_logprobs": null,
      "stream": [{"tick": 4, "tokens": [8], "text": "\b"}],
      "draws": [{"position": 5, "purpose": "bonus", "candidate": 0, "u": 0.25}],
      "samples": [], "beams": []})"));
  EXPECT_EQ(got["B"]["error"], json::parse(R"({"code": "kv_capacity", "message": "never fits"})"));
  EXPECT_EQ(got["B"]["state"], "refused");
  EXPECT_EQ(got["B"]["logprobs"], nullptr);
  EXPECT_EQ(got["B"]["stop_reason"], nullptr);
  EXPECT_EQ(got["C"]["logprobs"], json::array());  // a fork asks as its parent does
  EXPECT_EQ(got["C"]["finish_reason"], nullptr);
}

TEST(ScenarioResult, StepsNameGroupsAndPools) {
  trace::RunResult result;
  trace::StepResult step{7, {2}, 4, {}, {}, {{"copy_on_write", 1, {5}, {6}}}};
  step.rows = {{"A", trace::RowKind::Verify, {1, 2}, {3, 4}, {{50, 51}, {1}}, {2, 3}, {2}, 1}};
  result.steps = {step};
  EXPECT_EQ(scenario_result_json(two_groups(), result)["steps"], json::parse(R"([
      {"tick": 7, "launch": 2, "padded_to": 4, "pad_slots": [],
       "rows": [{"request": "A", "kind": "verify", "tokens": [1, 2], "positions": [3, 4],
                 "slots": {"full": [50, 51], "state": [1]}, "sampled": [2, 3], "drafts": [2],
                 "accepted": 1}],
       "copies": [{"kind": "copy_on_write", "pool": "q", "src": 5, "dst": 6}]}])"));
}

TEST(ScenarioResult, SnapshotsKeyBlocksByText) {
  trace::RunResult result;
  trace::Snapshot snapshot;
  snapshot.tick = 2;
  trace::PoolSnapshot& pool = snapshot.pools["p"];
  pool = {12, 1, 1, 9, 1, {BlockId{11}, BlockId{2}}, {BlockId{4}}, {}, {}, {}};
  pool.refcount[BlockId{10}] = 2;
  pool.cached[BlockId{2}] = "ff";
  pool.digest[BlockId{0}] = {1, 2};
  snapshot.requests["A"] = {"running", 6, {{-1, 3}, {}}, 1, 2};
  result.snapshots = {snapshot};
  EXPECT_EQ(scenario_result_json(two_groups(), result)["snapshots"], json::parse(R"([
      {"tick": 2, "tiers": {},
       "pools": {"p": {"num_blocks": 12, "free": 1, "evictable": 1, "used": 9, "reserved": 1,
                       "free_queue": [11, 2], "reserved_blocks": [4], "refcount": {"10": 2},
                       "cached": {"2": "ff"},
                       "digest": {"0": "00000000000000010000000000000002"}}},
       "requests": {"A": {"state": "running", "num_computed_tokens": 6,
                          "draft_computed_tokens": 0, "blocks": {"full": [-1, 3], "state": []},
                          "in_flight": 1, "emitted": 2}}}])"));
}

}  // namespace
}  // namespace lockstep::harness
