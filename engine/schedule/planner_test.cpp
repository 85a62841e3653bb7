// The planner beside a simple model: with room for all blocks a plan is exactly what counting
// gives; with scarce blocks its laws hold and everybody comes to an end.
#include "engine/schedule/planner.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/check.h"

namespace lockstep::engine {
namespace {

// The same cases in every run; more of them: RC_PARAMS="seed=1 max_success=10000".
[[maybe_unused]] const int kSeeded = ::setenv("RC_PARAMS", "seed=20261129 max_success=300", 0);

using trace::RequestId;

// A planner with its state, and launches that come back when the test says so.
class World {
 public:
  explicit World(const trace::EngineSettings& settings)
      : settings_(settings), cache_(settings, [](trace::Event) {}) {}

  RequestId submit(std::uint32_t prompt, std::uint32_t max_tokens, std::int32_t priority = 0,
                   std::uint32_t drafts = 0) {
    const RequestId id{static_cast<std::uint32_t>(schedule_.lives.size())};
    Submission submission;
    submission.spec.max_tokens = max_tokens;
    submission.spec.priority = priority;
    for (std::uint32_t i = 0; i < drafts; ++i) {
      submission.spec.draft.push_back({trace::DraftEntry::Kind::Token, 7});
    }
    for (std::uint32_t i = 0; i < prompt; ++i) {
      submission.spec.prompt.push_back(id.value * 1000 + i);  // no prefix is shared
    }
    Life& life = schedule_.lives.emplace_back();
    life.id = id;
    life.arrival = id.value;
    life.tokens = submission.spec.prompt;
    life.prompt_count = prompt;
    life.submission = std::make_shared<const Submission>(std::move(submission));
    cache_.open(id, {});
    enqueue(schedule_, id, settings_);
    return id;
  }

  Step plan() {
    const FaultHook no_faults;
    preempted_.clear();
    const EventSink sink = [this](trace::Event event) {
      if (const auto* one = std::get_if<trace::RequestPreempted>(&event)) {
        preempted_.push_back(one->request);
      }
    };
    PlanContext context{settings_, schedule_, cache_, no_faults, sink, 0};
    return plan_step(context);
  }

  // The launch comes back: every sampling sequence gives one token.
  void complete(const Step& step) {
    for (const PlannedSequence& sequence : step.sequences) {
      Life& life = schedule_.life(sequence.request);
      LS_CHECK(life.flights.front().launch == step.launch);
      life.flights.pop_front();
      cache_.trim(life.id, sequence.first + sequence.count);
      if (!sequence.samples) continue;
      schedule_.futures.put_back(sequence.future_slot);
      --life.pending;
      life.tokens.push_back(7);
      if (life.emitted() < life.spec().max_tokens) continue;
      unlist(schedule_, life.id);
      life.phase = LifePhase::Ended;
      cache_.close(life.id);
    }
  }

