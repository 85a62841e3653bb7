// Campaigns with a stand-in engine: the same outcome however it is run, stopped, resumed and split.
#include "harness/search/campaign.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/search/generate.h"
#include "harness/search/merge.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using trace::Scenario;

// Wrong in two ways, each in some cases.
base::Result<ScenarioOutcome> stand_in(const Scenario& scenario, const ScenarioRunOptions&) {
  ScenarioOutcome outcome;
  outcome.steps = scenario.size();
  outcome.result.ticks = 3;
  oracles::Verdict verdict;
  verdict.law = "fake";
  verdict.unit = "things";
  verdict.checked = scenario.requests.size();
  verdict.kind = oracles::VerdictKind::Pass;
  const auto add = [&](const char* key) {
    verdict.kind = oracles::VerdictKind::Finding;
    oracles::Finding finding;
    finding.key = key;
    finding.message = "of " + scenario.requests[0].key;
    verdict.findings.push_back(finding);
  };
  if (scenario.engine.async_depth == 3) add("fake.deep");
  if (scenario.faults.size() == 3) add("fake.faults");
  outcome.verdicts.push_back(verdict);
  return outcome;
}

class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("lockstep-campaign-" + std::to_string(getpid()) + "-" + std::to_string(++count));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name = "campaign.jsonl") const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

CampaignPlan plan_of(std::uint64_t cases, unsigned jobs = 1) {
  CampaignPlan plan;
  plan.seed = 3;
  plan.cases = cases;
  plan.jobs = jobs;
  plan.batch_cases = 16;
  return plan;
}
CampaignIdentity identity_of(const CampaignPlan& plan) {
  return {plan.seed, plan.cases, plan.shard, plan.batch_cases, "", "program"};
}

CampaignOutcome outcome_of(const CampaignPlan& plan, const ScenarioRunner& run = stand_in) {
  base::Result<CampaignOutcome> outcome = run_campaign(plan, run, nullptr, {});
  EXPECT_TRUE(outcome.ok());
  return *std::move(outcome);
}

// With a file, as the command does it.
CampaignOutcome recorded(const CampaignPlan& plan, const std::string& path,
                         const ScenarioRunner& run = stand_in) {
  CampaignRecord record;
  base::Result<CampaignFile> file = CampaignFile::open(path, identity_of(plan), record);
  EXPECT_TRUE(file.ok()) << file.error().message();
  base::Result<CampaignOutcome> outcome = run_campaign(plan, run, &*file, record);
  EXPECT_TRUE(outcome.ok());
  if (outcome->complete) {
    EXPECT_TRUE(file->finish(outcome->batches).ok());
  }
  return *std::move(outcome);
}

std::string read(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}
void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

TEST(Campaign, OneJobAndTwoGiveTheSame) {
  const CampaignOutcome one = outcome_of(plan_of(500, 1)), two = outcome_of(plan_of(500, 2));
  EXPECT_EQ(tally_json(one.tally).dump(), tally_json(two.tally).dump());
  EXPECT_TRUE(one.complete && two.complete);
  EXPECT_EQ(one.tally.cases, 500u);
  EXPECT_EQ(one.tally.keys.size(), 2u);
  EXPECT_GT(one.tally.keys.at("fake.deep").count, 50u);
}

TEST(Campaign, StopsAtTheSameBatchForOneJobAndTwo) {
  CampaignPlan plan = plan_of(100000, 1);
  plan.stop_at_keys = 2;
  const CampaignOutcome one = outcome_of(plan);
  plan.jobs = 3;
  const CampaignOutcome three = outcome_of(plan);
  EXPECT_EQ(tally_json(one.tally).dump(), tally_json(three.tally).dump());
  EXPECT_LT(one.tally.cases, 10000u);
  EXPECT_TRUE(one.complete);
}

TEST(Campaign, GoesOnAfterATornLine) {
  const Folder folder;
  const CampaignOutcome whole = recorded(plan_of(300), folder.file());
  const std::string text = read(folder.file());
  // Killed in the middle of a line: no end, the last batches are missing.
  for (const std::size_t lines : {1u, 5u, 12u}) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < lines; ++i) at = text.find('\n', at) + 1;
    write(folder.file(), text.substr(0, at + 20));
    const CampaignOutcome resumed = recorded(plan_of(300, 2), folder.file());
    EXPECT_EQ(resumed.resumed, 16 * (lines - 1));
    EXPECT_EQ(tally_json(resumed.tally).dump(), tally_json(whole.tally).dump());
    const base::Result<CampaignRecord> record = read_campaign(folder.file(), nullptr);
    ASSERT_TRUE(record.ok()) << record.error().message();
    EXPECT_EQ(record->batches.size(), 19u);
    EXPECT_EQ(record->done, 19u);
  }
}

TEST(Campaign, AnotherCampaignsUnfinishedFileIsKept) {
  const Folder folder;
  recorded(plan_of(300), folder.file());
  std::string text = read(folder.file());
  text.resize(text.rfind('\n', text.size() - 2) + 1);  // not done
  write(folder.file(), text);
  CampaignPlan other = plan_of(64);
  other.seed = 4;
  const CampaignOutcome outcome = recorded(other, folder.file());
  EXPECT_EQ(outcome.resumed, 0u);
  EXPECT_EQ(outcome.tally.cases, 64u);
  EXPECT_EQ(read(folder.file("campaign.1.jsonl")), text);
}

