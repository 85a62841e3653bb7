// reads: each kind of wrong read, made by one wrong event of a right stream.
#include <gtest/gtest.h>

#include "oracles/serving_judge_test.h"

namespace lockstep::oracles {
namespace {

TEST(ReadsLaw, ABlockThatWasNeverWrittenIsUnwritten) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made),
                                     [](Events& events) { ran(events, 1, 0).tables[0][0] = {9}; });
  EXPECT_EQ(keys_of(verdicts, "reads"), std::vector<std::string>{"reads.unwritten.full_attention"});
}

TEST(ReadsLaw, AFillMakesCellsUnwritten) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    const auto at = static_cast<std::ptrdiff_t>(place<trace::LaunchRan>(events, 1));
    events.insert(events.begin() + at, trace::CopyRan{0, kNoBlock, {0}});
  });
  EXPECT_FIRST(verdicts, "reads.unwritten.full_attention");
}

TEST(ReadsLaw, AMaskBeyondTheRowsReadsUnwrittenCells) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(
      made, two_requests(made), [](Events& events) { ran(events, 0, 0).sequence_length += 2; });
  EXPECT_FIRST(verdicts, "reads.unwritten.full_attention");
}

TEST(ReadsLaw, AMaskThatEndsTooSoonMisses) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(
      made, two_requests(made), [](Events& events) { ran(events, 2, 1).sequence_length -= 1; });
  EXPECT_FIRST(verdicts, "reads.missing.full_attention");
}

TEST(ReadsLaw, AnotherRequestsBlockIsForeign) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 1, 0).tables[0][0] = ran(events, 1, 1).tables[0][0];
  });
  EXPECT_FIRST(verdicts, "reads.foreign.full_attention");
  EXPECT_EQ(verdicts[2].findings[0].message,
            "tick 1: launch 1: request A (positions 6..6) reads position 0 in block 2 offset 0 of "
            "group full: there is position 0 of B, written by launch 0");
  EXPECT_EQ(verdicts[2].findings[0].where.request, 0u);
  EXPECT_EQ(verdicts[2].findings[0].where.position, 0u);
}

TEST(ReadsLaw, AShortTableIsMissing) {
  const trace::Scenario made = scenario();
  for (const bool given_back : {false, true}) {
    const auto verdicts = judge_edited(made, two_requests(made), [&](Events& events) {
      std::vector<BlockId>& table = ran(events, 2, 1).tables[0];
      given_back ? void(table[0] = kNoBlock) : table.resize(0);
    });
    EXPECT_EQ(keys_of(verdicts, "reads"), std::vector<std::string>{"reads.missing.full_attention"});
  }
}

TEST(ReadsLaw, OneBlockForTwoRangesIsDouble) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 2, 0).tables[0][1] = ran(events, 2, 0).tables[0][0];
  });
  EXPECT_EQ(keys_of(verdicts, "reads"), std::vector<std::string>{"reads.double.full_attention"});
}

TEST(ReadsLaw, ASlotOfALaterPositionOfTheLaunchIsOverwritten) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 0, 0).slots[0][5] = ran(events, 0, 0).slots[0][1];
  });
  EXPECT_EQ(keys_of(verdicts, "reads"),
            (std::vector<std::string>{"reads.overwritten.full_attention",
                                      "reads.wrong_position.full_attention"}))
      << keys(verdicts);
}

TEST(ReadsLaw, TablesOutOfOrderGiveWrongPositions) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    std::vector<BlockId>& table = ran(events, 3, 1).tables[0];
    std::swap(table[0], table[1]);
  });
  EXPECT_EQ(keys_of(verdicts, "reads"),
            std::vector<std::string>{"reads.wrong_position.full_attention"});
}

TEST(ReadsLaw, ADraftThatWasTakenBackAndNotWrittenAgainIsStale) {
  const trace::Scenario made = scenario();
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(5), 7);
  machine.admit(a);
  step(machine, {{a, 5, {}}});
  step(machine, {{a, 1, {true, false, false}}});
  step(machine, {{a, 1, {true, true}}});
  step(machine, {{a, 1, {}}});
  machine.finish();
  EXPECT_EQ(keys(judge(made, machine.events)), "");
  const auto verdicts = judge_edited(made, machine.events, [](Events& events) {
    // The launch after the rejection begins one position too late.
    trace::RanRows& row = ran(events, 2, 0);
    ++row.first_position;
    row.tokens.erase(row.tokens.begin());
    row.slots[0].erase(row.slots[0].begin());
  });
  EXPECT_EQ(keys_of(verdicts, "reads")[0], "reads.stale.full_attention") << keys(verdicts);
}

TEST(ReadsLaw, AWindowReadsOnlyWhatItSees) {
  const trace::Scenario made = with_group(trace::GroupType::SlidingWindow);
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(14), 6);
  machine.admit(a);
  step(machine, {{a, 7, {}}});
  step(machine, {{a, 7, {}}});
  for (int i = 0; i < 5; ++i) step(machine, {{a, 1, {}}});
  machine.finish();
  EXPECT_EQ(keys(judge(made, machine.events)), "");
  const auto verdicts = judge_edited(made, machine.events, [](Events& events) {
    // Position 14 sees 9..14: block 2 is in its window, block 1 is gone.
    ran(events, 2, 0).tables[0][2] = kNoBlock;
  });
  EXPECT_FIRST(verdicts, "reads.missing.sliding_window");
}

TEST(ReadsLaw, AStateIsOfThePositionBeforeExactly) {
  const trace::Scenario made = with_group(trace::GroupType::Mamba);
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    trace::RanRows& row = ran(events, 0, 0);  // a state of position 4 instead of 5
    row.tokens.pop_back();
    --row.sequence_length;
  });
  EXPECT_TRUE(has(verdicts, "reads.wrong_position.mamba")) << keys(verdicts);
}

TEST(ReadsLaw, AnotherRequestsStateIsForeign) {
  const trace::Scenario made = with_group(trace::GroupType::Mamba);
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 1, 1).tables[0][1] = ran(events, 1, 0).tables[0][1];
  });
  EXPECT_EQ(keys_of(verdicts, "reads")[0], "reads.foreign.mamba") << keys(verdicts);
}

TEST(ReadsLaw, TokensComeFromALaunchThatRanTheirRow) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    trace::LaunchRan& launch = nth<trace::LaunchRan>(events, 1);
    launch.rows.erase(launch.rows.begin());
  });
  EXPECT_FIRST(verdicts, "reads.not_run");
}

TEST(ReadsLaw, ATokenOfAnotherSequenceIsWrong) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made),
                                     [](Events& events) { ran(events, 1, 0).tokens[0] += 1; });
  EXPECT_FIRST(verdicts, "reads.wrong_token");
}

TEST(ReadsLaw, CellsOfLaunchesGivenUpAreUnwritten) {
  const trace::Scenario made = scenario();
  for (const bool lost : {false, true}) {
    StreamMachine machine(made);
    const RequestId a = machine.begin("A", prompt(5), 4);
    machine.admit(a);
    step(machine, {{a, 5, {}}});
    machine.launch({{a, 1, {}}});
    machine.run();
    machine.events.push_back(trace::DeviceReset{machine.tick, lost});
    machine.launch({{a, 1, {}}});  // as if nothing had happened
    machine.run();
    const auto verdicts = judge(made, machine.events);
    EXPECT_FIRST(verdicts, "reads.unwritten.full_attention");
  }
}

}  // namespace
}  // namespace lockstep::oracles