  trace::EngineSettings settings_;
  KvCache cache_;
  Schedule schedule_;
  std::vector<RequestId> preempted_;
};

trace::EngineSettings settings(std::uint32_t blocks, std::uint32_t block_size, std::uint32_t budget,
                               std::uint32_t sequences) {
  trace::EngineSettings result;
  result.block_size = result.groups[0].block_size = block_size;
  result.pools[0].num_blocks = blocks;
  result.enable_prefix_caching = false;
  result.max_num_batched_tokens = budget;
  result.max_num_seqs = sequences;
  return result;
}

// Two blocks of 4, window 4: no step may reach into three.
TEST(Planner, AStepIsCutToWhatEmptyPoolsHold) {
  trace::EngineSettings window = settings(2, 4, 64, 4);
  window.groups[0].type = trace::GroupType::SlidingWindow;
  window.groups[0].window = 4;
  World world(window);
  world.submit(30, 2);
  std::vector<std::uint32_t> counts;
  for (Step step = world.plan(); !step.empty(); step = world.plan()) {
    counts.push_back(step.token_count);
    world.complete(step);
  }
  EXPECT_EQ(counts, (std::vector<std::uint32_t>{8, 4, 4, 4, 4, 4, 2, 1}));
}

// --- With room for all: a model that only counts ---

struct Counted {
  std::uint32_t prompt = 0, max_tokens = 0, computed = 0, emitted = 0;
  bool running = false;
  std::uint32_t left() const { return prompt + emitted - computed; }
  bool ended() const { return emitted == max_tokens; }
};

std::vector<std::pair<std::uint32_t, std::uint32_t>> expected(std::vector<Counted>& all,
                                                              std::uint32_t budget,
                                                              std::uint32_t chunk,
                                                              std::uint32_t sequences) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> rows;
  std::uint32_t used = 0;
  const auto take = [&](std::uint32_t i) {
    std::uint32_t count = std::min(all[i].left(), budget - used);
    if (chunk > 0) count = std::min(count, chunk);
    if (count == 0) return;
    rows.emplace_back(i, count);
    all[i].running = true;
    all[i].computed += count;
    used += count;
  };
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].running && !all[i].ended()) take(i);
  }
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const auto running =
        std::ranges::count_if(all, [](const Counted& one) { return one.running && !one.ended(); });
    if (running >= sequences) break;
    if (!all[i].running) take(i);
  }
  for (const auto& [i, count] : rows) {
    if (all[i].left() == 0) ++all[i].emitted;
  }
  return rows;
}

RC_GTEST_PROP(Planner, WithRoomForAllAPlanIsWhatCountingGives, ()) {
  const auto budget = *rc::gen::inRange<std::uint32_t>(1, 20);
  const auto chunk = *rc::gen::inRange<std::uint32_t>(0, 6);
  const auto sequences = *rc::gen::inRange<std::uint32_t>(1, 5);
  trace::EngineSettings all_fit = settings(4096, 4, budget, sequences);
  all_fit.chunked_prefill_size = chunk;
  World world(all_fit);
  std::vector<Counted> model;
  for (int tick = 0; tick < 200; ++tick) {
    if (model.size() < 12 && *rc::gen::inRange(0, 3) == 0) {
      const auto prompt = *rc::gen::inRange<std::uint32_t>(1, 30);
      const auto tokens = *rc::gen::inRange<std::uint32_t>(1, 6);
      world.submit(prompt, tokens);
      model.push_back({prompt, tokens, 0, 0, false});
    }
    const auto want = expected(model, budget, chunk, sequences);
    const Step step = world.plan();
    RC_ASSERT(step.sequences.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      RC_ASSERT(step.sequences[i].request.value == want[i].first);
      RC_ASSERT(step.sequences[i].count == want[i].second);
    }
    world.complete(step);
  }
}

// --- With scarce blocks ---

// What must hold of any plan, whatever made it.
void check_plan(const World& world, const Step& step) {
  std::uint32_t tokens = 0;
  for (const PlannedSequence& sequence : step.sequences) {
    const Life& life = world.schedule_.life(sequence.request);
    tokens += sequence.count;
    RC_ASSERT(sequence.count > 0);
    RC_ASSERT(life.phase == LifePhase::Running);
    RC_ASSERT(sequence.first + sequence.count == life.computed);
    RC_ASSERT(life.flights.size() <= world.settings_.async_depth);
    const std::size_t size = world.settings_.groups[0].block_size;
    RC_ASSERT(world.cache_.table(life.id, 0).size() == (life.computed + size - 1) / size);
  }
  RC_ASSERT(tokens == step.token_count);
  RC_ASSERT(tokens <= world.settings_.max_num_batched_tokens);
  RC_ASSERT(world.schedule_.running.size() <= world.settings_.max_num_seqs);
  RC_ASSERT(world.schedule_.futures.taken() <=
            world.settings_.async_depth * world.schedule_.lives.size());
}

