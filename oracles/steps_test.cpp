// The law `steps` on streams that break one rule of the scheduler each.
#include <gtest/gtest.h>

#include "oracles/serving_judge_test.h"

namespace lockstep::oracles {
namespace {

// What the law finds in a run of A (6 tokens) and B (5 tokens), three outputs each.
std::vector<std::string> found(const trace::Scenario& made, const Events& events) {
  return keys_of(judge(made, events), "steps");
}
using Keys = std::vector<std::string>;

trace::Scenario planned() {
  trace::Scenario made = scenario();
  made.events.clear();  // nothing is forced
  made.engine.async_depth = 1;
  made.engine.speculative.reset();
  for (const char* key : {"A", "B", "C"}) {
    trace::RequestSpec spec;
    spec.key = spec.id = key;
    made.requests.push_back(spec);
  }
  return made;
}

TEST(StepsLaw, AStepKeepsToTheLimits) {
  trace::Scenario made = planned();
  EXPECT_EQ(found(made, two_requests(made)), Keys{});
  made.engine.max_num_batched_tokens = 11;
  EXPECT_EQ(found(made, two_requests(made)), Keys{});
  made.engine.max_num_batched_tokens = 10;
  EXPECT_EQ(found(made, two_requests(made)), Keys{"steps.budget"});
  made = planned();
  made.engine.max_num_seqs = 1;
  EXPECT_EQ(found(made, two_requests(made)), Keys{"steps.sequences"});
  made = planned();
  made.engine.max_model_len = 9;
  EXPECT_EQ(found(made, two_requests(made)), Keys{});
  made.engine.max_model_len = 8;
  EXPECT_EQ(found(made, two_requests(made)), Keys{"steps.context"});
  made = planned();
  made.engine.chunked_prefill_size = 5;
  EXPECT_EQ(found(made, two_requests(made)), Keys{"steps.chunk"});
  made.engine.chunked_prefill_size = 6;
  EXPECT_EQ(found(made, two_requests(made)), Keys{});
  made = planned();
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(6, 1), 4);
  machine.admit(a);
  machine.launch({{a, 6, {}}});
  machine.launch({{a, 1, {}}});
  EXPECT_EQ(found(made, machine.events), Keys{"steps.in_flight"});
}

TEST(StepsLaw, AStepIsPaddedToTheNextSize) {
  trace::Scenario made = planned();
  made.engine.cudagraph_capture_sizes = {2, 11};
  EXPECT_EQ(found(made, two_requests(made)), Keys{});
  made.engine.cudagraph_capture_sizes = {2, 10, 12, 16};
  Events events = two_requests(made);
  EXPECT_EQ(found(made, events), Keys{"steps.padding"});
  nth<trace::LaunchMade>(events, 0).padded_to = 12;
  EXPECT_EQ(found(made, events), Keys{});
  nth<trace::LaunchMade>(events, 0).padded_to = 16;
  EXPECT_EQ(found(made, events), Keys{"steps.padding"});
}

// A's prompt of 6 in parts of 4 and 2.
Events in_parts(const trace::Scenario& made) {
  StreamMachine machine(made);
  const RequestId a = machine.begin("A", prompt(6, 1), 4);
  machine.admit(a);
  step(machine, {{a, 4, {}}});
  step(machine, {{a, 2, {}}});
  return machine.events;
}

TEST(StepsLaw, NothingIsShortenedWithoutNeed) {
  trace::Scenario made = planned();
  EXPECT_EQ(found(made, in_parts(made)), Keys{"steps.shortened"});
  made.engine.chunked_prefill_size = 4;
  EXPECT_EQ(found(made, in_parts(made)), Keys{});
  made.engine.chunked_prefill_size = 5;
  EXPECT_EQ(found(made, in_parts(made)), Keys{"steps.shortened"});
  made.engine.chunked_prefill_size = 0;
  made.engine.max_num_batched_tokens = 4;
  EXPECT_EQ(found(made, in_parts(made)), Keys{});
  made.engine.enable_chunked_prefill = false;  // it does not fit at all: cut
  EXPECT_EQ(found(made, in_parts(made)), Keys{});
  made.engine.max_num_batched_tokens = 6;
  EXPECT_EQ(found(made, in_parts(made)), (Keys{"steps.shortened", "steps.split"}));
  const Events events = in_parts(made);
  made.engine.groups[0].type = trace::GroupType::SlidingWindow;
  made.engine.groups[0].window = 2;
  made.engine.pools[0].num_blocks = 1;  // positions 0..4 lie in two blocks
  EXPECT_EQ(found(made, events), Keys{});
  made.engine.pools[0].num_blocks = 2;
  EXPECT_EQ(found(made, events), (Keys{"steps.shortened", "steps.split"}));
}

TEST(StepsLaw, RowsGoOnWhereTheLastOnesEnded) {
  const trace::Scenario made = planned();
  const auto moved = [&](const Events& events, std::size_t launch, std::int64_t by) {
    return keys_of(judge_edited(made, events,
                                [&](Events& edited) {
                                  trace::Position& first = ran(edited, launch, 0).first_position;
                                  first = static_cast<trace::Position>(first + by);
                                }),
                   "steps");
  };
  // Again from the start of the last token's; past one; a first row that is not at the hit's end.
  EXPECT_EQ(moved(two_requests(made), 1, -1), (Keys{"steps.start", "steps.shortened"}));
  EXPECT_TRUE(has(judge_edited(made, two_requests(made),
                               [](Events& events) { ++ran(events, 2, 1).first_position; }),
                  "steps.start"));
  EXPECT_EQ(found(made, shared_prefix(made)), Keys{});
  EXPECT_EQ(moved(shared_prefix(made), 2, -8), (Keys{"steps.start", "steps.shortened"}));
}

TEST(StepsLaw, RowsComeInTheOrderOfTheQueue) {
  trace::Scenario made = planned();
  const auto swapped = [&] {
    return judge_edited(made, two_requests(made), [](Events& events) {
      for (Event& event : events) {
        auto* launch = std::get_if<trace::LaunchMade>(&event);
        if (launch != nullptr) std::swap(launch->requests.front(), launch->requests.back());
      }
    });
  };
  EXPECT_EQ(keys_of(swapped(), "steps"), Keys{"steps.order"});
  made.engine.scheduling_policy = trace::SchedulingPolicy::Priority;
  made.requests[0].priority = 1;
  EXPECT_EQ(keys_of(swapped(), "steps"), Keys{});
  EXPECT_EQ(found(made, two_requests(made)), Keys{"steps.order"});
}

TEST(StepsLaw, NobodyIsAdmittedPastARefusedOne) {
  const trace::Scenario made = planned();
  const auto with = [&](std::uint32_t refused, std::uint32_t admitted, bool end_of_step) {
    StreamMachine machine(made);
    begin_two(machine);
    machine.events.push_back(trace::AllocationRefused{{refused}, {1, 2}, {1, 2}});
    if (end_of_step) machine.events.push_back(trace::PoolCounted{0, 16, 0, 0, 0});
    machine.events.push_back(trace::LaunchMade{{0}, 0, 5, {{admitted}}});
    return found(made, machine.events);
  };
  EXPECT_EQ(with(0, 1, false), Keys{"steps.overtakes"});
  EXPECT_EQ(with(1, 0, false), Keys{});
  EXPECT_EQ(with(0, 1, true), Keys{});
}

TEST(StepsLaw, TheLastOfTheQueueIsPreempted) {
  trace::Scenario made = planned();
  const auto preempting = [&](std::uint32_t victim, bool admits) {
    StreamMachine machine(made);
    prefill_two(machine);
    const RequestId c = machine.begin("C", prompt(5, 90), 4);
    machine.preempt({victim});
    if (admits) machine.events.push_back(trace::LaunchMade{{1}, machine.tick, 5, {c}});
    return found(made, machine.events);
  };
  EXPECT_EQ(preempting(1, false), Keys{});
  EXPECT_EQ(preempting(0, false), Keys{"steps.victim"});
  EXPECT_EQ(preempting(1, true), Keys{"steps.admits_after_preempting"});
  made.engine.scheduling_policy = trace::SchedulingPolicy::Priority;
  made.requests[1].priority = -1;
  EXPECT_EQ(preempting(1, false), (Keys{"steps.order", "steps.victim"}));
}

TEST(StepsLaw, DraftsAreTheDraftersAndAllOfThem) {
  trace::Scenario made = planned();
  made.engine.speculative = trace::SpeculativeSpec{2, trace::Acceptance::Rejection};
  Events fed;
  const auto with = [&](std::size_t draft_count) {
    StreamMachine machine(made);
    const auto [a, b] = prefill_two(machine, 9);
    step(machine, {{a, 1, {}}, {b, 1, std::vector<bool>(draft_count, true)}});
    fed = machine.events;
    return found(made, machine.events);
  };
  EXPECT_EQ(with(0), Keys{});  // none is proposed
  EXPECT_EQ(with(1), Keys{"steps.draft"});
  EXPECT_EQ(with(3), (Keys{"steps.too_many_drafts", "steps.draft"}));
  // What the stream feeds as drafts is what the drafter proposes.
  const std::vector<trace::TokenId> tokens = ran(fed, 1, 1).tokens;
  made.requests[1].draft.resize(6);
  for (std::size_t i = 1; i < 4; ++i) {
    made.requests[1].draft[i] = {trace::DraftEntry::Kind::Token, tokens[i]};
  }
  EXPECT_EQ(with(2), Keys{});
  EXPECT_EQ(with(1), Keys{"steps.fewer_drafts"});
  EXPECT_EQ(with(0), Keys{"steps.fewer_drafts"});
  EXPECT_EQ(with(3), Keys{"steps.too_many_drafts"});
  std::swap(made.requests[1].draft[1], made.requests[1].draft[2]);
  EXPECT_EQ(with(2), Keys{"steps.draft"});
}

}  // namespace
}  // namespace lockstep::oracles
