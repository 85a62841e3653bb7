// The laws of the serving core on right streams (a small machine's, serving_stream_test.h), and the
// laws about results on streams with one wrong event: what each must find, and that it is the
// first.
#include <gtest/gtest.h>

#include "base/prng.h"
#include "oracles/empty_pools.h"
#include "oracles/serving_judge_test.h"

namespace lockstep::oracles {
namespace {

TEST(ServingLaws, ARightStreamPassesEveryLaw) {
  for (const trace::GroupType type : {trace::GroupType::FullAttention,
                                      trace::GroupType::SlidingWindow, trace::GroupType::Mamba}) {
    const trace::Scenario made = with_group(type);
    const std::vector<Verdict> verdicts = judge(made, two_requests(made));
    EXPECT_EQ(keys(verdicts), "");
    for (const Verdict& verdict : verdicts) {
      const bool silent = verdict.law == "refusals" || verdict.law == "cancellation" ||
                          verdict.law == "subject_checks";
      EXPECT_EQ(verdict.kind, silent ? VerdictKind::NotApplicable : VerdictKind::Pass)
          << verdict.law;
    }
  }
}

TEST(ServingLaws, NoEventIsNoPass) {
  for (const Verdict& verdict : judge(scenario(), {})) {
    EXPECT_EQ(verdict.kind, VerdictKind::NotApplicable) << verdict.law;
    EXPECT_NE(verdict.reason, "") << verdict.law;
  }
}

// --- the other laws ------------------------------------------------------------------------------

TEST(PadRowsLaw, PadRowsWriteNowhere) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    nth<trace::LaunchRan>(events, 1).pad_slots = {79};
  });
  EXPECT_FIRST(verdicts, "pad_rows.writes");
}

TEST(RefusalsLaw, ARefusalLeavesThePoolsAsTheyWere) {
  const trace::Scenario made = scenario();
  EXPECT_EQ(first(judge(made, {trace::AllocationRefused{{0}, {1, 2}, {1, 2}}})), "");
  EXPECT_EQ(first(judge(made, {trace::AllocationRefused{{0}, {1, 2}, {1, 3}}})),
            "refusals.pool_changed");
}

TEST(RefusalsLaw, ARequestIsRefusedForAReasonThatHolds) {
  trace::Scenario made = scenario(4);
  made.engine.max_model_len = 20;
  const auto began = [](std::uint32_t id, const char* client, std::uint32_t prompt_tokens) {
    return trace::LifeBegan{{id},        std::to_string(id),    client,        0,
                            0,           prompt(prompt_tokens), prompt_tokens, 6,
                            std::nullopt};
  };
  const auto refused = [](std::uint32_t id, const char* reason) {
    return trace::RequestRefused{{id}, reason};
  };
  const auto law = [&](const Events& events) { return first(judge(made, events)); };
  EXPECT_EQ(law({began(0, "r", 3), began(1, "r", 3), refused(1, "duplicate_id")}), "");
  EXPECT_EQ(law({began(0, "r", 3), trace::LifeAborted{{0}, 1}, began(1, "r", 3),
                 refused(1, "duplicate_id")}),
            "refusals.duplicate_id");
  EXPECT_EQ(law({began(0, "r", 3), began(1, "r", 3), trace::LaunchMade{{0}, 0, 0, {{1}}}}),
            "refusals.accepted_duplicate_id");
  EXPECT_EQ(law({began(0, "r", 12), refused(0, "kv_capacity")}), "");
  EXPECT_EQ(law({began(0, "r", 11), refused(0, "kv_capacity")}), "refusals.kv_capacity");
  EXPECT_EQ(law({began(0, "r", 12), trace::LaunchMade{{0}, 0, 0, {{0}}}}),
            "refusals.accepted_kv_capacity");
  EXPECT_EQ(law({began(0, "r", 11), trace::LaunchMade{{0}, 0, 0, {{0}}}}), "");
  EXPECT_EQ(law({began(0, "r", 20), refused(0, "context_length")}), "");
  EXPECT_EQ(law({began(0, "r", 19), refused(0, "context_length")}), "refusals.context_length");
  EXPECT_EQ(law({began(0, "r", 20), trace::LaunchMade{{0}, 0, 0, {{0}}}}),
            "refusals.accepted_context_length");
  EXPECT_EQ(law({began(0, "r", 3), refused(0, "queue_full")}), "refusals.queue_full");
  trace::Counts counts;
  counts.prompt = 3;
  const trace::LifeEnded ended{{1}, 2, "refused", counts};
  EXPECT_EQ(law({began(0, "r", 3), began(1, "r", 3), ended}), "");
  EXPECT_EQ(law({began(0, "r", 3), trace::LifeAborted{{0}, 1}, began(1, "r", 3), ended}),
            "refusals.no_reason");
}

