// The search on our engine itself: the canary, files of findings, a short campaign.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/search/campaign.h"
#include "harness/search/canary.h"
#include "harness/search/files.h"
#include "harness/search/generate.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using trace::Scenario;

base::Result<ScenarioOutcome> engine(const Scenario& scenario, const ScenarioRunOptions& options) {
  return run_scenario(scenario, options);
}

// Our engine beside a law that objects to runs of more than 4 ticks with two launches in flight.
base::Result<ScenarioOutcome> strict_engine(const Scenario& scenario,
                                            const ScenarioRunOptions& options) {
  base::Result<ScenarioOutcome> outcome = run_scenario(scenario, options);
  if (outcome && outcome->result.ticks > 4 && scenario.engine.async_depth > 1) {
    oracles::Finding finding;
    finding.key = "strict.long";
    finding.message = "planted";
    oracles::Verdict verdict;
    verdict.law = "strict";
    verdict.kind = oracles::VerdictKind::Finding;
    verdict.findings.push_back(finding);
    outcome->verdicts.push_back(verdict);
  }
  return outcome;
}

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("lockstep-search-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Canary, SingsBesideOurEngine) {
  std::string what;
  EXPECT_TRUE(canary_sings(engine, what)) << what;
  EXPECT_NE(what.find("token_identity"), std::string::npos) << what;
}

TEST(Canary, IsSilentWhereLawsDoNotSee) {
  // An engine whose runs have no events to judge.
  const ScenarioRunner blind = [](const Scenario&, const ScenarioRunOptions&) {
    return base::Result<ScenarioOutcome>(ScenarioOutcome{});
  };
  std::string what;
  EXPECT_FALSE(canary_sings(blind, what));
}

TEST(OurEngine, HasNoFindingInAShortCampaign) {
  CampaignPlan plan;
  plan.seed = 20;
  plan.cases = 256;
  const base::Result<CampaignOutcome> outcome = run_campaign(plan, engine, nullptr, {});
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->crash.has_value());
  for (const std::string& key : keys_in_order(outcome->tally)) {
    ADD_FAILURE() << key << ": ./lockstep campaign --seed 20 --cases 256; case "
                  << outcome->tally.keys.at(key).cases.front();
  }
  EXPECT_GT(outcome->tally.steps, 1000u);
}

TEST(OurEngine, GivesTheSameEventsAgain) {
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Scenario scenario = generate(21, number);
    const base::Result<Recording> first = record(scenario, engine),
                                  second = record(scenario, engine);
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_FALSE(first_difference(first->events, second->events)) << "case " << number;
  }
}

// What the file says is the whole run: a scenario and its file give the same events.
TEST(OurEngine, AWrittenScenarioGivesTheSameEvents) {
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Scenario scenario = generate(22, number);
    const base::Result<Scenario> read =
        trace::parse_scenario(trace::write_scenario(scenario), "written");
    ASSERT_TRUE(read.ok());
    const base::Result<Recording> first = record(scenario, engine), second = record(*read, engine);
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_FALSE(first_difference(first->events, second->events)) << "case " << number;
  }
}

TEST(Files, AFindingIsKeptMinimizedAndReadAgain) {
  Scenario scenario;
  for (std::uint64_t number = 0; scenario.size() < 6; ++number) {
    Scenario candidate = generate(1, number);
    const base::Result<ScenarioOutcome> outcome = strict_engine(candidate, {});
    if (outcome && find_key(*outcome, "strict.long")) scenario = candidate;
  }
  const base::Result<Minimized> small = minimize(scenario, "strict.long", strict_engine);
  ASSERT_TRUE(small.ok());
  EXPECT_TRUE(small->repeats);
  EXPECT_LE(small->scenario.size(), 3u) << trace::write_scenario(small->scenario);
  const base::Result<Recording> recording = record(small->scenario, strict_engine);
  ASSERT_TRUE(recording.ok());
  const oracles::Finding* finding = find_key(recording->outcome, "strict.long");
  ASSERT_NE(finding, nullptr);
  const Folder folder;
  const base::Result<FindingFiles> files =
      write_finding(folder.path() + "/new", small->scenario, *recording, *finding, "a test");
  ASSERT_TRUE(files.ok()) << files.error().message();
  for (const std::string& path : {files->scenario, files->trace}) {
    const base::Result<ScenarioFile> file = open_scenario(path);
    ASSERT_TRUE(file.ok()) << file.error().message();
    EXPECT_EQ(file->finding_key, "strict.long");
    EXPECT_EQ(file->trace.has_value(), path == files->trace);
    const base::Result<Recording> again = record(file->scenario, strict_engine);
    ASSERT_TRUE(again.ok());
    EXPECT_FALSE(first_difference(recording->events, again->events));
    if (file->trace) {
      EXPECT_FALSE(first_difference(recording->events, file->trace->events));
    }
  }
  const auto paths = scenario_paths({folder.path()});
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->size(), 2u);
}

TEST(Files, WhatIsMissingOrBrokenIsNamed) {
  EXPECT_EQ(open_scenario("/nonexistent.json").error().exit_status(), 2);
  EXPECT_EQ(open_scenario("/nonexistent.lstrace").error().exit_status(), 2);
  const Folder folder;
  EXPECT_FALSE(scenario_paths({folder.path()}).ok());
  std::ofstream(folder.path() + "/bad.json") << "{\"requests\": 3}";
  const base::Result<ScenarioFile> bad = open_scenario(folder.path() + "/bad.json");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().where, "/requests");
}

}  // namespace
}  // namespace lockstep::harness
