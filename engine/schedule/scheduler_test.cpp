#include "engine/schedule/scheduler.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

RequestState request(std::uint32_t id, std::size_t prompt, std::uint32_t max_tokens) {
  RequestState state;
  state.id = {id};
  state.spec.prompt.assign(prompt, 7);
  state.spec.max_tokens = max_tokens;
  state.tokens = state.spec.prompt;
  return state;
}

void ignore(trace::Event) {}

TEST(Scheduler, CutsPromptsByChunkSizeAndBudget) {
  trace::EngineSettings settings;
  settings.chunked_prefill_size = 3;
  settings.max_num_batched_tokens = 5;
  KvPages pages(64, 4);
  SchedulerState state;
  state.waiting.push_back(request(0, 7, 2));
  state.waiting.push_back(request(1, 7, 2));
  const StepPlan plan = plan_step(state, pages, settings, ignore);
  ASSERT_EQ(plan.prefill.size(), 2u);
  EXPECT_EQ(plan.prefill[0].tokens.size(), 3u);
  EXPECT_EQ(plan.prefill[1].tokens.size(), 2u);
  EXPECT_FALSE(plan.prefill[0].samples);
  EXPECT_TRUE(plan.decode.empty());
  const StepPlan next = plan_step(state, pages, settings, ignore);
  EXPECT_EQ(next.prefill[0].first_position, 3u);
  EXPECT_EQ(next.prefill[1].first_position, 2u);
}

TEST(Scheduler, OnlyTheLastChunkOfAPromptSamples) {
  trace::EngineSettings settings;
  settings.chunked_prefill_size = 4;
  KvPages pages(64, 4);
  SchedulerState state;
  state.waiting.push_back(request(0, 6, 2));
  EXPECT_FALSE(plan_step(state, pages, settings, ignore).prefill[0].samples);
  EXPECT_TRUE(plan_step(state, pages, settings, ignore).prefill[0].samples);
}

TEST(Scheduler, AdmitsOnlyWhatThePoolCanHoldAtItsLongest) {
  const trace::EngineSettings settings;
  KvPages pages(3, 4);
  SchedulerState state;
  state.waiting.push_back(request(0, 5, 4));  // at most 8 tokens: 2 pages
  state.waiting.push_back(request(1, 5, 1));  // 5 tokens: 2 pages
  state.waiting.push_back(request(2, 1, 1));  // would fit, but first come is first served
  plan_step(state, pages, settings, ignore);
  EXPECT_EQ(state.running.size(), 1u);
  retire(state, pages, {0}, "length", ignore);
  EXPECT_EQ(pages.used_count(), 0u);
  plan_step(state, pages, settings, ignore);
  EXPECT_EQ(state.running.size(), 2u);
}

TEST(Scheduler, RefusesWhatCanNeverRun) {
  const trace::EngineSettings settings;
  const KvPages pages(2, settings.block_size);
  const auto spec = [](std::size_t prompt, std::uint32_t tokens) {
    return request(0, prompt, tokens).spec;
  };
  EXPECT_EQ(refusal(spec(32, 1), settings, pages, 100), "");
  EXPECT_EQ(refusal(spec(32, 2), settings, pages, 100), "kv_capacity");
  EXPECT_EQ(refusal(spec(32, 1), settings, pages, 31), "context_length");
  EXPECT_EQ(refusal(spec(0, 1), settings, pages, 100), "invalid");
  EXPECT_EQ(refusal(spec(1, 0), settings, pages, 100), "invalid");
}

}  // namespace
}  // namespace lockstep::engine