// Blocks of 4, window 4: the output of a short prompt never has more than two.
TEST(RefusalsLaw, AWindowNeedsRoomOnlyForWhatAStepReaches) {
  trace::Scenario made = scenario(2);
  made.engine.groups[0].type = trace::GroupType::SlidingWindow;
  made.engine.groups[0].window = 4;
  const auto refused = [&](std::uint32_t prompt_tokens) {
    return first(judge(
        made, {trace::LifeBegan{
                   {0}, "A", "a", 0, 0, prompt(prompt_tokens), prompt_tokens, 90, std::nullopt},
               trace::RequestRefused{{0}, "kv_capacity"}}));
  };
  EXPECT_EQ(refused(8), "refusals.kv_capacity");
  EXPECT_EQ(refused(9), "");
  made.engine.chunked_prefill_size = 8;
  EXPECT_EQ(refused(12), "refusals.kv_capacity");  // then positions 5..11
  EXPECT_EQ(refused(13), "");
}

TEST(CancellationLaw, ACancelledLifeGetsNothingMore) {
  const trace::Scenario made = scenario();
  const auto abort_after = [&](std::size_t launch) {
    return judge_edited(made, two_requests(made), [&](Events& events) {
      const auto at = static_cast<std::ptrdiff_t>(place<trace::LaunchCompleted>(events, launch));
      events.insert(events.begin() + at, trace::LifeAborted{{0}, launch});
    });
  };
  EXPECT_EQ(keys_of(abort_after(0), "cancellation"),
            (std::vector<std::string>{"cancellation.accepted", "cancellation.launched",
                                      "cancellation.took_blocks"}));
  const auto verdicts = judge_edited(made, two_requests(made), [&](Events& events) {
    events.erase(events.begin() +
                 static_cast<std::ptrdiff_t>(place<trace::BlocksReleased>(events, 0)));
    events.push_back(trace::LifeAborted{{0}, 9});
  });
  EXPECT_EQ(keys_of(verdicts, "cancellation"),
            std::vector<std::string>{"cancellation.kept_blocks"});
}

TEST(CountsLaw, CountsAreThoseOfTheEvents) {
  const trace::Scenario made = scenario();
  const auto with = [&](std::uint64_t trace::Counts::*count) {
    return first(judge_edited(made, shared_prefix(made), [&](Events& events) {
      ++(nth<trace::LifeEnded>(events, 1).counts.*count);
    }));
  };
  EXPECT_EQ(with(&trace::Counts::prompt), "counts.prompt");
  EXPECT_EQ(with(&trace::Counts::cached), "counts.cached");
  EXPECT_EQ(with(&trace::Counts::scheduled), "counts.scheduled");
  EXPECT_EQ(with(&trace::Counts::proposed), "counts.proposed");
  EXPECT_EQ(with(&trace::Counts::accepted), "counts.accepted");
  EXPECT_EQ(with(&trace::Counts::emitted), "counts.emitted");
  EXPECT_EQ(with(&trace::Counts::preemptions), "counts.preemptions");
}