// Those preempted are the last in priority and arrival among those that held blocks, and a step
// that preempted admits nobody.
void check_preemption(const World& world, const std::vector<RequestId>& running_before) {
  if (world.preempted_.empty()) return;
  std::vector<RequestId> stayed;
  for (const RequestId id : running_before) {
    if (std::ranges::find(world.preempted_, id) == world.preempted_.end()) stayed.push_back(id);
  }
  RC_ASSERT(world.schedule_.running == stayed);
  const auto key = [&](RequestId id) {
    return std::pair(world.schedule_.life(id).spec().priority, id.value);
  };
  for (const RequestId id : world.preempted_) {
    for (const RequestId other : stayed) RC_ASSERT(key(id) > key(other));
  }
}

RC_GTEST_PROP(Planner, ScarceBlocksPreemptTheLastAndEverybodyEnds, ()) {
  const auto block_size = *rc::gen::inRange<std::uint32_t>(1, 5);
  trace::EngineSettings scarce = settings(
      (24 + block_size - 1) / block_size + *rc::gen::inRange<std::uint32_t>(0, 5), block_size,
      *rc::gen::inRange<std::uint32_t>(1, 20), *rc::gen::inRange<std::uint32_t>(1, 6));
  scarce.async_depth = *rc::gen::inRange<std::uint32_t>(1, 4);
  scarce.scheduling_policy = trace::SchedulingPolicy::Priority;
  World world(scarce);
  for (int i = 0; i < 8; ++i) {
    const auto prompt = *rc::gen::inRange<std::uint32_t>(1, 16);
    world.submit(prompt, *rc::gen::inRange<std::uint32_t>(1, 8), *rc::gen::inRange(0, 3));
  }
  std::deque<std::pair<Step, std::vector<std::pair<std::uint32_t, BlockId>>>> in_flight;
  for (int tick = 0; tick < 2000; ++tick) {
    if (in_flight.size() == scarce.async_depth ||
        (!in_flight.empty() && *rc::gen::inRange(0, 2) == 0)) {
      world.cache_.end_use(in_flight.front().second);
      world.complete(in_flight.front().first);
      in_flight.pop_front();
    }
    if (in_flight.size() < scarce.async_depth) {
      const std::vector<RequestId> running = world.schedule_.running;
      Step step = world.plan();
      check_plan(world, step);
      check_preemption(world, running);
      std::vector<std::pair<std::uint32_t, BlockId>> uses;
      for (const PlannedSequence& sequence : step.sequences) {
        for (const BlockId block : world.cache_.table(sequence.request, 0)) {
          uses.emplace_back(0, block);
        }
      }
      world.cache_.begin_use(uses);
      if (!step.empty()) in_flight.emplace_back(std::move(step), std::move(uses));
    }
    const bool over =
        in_flight.empty() && world.schedule_.waiting.empty() && world.schedule_.running.empty();
    if (over) {
      RC_ASSERT(world.cache_.pool(0).used_count() == 0u);
      RC_ASSERT(world.schedule_.futures.taken() == 0u);
      return;
    }
  }
  RC_FAIL("somebody never ends");
}

TEST(Planner, AStepIsPaddedToTheSmallestCaptureSizeThatHoldsIt) {
  trace::EngineSettings padded = settings(64, 4, 100, 8);
  padded.cudagraph_capture_sizes = {4, 8, 16};
  for (const auto& [tokens, size] :
       {std::pair(3u, 4u), {4u, 4u}, {5u, 8u}, {16u, 16u}, {17u, 17u}}) {
    World world(padded);
    world.submit(tokens, 1);
    EXPECT_EQ(world.plan().padded_to, size) << tokens;
  }
}

TEST(Planner, WithoutChunksAPromptRunsWholeOrWaits) {
  trace::EngineSettings whole = settings(64, 4, 10, 8);
  whole.enable_chunked_prefill = false;
  World world(whole);
  world.submit(7, 1);
  world.submit(5, 1);
  const Step first = world.plan();
  ASSERT_EQ(first.sequences.size(), 1u);
  EXPECT_EQ(first.sequences[0].count, 7u);
  world.complete(first);
  const Step second = world.plan();
  ASSERT_EQ(second.sequences.size(), 1u);
  EXPECT_EQ(second.sequences[0].count, 5u);
}

