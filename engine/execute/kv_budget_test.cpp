// The budget: what it gives fits, one block more does not, and a refusal says the bytes.
#include "engine/execute/kv_budget.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace lockstep::engine {
namespace {

KvBudget small() {
  KvBudget budget;
  budget.total_bytes = 100000;
  budget.free_bytes = 60000;
  budget.step_bytes = 10000;
  budget.buffers = 4;
  budget.block_bytes = 1000;
  budget.overhead_bytes = 500;
  budget.blocks_needed = 1000;
  return budget;
}

TEST(KvBudget, AllThatIsFreeLessTheLargestStep) {
  // 50000 in 4 buffers: 12500 each, 500 of them overhead.
  EXPECT_EQ(kv_blocks(small()).value(), 12u);
}

TEST(KvBudget, TheUtilizationIsOfTheWholeDevice) {
  KvBudget budget = small();
  budget.utilization = 0.9;  // 90000, of which 40000 are used: 40000 after the step
  EXPECT_EQ(kv_blocks(budget).value(), 9u);
}

TEST(KvBudget, NoMoreThanTheRequestsCanUse) {
  KvBudget budget = small();
  budget.blocks_needed = 5;
  EXPECT_EQ(kv_blocks(budget).value(), 5u);
}

TEST(KvBudget, AWantedNumberIsTakenOrRefused) {
  KvBudget budget = small();
  budget.utilization = 0.5;  // a rule for what nobody asked for
  budget.blocks_needed = 1;
  budget.blocks_wanted = 12;
  EXPECT_EQ(kv_blocks(budget).value(), 12u);
  budget.blocks_wanted = 13;
  const auto refused = kv_blocks(budget);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().exit_status(), 4);
  EXPECT_EQ(refused.error().message(),
            "KV pool: 64000 bytes are wanted, 54000 for a pool of 13 blocks and 10000 for the "
            "largest step; 60000 are free");
}

TEST(KvBudget, WithoutRoomForOneBlockItIsRefused) {
  KvBudget budget = small();
  budget.free_bytes = budget.step_bytes + 4 * 1500;
  EXPECT_EQ(kv_blocks(budget).value(), 1u);
  --budget.free_bytes;
  EXPECT_FALSE(kv_blocks(budget).ok());
  budget = small();
  budget.utilization = 0.5;
  const auto refused = kv_blocks(budget);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(),
            "KV pool: 16000 bytes are wanted, 6000 for a pool of 1 block and 10000 for the largest "
            "step; 60000 are free, of which the utilization leaves 10000");
}

TEST(KvBudget, SizesThatOverflowDoNotFit) {
  KvBudget budget = small();
  budget.blocks_wanted = ~0u;
  budget.block_bytes = std::uint64_t{1} << 40;
  EXPECT_FALSE(kv_blocks(budget).ok());
  budget = small();
  budget.step_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(kv_blocks(budget).ok());
}

RC_GTEST_PROP(KvBudget, WhatItGivesFitsAndOneMoreDoesNot, ()) {
  KvBudget budget;
  budget.total_bytes = *rc::gen::inRange<std::uint64_t>(1, 1 << 20);
  budget.free_bytes = *rc::gen::inRange<std::uint64_t>(0, budget.total_bytes + 1);
  budget.utilization = *rc::gen::inRange(1, 101) / 100.0;
  budget.step_bytes = *rc::gen::inRange<std::uint64_t>(0, 1 << 16);
  budget.buffers = *rc::gen::inRange<std::uint64_t>(1, 9);
  budget.block_bytes = *rc::gen::inRange<std::uint64_t>(1, 5000);
  budget.overhead_bytes = *rc::gen::inRange<std::uint64_t>(0, 600);
  budget.blocks_needed = *rc::gen::inRange<std::uint32_t>(1, 200);
  const std::uint64_t used = budget.total_bytes - budget.free_bytes;
  const auto fits = [&](std::uint64_t blocks) {
    const std::uint64_t all =
        used + budget.step_bytes +
        budget.buffers * (blocks * budget.block_bytes + budget.overhead_bytes);
    return all <= budget.total_bytes &&
           static_cast<double>(all) <= static_cast<double>(budget.total_bytes) * budget.utilization;
  };
  const auto blocks = kv_blocks(budget);
  RC_ASSERT(blocks.ok() == fits(1));
  if (!blocks.ok()) return;
  RC_ASSERT(*blocks >= 1 && *blocks <= budget.blocks_needed && fits(*blocks));
  RC_ASSERT(*blocks == budget.blocks_needed || !fits(*blocks + 1));
}

}  // namespace
}  // namespace lockstep::engine