TEST(ServingIdentityLaw, EveryLifeIsTheRequestAlone) {
  const trace::Scenario made = scenario();
  using Reference = trace::LifeReferenced;
  const auto law = [&](const std::function<void(Reference&)>& edit, const Events& before = {}) {
    Reference event{{0}, {1, 2, 3}, "abc", "length", {}, {1, 2, 3}, "abc", "length", {}};
    edit(event);
    Events events = before;
    events.push_back(event);
    return first(judge(made, events));
  };
  const auto less = [](Reference& event) {
    event.got_tokens = {1, 2};
    event.got_text = "ab";
    event.got_finish_reason = "abort";
  };
  EXPECT_EQ(law([](Reference&) {}), "");
  EXPECT_EQ(law([](Reference& event) { event.got_tokens[1] = 9; }), "token_identity.tokens");
  EXPECT_EQ(law([](Reference& event) { event.got_tokens.push_back(4); }),
            "token_identity.too_many");
  EXPECT_EQ(law([](Reference& event) { event.got_tokens.pop_back(); }), "token_identity.too_few");
  EXPECT_EQ(law([](Reference& event) { event.got_text = "abd"; }), "token_identity.text");
  EXPECT_EQ(law([](Reference& event) { event.got_finish_reason = "stop"; }),
            "token_identity.finish_reason");
  EXPECT_EQ(law([](Reference& event) {
              event.logprobs = {{{{1, -0.5}}}, {{{2, -0.5}}}, {{{3, -0.5}}}};
              event.got_logprobs = event.logprobs;
              event.got_logprobs[2].entries[0].second = -0.25;
            }),
            "token_identity.logprobs");
  EXPECT_EQ(law(less), "token_identity.too_few");
  EXPECT_EQ(law(less, {trace::LifeAborted{{0}, 1}}), "");
  EXPECT_EQ(law(less, {trace::RequestTouched{{0}, "device_lost"}}), "");
  const auto other = [](Reference& event) { event.got_tokens[1] = 9; };
  EXPECT_EQ(law(other, {trace::LifeAborted{{0}, 1}}), "token_identity.tokens");
  EXPECT_EQ(law(other, {trace::RequestTouched{{0}, "device_lost"}}), "token_identity.tokens");
  EXPECT_EQ(law(other, {trace::RequestTouched{{0}, "flip"}}), "");
  EXPECT_EQ(law([](Reference& event) { event.got_finish_reason = "refused"; }),
            "token_identity.refused_gets_tokens");
}

TEST(LivenessLaw, EveryRequestEndsAndEveryBlockIsFree) {
  trace::Scenario made = scenario();
  auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    nth<trace::RunEnded>(events, 0).live = {{1}};
  });
  EXPECT_FIRST(verdicts, "liveness.live");
  verdicts = judge(made, {trace::PoolCounted{0, 15, 0, 0, 1}, trace::RunEnded{9, {}}});
  EXPECT_EQ(keys_of(verdicts, "liveness"), std::vector<std::string>{"liveness.reserved_at_end"});
  verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    events.erase(events.begin() +
                 static_cast<std::ptrdiff_t>(place<trace::BlocksReleased>(events, 0)));
  });
  EXPECT_EQ(keys_of(verdicts, "liveness"), std::vector<std::string>{"liveness.used_at_end"});
  made.events.push_back({});
  made.events[0].type = trace::ForcedEventType::Stall;
  made.events[0].ticks = made.max_ticks;
  verdicts = judge(made, {trace::RunEnded{9, {{0}}}});
  EXPECT_EQ(first(verdicts), "");
}

TEST(ServingLaws, TheEarliestEventIsTheFirstFinding) {
  const trace::Scenario made = scenario();
  const auto verdicts = judge_edited(made, two_requests(made), [](Events& events) {
    ran(events, 1, 0).tables[0][0] = ran(events, 1, 1).tables[0][0];
    nth<trace::LaunchRan>(events, 2).pad_slots = {1};
    nth<trace::LifeEnded>(events, 0).counts.prompt = 77;
  });
  EXPECT_FIRST(verdicts, "reads.foreign.full_attention");
  const Finding* finding = earliest_finding(verdicts);
  Events events = two_requests(made);
  EXPECT_EQ(finding->event_index, place<trace::LaunchRan>(events, 1));
}

// --- right streams at random ---------------------------------------------------------------------

class Random {
 public:
  explicit Random(std::uint64_t seed) : prng_(seed) {}
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(prng_.below(bound));
  }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

 private:
  base::Prng prng_;
};