TEST(Planner, HeldRequestsAreNotScheduledAndDoNotHoldUpOthers) {
  World world(settings(64, 4, 100, 8));
  const RequestId held = world.submit(3, 1);
  const RequestId other = world.submit(3, 1);
  world.schedule_.life(held).held = true;
  const Step step = world.plan();
  ASSERT_EQ(step.sequences.size(), 1u);
  EXPECT_EQ(step.sequences[0].request, other);
}

// --- Forced steps and drafts ---

bool forced(World& world, const std::vector<std::pair<RequestId, std::uint32_t>>& rows,
            std::string wanted_reason = "") {
  const FaultHook no_faults;
  const EventSink no_sink = [](trace::Event) {};
  PlanContext context{world.settings_, world.schedule_, world.cache_, no_faults, no_sink, 0};
  Step step;
  std::string reason;
  const bool planned = plan_forced(context, rows, step, reason);
  if (!wanted_reason.empty()) {
    EXPECT_EQ(reason, wanted_reason);
  }
  return planned;
}

TEST(Planner, AForcedStepIsAllThatWasAskedForOrNothing) {
  World world(settings(64, 4, 100, 8));
  const RequestId first = world.submit(3, 4), second = world.submit(3, 4);
  EXPECT_FALSE(forced(world, {{first, 3}, {second, 4}}));
  World again(settings(64, 4, 100, 8));
  again.submit(3, 4);
  again.submit(3, 4);
  EXPECT_FALSE(forced(again, {{first, 3}, {first, 1}}));
  World none(settings(64, 4, 100, 8));
  EXPECT_FALSE(forced(none, {}, "no rows"));
}

TEST(Planner, AForcedAdmissionRunsAsManyTokensAsWereAskedFor) {
  for (const std::uint32_t count : {1u, 2u, 3u}) {
    World world(settings(64, 4, 100, 8));
    const RequestId id = world.submit(3, 4);
    EXPECT_TRUE(forced(world, {{id, count}})) << count;
  }
}

TEST(Planner, WithSpeculationARequestIsForcedOnlyWhenItsTokensAreKnown) {
  trace::EngineSettings speculative = settings(64, 4, 100, 8);
  speculative.async_depth = 3;
  speculative.speculative = trace::SpeculativeSpec{2, trace::Acceptance::Rejection};
  World world(speculative);
  const RequestId id = world.submit(3, 8);
  const Step prompt = world.plan();
  EXPECT_FALSE(forced(world, {{id, 1}}));
  world.complete(prompt);
  EXPECT_TRUE(forced(world, {{id, 1}}));
}

TEST(Planner, DraftsAndTheTargetsOwnTokenFitTheContext) {
  trace::EngineSettings speculative = settings(64, 4, 100, 8);
  speculative.speculative = trace::SpeculativeSpec{8, trace::Acceptance::Rejection};
  speculative.max_model_len = 8;
  World world(speculative);
  world.submit(4, 20, 0, 20);
  world.complete(world.plan());  // 5 of 8 are known
  const Step verified = world.plan();
  ASSERT_EQ(verified.sequences.size(), 1u);
  EXPECT_EQ(verified.sequences[0].count, 3u);  // the last token and 2 drafts: 5 + 2 + 1 = 8
}

TEST(FutureSlots, ASlotIsTakenOnceUntilItComesBack) {
  FutureSlots slots;
  const std::uint32_t a = slots.take(), b = slots.take();
  EXPECT_NE(a, b);
  slots.put_back(a);
  EXPECT_EQ(slots.take(), a);
  EXPECT_EQ(slots.taken(), 2u);
}

}  // namespace
}  // namespace lockstep::engine