TEST(Campaign, WhatIsBrokenInTheMiddleIsAnError) {
  const Folder folder;
  recorded(plan_of(100), folder.file());
  std::string text = read(folder.file());
  text[text.find("\n") + 1] = '}';
  write(folder.file(), text);
  const base::Result<CampaignRecord> record = read_campaign(folder.file(), nullptr);
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().exit_status(), 2);
  EXPECT_EQ(record.error().where, "line 2");
}

TEST(Campaign, ACrashNamesItsCase) {
  const std::string victim = trace::write_scenario(generate(3, 77));
  const ScenarioRunner run = [&](const Scenario& scenario, const ScenarioRunOptions& options) {
    if (trace::write_scenario(scenario) == victim) kill(getpid(), SIGKILL);
    return stand_in(scenario, options);
  };
  const CampaignOutcome outcome = outcome_of(plan_of(200, 2), run);
  ASSERT_TRUE(outcome.crash.has_value());
  EXPECT_EQ(outcome.crash->case_number, 77u);
  EXPECT_EQ(outcome.crash->how, "signal 9");
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.tally.cases, 64u);  // the batches before it
}

TEST(Campaign, BaseCasesRunFirstAndAreChanged) {
  CampaignPlan plan = plan_of(64);
  plan.bases = {generate(1, 1), generate(1, 2)};
  EXPECT_EQ(trace::write_scenario(campaign_case(plan, 0)), trace::write_scenario(plan.bases[0]));
  EXPECT_EQ(trace::write_scenario(campaign_case(plan, 1)), trace::write_scenario(plan.bases[1]));
  EXPECT_NE(trace::write_scenario(campaign_case(plan, 2)), trace::write_scenario(plan.bases[0]));
  EXPECT_EQ(outcome_of(plan).tally.cases, 64u);
}

TEST(Campaign, TimeThatIsUpStopsIt) {
  CampaignPlan plan = plan_of(0);
  plan.cases.reset();
  int batches = 0;
  plan.more = [&] { return ++batches <= 5; };
  const CampaignOutcome outcome = outcome_of(plan);
  EXPECT_EQ(outcome.tally.cases, 5 * 16u);
  EXPECT_TRUE(outcome.complete);
}

TEST(Merge, ShardsTogetherAreTheWhole) {
  const Folder folder;
  std::vector<std::string> paths;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    CampaignPlan plan = plan_of(300);
    plan.shard = {i, 3};
    paths.push_back(folder.file("shard" + std::to_string(i) + ".jsonl"));
    const CampaignOutcome outcome = recorded(plan, paths.back());
    EXPECT_GT(outcome.tally.cases, 60u);
    EXPECT_LT(outcome.tally.cases, 140u);
  }
  std::swap(paths[0], paths[2]);
  const base::Result<MergedCampaign> merged = merge_campaigns(paths);
  ASSERT_TRUE(merged.ok()) << merged.error().message();
  EXPECT_EQ(tally_json(merged->tally).dump(), tally_json(outcome_of(plan_of(300)).tally).dump());
}

TEST(Merge, AMissingShardIsTheEnvironmentsFault) {
  const Folder folder;
  CampaignPlan plan = plan_of(100);
  plan.shard = {2, 3};
  recorded(plan, folder.file("2"));
  plan.shard = {3, 3};
  recorded(plan, folder.file("3"));
  const auto merged = merge_campaigns({folder.file("2"), folder.file("3")});
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.error().exit_status(), 4);
  EXPECT_NE(merged.error().message().find("shard 1/3 is missing"), std::string::npos);
  // One that was not done is missing too; one of another campaign, or twice, is bad input.
  std::string text = read(folder.file("3"));
  text.resize(text.rfind('\n', text.size() - 2) + 1);
  write(folder.file("torn"), text);
  EXPECT_EQ(merge_campaigns({folder.file("torn")}).error().exit_status(), 4);
  EXPECT_EQ(merge_campaigns({folder.file("2"), folder.file("2")}).error().exit_status(), 2);
  plan.seed = 9;
  recorded(plan, folder.file("other"));
  EXPECT_EQ(merge_campaigns({folder.file("2"), folder.file("other")}).error().exit_status(), 2);
  EXPECT_EQ(merge_campaigns({folder.file("none")}).error().exit_status(), 4);
}

TEST(Shards, AreReadAndPartTheCases) {
  EXPECT_FALSE(parse_shard("0/2").ok());
  EXPECT_FALSE(parse_shard("3/2").ok());
  EXPECT_FALSE(parse_shard("1").ok());
  EXPECT_FALSE(parse_shard("1/2x").ok());
  const base::Result<Shard> second = parse_shard("2/3");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->index, 2u);
  for (std::uint64_t number = 0; number < 100; ++number) {
    int owners = 0;
    for (std::uint32_t i = 1; i <= 3; ++i) owners += Shard{i, 3}.has(number);
    EXPECT_EQ(owners, 1);
  }
}

}  // namespace
}  // namespace lockstep::harness
