// The timeline of a finding, whole: it is text for people, so the text is what is tested.
#include "oracles/timeline.h"

#include <gtest/gtest.h>

#include "oracles/serving_judge_test.h"

namespace lockstep::oracles {
namespace {

TEST(Timeline, ShowsTicksRequestsAndTheBlock) {
  const trace::Scenario made = scenario();
  Events events = two_requests(made);
  ran(events, 2, 0).tables[0][0] = ran(events, 2, 1).tables[0][0];
  const std::vector<Verdict> verdicts = judge(made, events);
  const Finding* finding = earliest_finding(verdicts);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(timeline(made, events, *finding),
            "             ticks 0..4\n"
            "> A          PdddF\n"
            "  B          PdddF\n"
            "               ^\n"
            ". waits, P prefill, d decode, v verify, - no row, r preempted, F ends, x aborted, "
            "E error, ! refused\n"
            "A in launch 2: full [ 2 1 ]\n"
            "block 2, tick 0: handed out to B\n"
            "block 2, tick 0: written by B in launch 0 (positions 0..4)\n"
            "block 2, tick 1: published by B as its block 0\n");
}

TEST(Timeline, StaysWithinTheLimitsHoweverLongTheRun) {
  const trace::Scenario made = scenario(64);
  StreamMachine machine(made);
  std::vector<RequestId> lives;
  for (std::uint32_t i = 0; i < 20; ++i) {
    lives.push_back(
        machine.begin("a request with a long key " + std::to_string(i), prompt(3 + i % 4, i), 8));
    machine.admit(lives.back());
  }
  for (int round = 0; round < 150; ++round) {
    if (machine.ended(lives[static_cast<std::size_t>(round) % 20])) {
      ++machine.tick;
      continue;
    }
    const RequestId one = lives[static_cast<std::size_t>(round) % 20];
    step(machine, {{one, machine.wanted(one), {}}});
  }
  machine.preempt(lives[0]);
  machine.abort(lives[1]);
  machine.finish();
  Finding finding;
  finding.request = lives[15];
  finding.event_index = machine.events.size() / 2;
  const std::string text = timeline(made, machine.events, finding);
  std::size_t lines = 0, width = 0, longest = 0;
  for (const char c : text) {
    width = c == '\n' ? 0 : width + 1;
    longest = std::max(longest, width);
    lines += c == '\n';
  }
  EXPECT_LE(longest, 100u) << text;
  EXPECT_LE(lines, 24u) << text;
  EXPECT_NE(text.find("> a reques"), std::string::npos) << text;
}

TEST(Timeline, OfNothingIsNothing) { EXPECT_EQ(timeline(scenario(), {}, Finding{}), ""); }

}  // namespace
}  // namespace lockstep::oracles