trace::Scenario random_scenario(Random& random) {
  trace::Scenario made = scenario(8 + random.below(24), 1 + random.below(5));
  trace::GroupSpec& base = made.engine.groups[0];
  const std::uint32_t kinds = random.below(4);
  if (kinds == 1) base.type = trace::GroupType::SlidingWindow;
  base.window = 1 + random.below(8);
  if (kinds >= 2) {
    trace::GroupSpec other = base;
    other.name = "other";
    other.type = kinds == 2 ? trace::GroupType::Mamba : trace::GroupType::SlidingWindow;
    if (random.one_in(2)) {
      other.pool = 1;
      made.engine.pools.push_back({"other", 8 + random.below(24)});
    }
    made.engine.groups.push_back(other);
  }
  made.engine.enable_prefix_caching = !random.one_in(3);
  return made;
}

void random_events(StreamMachine& machine, Random& random, std::uint32_t id, bool drafts_allowed,
                   std::vector<StreamMachine::Work>& work) {
  const RequestId request{id};
  if (machine.ended(request)) return;
  if (machine.waiting(request)) {
    if (machine.busy(request) || !random.one_in(2)) return;
    machine.admit(request);
    work.push_back({request, std::min(machine.wanted(request), 1 + random.below(9)), {}});
    return;
  }
  if (random.one_in(25)) return machine.abort(request);
  if (random.one_in(25)) return machine.preempt(request);
  if (random.one_in(25) && !machine.busy(request) && machine.lives() < 12) {
    machine.fork(request, "F" + std::to_string(machine.lives()));
  }
  const std::uint32_t wanted = machine.wanted(request);
  if (wanted == 0 || random.one_in(4)) return;
  StreamMachine::Work one{request, std::min(wanted, 1 + random.below(9)), {}};
  if (drafts_allowed && wanted == 1 && !machine.busy(request)) {
    for (std::uint32_t i = random.below(4); i > 0; --i) one.drafts.push_back(!random.one_in(3));
  }
  work.push_back(one);
}

TEST(ServingLaws, RightStreamsAtRandomPass) {
  std::uint64_t launches = 0, hits = 0, copies = 0, refusals = 0, preemptions = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const trace::Scenario made = random_scenario(random);
    const bool drafts = made.engine.groups.back().type != trace::GroupType::Mamba;
    const std::uint32_t depth = 1 + random.below(3);
    StreamMachine machine(made);
    for (; machine.tick < 60; ++machine.tick) {
      while (machine.in_flight() >= depth || (machine.in_flight() > 0 && random.one_in(2))) {
        machine.complete();
      }
      if (machine.lives() < 8 && random.one_in(3)) {
        const auto tokens = prompt(1 + random.below(14), 1 + random.below(2));
        const auto count = static_cast<std::uint32_t>(tokens.size());
        std::uint32_t output = 1 + random.below(9);
        while (output > 0 && !runs_in_empty_pools(made.engine, count, count + output - 1)) {
          --output;
        }
        if (output > 0) {
          machine.begin("R" + std::to_string(machine.lives()), tokens, output, random.one_in(4));
        }
      }
      std::vector<StreamMachine::Work> work;
      for (std::uint32_t id = 0; id < machine.lives(); ++id) {
        random_events(machine, random, id, drafts, work);
      }
      machine.launch(work);
      machine.run();
    }
    while (machine.in_flight() > 0) machine.complete();
    for (std::uint32_t id = 0; id < machine.lives(); ++id) {
      if (!machine.ended({id})) machine.abort({id});
    }
    machine.finish();
    for (const Event& event : machine.events) {
      launches += std::holds_alternative<trace::LaunchRan>(event);
      hits += std::holds_alternative<trace::BlocksHit>(event);
      copies += std::holds_alternative<trace::BlockReplaced>(event);
      refusals += std::holds_alternative<trace::AllocationRefused>(event);
      preemptions += std::holds_alternative<trace::RequestPreempted>(event);
    }
    const std::vector<Verdict> verdicts = judge(made, machine.events);
    ASSERT_EQ(first(verdicts), "") << "seed " << seed << "\n" << keys(verdicts);
  }
  EXPECT_GT(launches, 5000u);
  EXPECT_GT(hits, 300u);
  EXPECT_GT(copies, 100u);
  EXPECT_GT(refusals, 100u);
  EXPECT_GT(preemptions, 100u);
}

}  // namespace
}  // namespace lockstep::oracles
