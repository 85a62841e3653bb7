// ownership and one_writer: what each must find, made by one wrong event of a right stream.
#include <gtest/gtest.h>

#include "oracles/serving_judge_test.h"

namespace lockstep::oracles {
namespace {

TEST(OwnershipLaw, HitsArePublishedPrefixes) {
  const trace::Scenario made = scenario();
  EXPECT_EQ(keys(judge(made, shared_prefix(made))), "");
  auto verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    nth<trace::LifeBegan>(events, 1).identity = 5;  // B has another adapter
  });
  EXPECT_FIRST(verdicts, "ownership.hit_wrong");
  verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    events.erase(events.begin() +
                 static_cast<std::ptrdiff_t>(place<trace::BlockPublished>(events, 0)));
  });
  EXPECT_TRUE(has(verdicts, "ownership.hit_unpublished")) << keys(verdicts);
  verdicts = judge_edited(made, shared_prefix(made),
                          [](Events& events) { nth<trace::BlocksHit>(events, 0).tokens = 7; });
  EXPECT_FIRST(verdicts, "ownership.hit_length");
  verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    nth<trace::BlocksHit>(events, 0).blocks[0] = kNoBlock;
  });
  EXPECT_FIRST(verdicts, "ownership.hit_gap");
}

TEST(OwnershipLaw, BlocksAreHandedOutFromTheHead) {
  const trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    nth<trace::BlocksTaken>(events, 1).blocks = {{3}, {2}};
  });
  EXPECT_FIRST(verdicts, "ownership.not_head");
  verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    nth<trace::BlocksTaken>(events, 1).blocks = {{0}, {1}};
  });
  EXPECT_FIRST(verdicts, "ownership.handed_out_used");
  verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    nth<trace::BlocksTaken>(events, 1).blocks = {{2}, {99}};
  });
  EXPECT_FIRST(verdicts, "ownership.no_such_block");
}

TEST(OwnershipLaw, BlocksReturnToTheTailInTheOrderOfRelease) {
  const trace::Scenario made = scenario(6);
  EXPECT_EQ(keys(judge(made, shared_prefix(made))), "");
  const auto verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    std::vector<BlockId>& blocks = nth<trace::BlocksReleased>(events, 1).blocks;
    std::reverse(blocks.begin(), blocks.end());
  });
  EXPECT_FIRST(verdicts, "ownership.not_head");
}

TEST(OwnershipLaw, EachHolderGivesBackOnce) {
  const trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    auto at = static_cast<std::ptrdiff_t>(place<trace::BlocksReleased>(events, 0));
    const Event again = events[static_cast<std::size_t>(at)];
    events.insert(events.begin() + at, again);
  });
  EXPECT_FIRST(verdicts, "ownership.freed_twice");
  verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    const auto at = static_cast<std::ptrdiff_t>(place<trace::LaunchMade>(events, 1));
    events.insert(events.begin() + at, trace::BlocksReleased{{1}, 0, 0, {{0}}});
  });
  EXPECT_FIRST(verdicts, "ownership.freed_by_stranger");
}

TEST(OwnershipLaw, TheEnginesCountersAreItsEvents) {
  const trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, two_requests(made),
                               [](Events& events) { ++nth<trace::PoolCounted>(events, 1).used; });
  EXPECT_FIRST(verdicts, "ownership.balance");
  verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ++nth<trace::PoolCounted>(events, 1).used;
    --nth<trace::PoolCounted>(events, 1).free;
  });
  EXPECT_FIRST(verdicts, "ownership.counters");
}

TEST(OwnershipLaw, BlocksOfALaunchInFlightAreReserved) {
  const trace::Scenario made = scenario(2);
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(5), 4);
  machine.admit(a);
  machine.launch({{a, 5, {}}});
  machine.abort(a);
  const RequestId b = machine.begin("B", prompt(5), 1);
  machine.admit(b);
  machine.launch({{b, 5, {}}});  // refused
  machine.run();
  machine.complete();
  step(machine, {{b, 5, {}}});
  machine.finish();
  EXPECT_EQ(keys(judge(made, machine.events)), "");
  const auto verdicts = judge_edited(made, machine.events, [](Events& events) {
    const std::size_t from = place<trace::BlocksTaken>(events, 1);
    const Event taken = events[from];
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(from));
    const auto to = static_cast<std::ptrdiff_t>(place<trace::AllocationRefused>(events, 0));
    events[static_cast<std::size_t>(to)] = taken;
  });
  EXPECT_FIRST(verdicts, "ownership.handed_out_reserved");
}

TEST(OwnershipLaw, KeysNameOneBlockOfWrittenCells) {
  const trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    nth<trace::BlockPublished>(events, 1).key = nth<trace::BlockPublished>(events, 0).key;
  });
  EXPECT_FIRST(verdicts, "ownership.key_of_two_blocks");
  verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    nth<trace::BlockPublished>(events, 1).block = nth<trace::BlockPublished>(events, 0).block;
  });
  EXPECT_FIRST(verdicts, "ownership.published_wrong");
  verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    nth<trace::BlockPublished>(events, 0).block = {7};
  });
  EXPECT_FIRST(verdicts, "ownership.published_unwritten");
  verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    const std::size_t from = place<trace::BlockPublished>(events, 0);
    const std::size_t to = place<trace::LaunchCompleted>(events, 0);
    const Event completed = events[to];
    const auto after = static_cast<std::ptrdiff_t>(place<trace::LaunchMade>(events, 1));
    events.insert(events.begin() + after + 1, completed);  // only after the next was made
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(to));
    ASSERT_GT(from, to);
  });
  EXPECT_FIRST(verdicts, "ownership.published_in_flight");
  verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    const auto at = static_cast<std::ptrdiff_t>(place<trace::BlockPublished>(events, 1));
    const Event published = events[static_cast<std::size_t>(at)];
    events.insert(events.begin() + at, published);
  });
  EXPECT_FIRST(verdicts, "ownership.published_twice");
}

