// The four examples of the scenario contract and the ledger's first tokens, to the bit, and the
// same again from whatever the engine is told to do differently: no field of `engine` changes a
// token.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "harness/scenario_run.h"
#include "trace/event_json.h"
#include "trace/scenario_json.h"

namespace lockstep::golden {
namespace {

using Tokens = std::vector<trace::TokenId>;

trace::Scenario load(const std::string& name) {
  const std::string path = std::string(LOCKSTEP_GOLDEN_DIR) + "/scenarios/" + name + ".json";
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return trace::parse_scenario(text.str(), path).value();
}

// Runs it; every law that has data must hold.
trace::RunResult run(const trace::Scenario& scenario) {
  const harness::ScenarioOutcome outcome = harness::run_scenario(scenario).value();
  const oracles::Finding* finding = outcome.finding();
  EXPECT_EQ(finding, nullptr) << finding->key << ": " << finding->message;
  return outcome.result;
}

const trace::RequestResult& request(const trace::RunResult& result, const std::string& key) {
  for (const trace::RequestResult& one : result.requests) {
    if (one.key == key) return one;
  }
  ADD_FAILURE() << "no request " << key;
  return result.requests.front();
}

TEST(Scenarios, FirstTokensOfThePlainLedger) {
  const trace::RunResult result = run(load("plain"));
  EXPECT_EQ(request(result, "A").tokens, (Tokens{60, 123, 17, 241, 255, 97, 196, 181}));
}

TEST(Scenarios, X01AHitIsPinnedAtLookUpSoTheSecondRequestWaits) {
  const trace::RunResult result = run(load("x01"));
  EXPECT_EQ(request(result, "A").tokens, (Tokens{219, 129, 121}));
  EXPECT_EQ(request(result, "A").counts.cached, 4u);
  EXPECT_EQ(request(result, "B").tokens, (Tokens{246, 225, 41}));
  EXPECT_EQ(request(result, "P").tokens, Tokens{212});
  const trace::Snapshot& snapshot = result.snapshots.front();
  EXPECT_EQ(snapshot.tick, 2u);
  EXPECT_EQ(snapshot.pools.at("full").used, 2u);
  EXPECT_EQ(snapshot.requests.at("A").blocks, (std::vector<std::vector<std::int64_t>>{{0, 1}}));
  EXPECT_EQ(snapshot.requests.at("B").state, "waiting");
  for (const trace::StepResult& step : result.steps) {
    for (const trace::StepRow& row : step.rows) {
      if (row.request != "B") continue;
      EXPECT_GE(step.tick, 5u);
    }
  }
}

TEST(Scenarios, X17OutputOfACancelledLifeDoesNotReachTheNextOwnerOfItsId) {
  const trace::RunResult result = run(load("x17"));
  EXPECT_EQ(request(result, "old").tokens, Tokens{});
  EXPECT_EQ(request(result, "old").finish_reason, "abort");
  EXPECT_EQ(request(result, "new").tokens, (Tokens{85, 93, 92}));
  EXPECT_EQ(request(result, "new").finish_reason, "length");
  EXPECT_EQ(result.snapshots.back().pools.at("full").used, 0u);
  EXPECT_EQ(result.snapshots.back().pools.at("full").reserved, 0u);
}

TEST(Scenarios, X24AStopInsideAnAcceptedBlockComesBeforeTheCap) {
  const trace::RunResult result = run(load("x24"));
  const trace::RequestResult &a = request(result, "A"), &b = request(result, "B");
  EXPECT_EQ(a.tokens, (Tokens{9, 10, 11, 256}));
  EXPECT_EQ(a.finish_reason, "stop");
  EXPECT_EQ(a.counts.proposed, 5u);
  EXPECT_EQ(a.counts.accepted, 3u);
  EXPECT_EQ(b.tokens, (Tokens{9, 10, 11, 12}));
  EXPECT_EQ(b.finish_reason, "length");
  EXPECT_EQ(b.counts.accepted, 3u);
}

TEST(Scenarios, X77AStateOfAChunkThatEndsInsideABlockIsNoHit) {
  const trace::RunResult result = run(load("x77"));
  EXPECT_EQ(request(result, "A").tokens, Tokens{89});
  EXPECT_EQ(request(result, "B").counts.cached, 0u);
  EXPECT_EQ(request(result, "B").tokens, (Tokens{226, 223, 74}));
}

// Each file was a finding once, minimized by the campaign that met it; its name says what it was.
TEST(Scenarios, AnOutputThatSlidesOutOfItsWindowRunsInTwoBlocks) {
  trace::Scenario scenario = load("window_slides");
  const trace::RunResult few = run(scenario);
  const trace::RequestResult& request_in_few = request(few, "A");
  EXPECT_EQ(request_in_few.finish_reason, "length");
  EXPECT_EQ(request_in_few.counts.preemptions, 1u);
  scenario.engine.pools[0].num_blocks = 1024;
  EXPECT_EQ(request(run(scenario), "A").tokens, request_in_few.tokens);
}

TEST(Scenarios, WhatWasFoundOnceStaysMended) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(LOCKSTEP_GOLDEN_DIR "/scenarios/found")) {
    files.push_back(entry.path().stem());
  }
  EXPECT_GE(files.size(), 5u);
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    run(load("found/" + file.string()));
  }
}

TEST(Scenarios, NoFieldOfTheEngineChangesAToken) {
  const trace::Scenario scenario = load("plain");
  const Tokens want = request(run(scenario), "A").tokens;
  for (const std::uint32_t block_size : {1u, 2u, 3u, 16u}) {
    for (const std::uint32_t depth : {1u, 2u, 3u}) {
      for (const std::uint32_t chunk : {0u, 1u, 2u}) {
        trace::Scenario other = scenario;
        other.engine.block_size = other.engine.groups[0].block_size = block_size;
        other.engine.async_depth = depth;
        other.engine.chunked_prefill_size = chunk;
        other.engine.cudagraph_capture_sizes = {2, 5};
        EXPECT_EQ(request(run(other), "A").tokens, want)
            << block_size << " " << depth << " " << chunk;
      }
    }
  }
}

TEST(Scenarios, TheSameScenarioGivesTheSameEventsTenTimes) {
  const trace::Scenario scenario = load("x17");
  const auto record = [&] {
    std::vector<trace::Event> events;
    harness::ScenarioRunOptions options;
    options.record = &events;
    EXPECT_TRUE(harness::run_scenario(scenario, options).ok());
    std::string text;
    for (const trace::Event& event : events) text += trace::write_event(event) + "\n";
    return text;
  };
  const std::string first = record();
  for (int i = 0; i < 9; ++i) EXPECT_EQ(record(), first);
}

}  // namespace
}  // namespace lockstep::golden
