// A correct engine has no finding, whatever it is asked to run: all laws on random tiny models.
#include <gtest/gtest.h>

#include <set>

#include "property_tests/random_run.h"

namespace lockstep::property_tests {
namespace {

constexpr std::uint64_t kCasesOfAGroup = 4;

// A group of cases; the parameter is the group's number.
class NoFalseAlarm : public testing::TestWithParam<std::uint64_t> {};

TEST_P(NoFalseAlarm, ACorrectEngineHasNoFinding) {
  for (std::uint64_t i = 0; i < kCasesOfAGroup; ++i) {
    const RandomRun random = random_run(GetParam() * kCasesOfAGroup + i + 1);
    const model::Model model = open(random);
    const auto outcome = harness::run(model, random.scenario, random.options);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message() << "\nrepeat: " << random.command;
    EXPECT_EQ(findings(*outcome), "") << "repeat: " << random.command;
    std::set<std::string> checked;
    for (const oracles::Verdict& verdict : outcome->verdicts) {
      if (verdict.kind == oracles::VerdictKind::Pass) checked.insert(verdict.law);
    }
    for (const char* law : {"op_bounds", "links", "token_identity", "batch_invariance", "kv_pages",
                            "device_checks"}) {
      EXPECT_TRUE(checked.contains(law)) << law << " did not check\nrepeat: " << random.command;
    }
    for (const harness::RequestOutput& output : outcome->outputs) {
      EXPECT_TRUE(output.finish_reason == "length" || output.finish_reason == "stop")
          << output.finish_reason << "\nrepeat: " << random.command;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Few, NoFalseAlarm, testing::Range<std::uint64_t>(0, 6));
INSTANTIATE_TEST_SUITE_P(SlowTwoHundred, NoFalseAlarm, testing::Range<std::uint64_t>(0, 50));

}  // namespace
}  // namespace lockstep::property_tests