TEST(OwnershipLaw, NoLaunchRunsWithAFreeBlock) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 1, 0).tables[0].push_back({12});
  });
  EXPECT_FIRST(verdicts, "ownership.read_free");
}

TEST(OwnershipLaw, ForksShareWhatIsHeld) {
  const trace::Scenario made = scenario();
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(6), 8);
  machine.admit(a);
  step(machine, {{a, 6, {}}});
  const RequestId b = machine.fork(a, "B");
  step(machine, {{a, 1, {}}, {b, 1, {}}});
  step(machine, {{a, 1, {}}, {b, 1, {}}});
  machine.abort(a);
  machine.abort(b);
  machine.finish();
  EXPECT_EQ(keys(judge(made, machine.events)), "");
  auto verdicts = judge_edited(made, machine.events, [](Events& events) {
    nth<trace::BlocksShared>(events, 0).blocks[1] = {9};
  });
  EXPECT_FIRST(verdicts, "ownership.shared_unheld");
  verdicts = judge_edited(made, machine.events, [](Events& events) {  // the copy is left out (X06)
    for (Event& event : events) {
      const auto* copy = std::get_if<trace::CopyRan>(&event);
      if (copy != nullptr && copy->source != kNoBlock) {
        event = trace::CopyRan{0, kNoBlock, copy->destination};
      }
    }
  });
  EXPECT_FIRST(verdicts, "reads.unwritten.full_attention");
}

// --- one_writer ----------------------------------------------------------------------------------

TEST(OneWriterLaw, WritesAreTheTables) {
  const trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, two_requests(made),
                               [](Events& events) { ran(events, 1, 0).slots[0][0] += 1; });
  EXPECT_FIRST(verdicts, "one_writer.not_the_table");
  verdicts = judge_edited(made, two_requests(made),
                          [](Events& events) { ran(events, 1, 0).slots[0][0] = -5; });
  EXPECT_FIRST(verdicts, "one_writer.out_of_range");
  verdicts = judge_edited(made, two_requests(made),
                          [](Events& events) { ran(events, 1, 0).slots[0].clear(); });
  EXPECT_FIRST(verdicts, "one_writer.slot_count");
}

TEST(OneWriterLaw, OnlyTheSoleHolderWrites) {
  const trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 0, 0).tables[0][1] = {12};
    for (std::size_t i = 4; i < 6; ++i) ran(events, 0, 0).slots[0][i] += 11 * 4;
  });
  EXPECT_EQ(keys_of(verdicts, "one_writer"), std::vector<std::string>{"one_writer.not_held"});
  verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 0, 0).tables[0][1] = {3};  // B's
    for (std::size_t i = 4; i < 6; ++i) ran(events, 0, 0).slots[0][i] += 2 * 4;
  });
  EXPECT_FIRST(verdicts, "one_writer.shared");
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(6), 8);
  machine.admit(a);
  step(machine, {{a, 6, {}}});
  machine.fork(a, "B");
  step(machine, {{a, 1, {}}});
  machine.finish();
  verdicts = judge_edited(made, machine.events, [](Events& events) {  // A writes in place
    const BlockId source = nth<trace::BlockReplaced>(events, 0).source;
    const std::size_t at = place<trace::BlockReplaced>(events, 0);
    events.erase(events.begin() + static_cast<std::ptrdiff_t>(at));
    ran(events, 1, 0).tables[0][1] = source;
    ran(events, 1, 0).slots[0][0] = source.value * 4 + 2;
  });
  EXPECT_FIRST(verdicts, "one_writer.shared");
}

TEST(OneWriterLaw, NoWriteToWhatAKeyNames) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, shared_prefix(made), [](Events& events) {
    trace::RanRows& row = ran(events, 1, 0);  // A's second launch writes its first block again
    row.slots[0][0] = row.tables[0][0].value * 4;
  });
  EXPECT_EQ(keys_of(verdicts, "one_writer"),
            (std::vector<std::string>{"one_writer.not_the_table", "one_writer.published"}));
}

TEST(OneWriterLaw, NoSlotTwiceInALaunch) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 0, 0).slots[0][5] = ran(events, 0, 0).slots[0][1];
  });
  EXPECT_EQ(keys_of(verdicts, "one_writer"),
            (std::vector<std::string>{"one_writer.not_the_table", "one_writer.twice"}));
}

TEST(OneWriterLaw, ALaunchThatWasGivenUpDoesNotRun) {
  const trace::Scenario made = scenario();
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(5), 4);
  machine.admit(a);
  machine.launch({{a, 5, {}}});
  machine.events.push_back(trace::DeviceReset{0, false});
  machine.run();
  EXPECT_FIRST(judge(made, machine.events), "one_writer.not_in_flight");
}

}  // namespace
}  // namespace lockstep::oracles
