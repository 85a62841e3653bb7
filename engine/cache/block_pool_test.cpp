// BlockPool: its laws as examples, and random command sequences beside a simple model.
#include "engine/cache/block_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rapidcheck/state.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/check.h"
#include "engine/cache/pool_model_test.h"

namespace lockstep::engine {
namespace {

// The same cases in every run; more of them: RC_PARAMS="seed=1 max_success=10000".
[[maybe_unused]] const int kSeeded = ::setenv("RC_PARAMS", "seed=20240811 max_success=1000", 0);

BlockKey key_of(std::uint64_t number) { return {{0, number}, {7 * number, 1}}; }

TEST(BlockPool, HandsOutFromTheHeadAndTakesBackAtTheTailInTheOrderOfRelease) {
  BlockPool pool(4);
  EXPECT_EQ(pool.free_queue(), (Blocks{{0}, {1}, {2}, {3}}));
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(pool.take(), BlockId{i});
  pool.unpin(Blocks{{2}, {0}});
  EXPECT_EQ(pool.free_queue(), (Blocks{{3}, {2}, {0}}));
  EXPECT_EQ(pool.used_count(), 1u);
}

TEST(BlockPool, AKeyStaysWithAFreeBlockUntilItIsHandedOut) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  ASSERT_TRUE(pool.publish(block, key_of(1)));
  pool.unpin(block);
  EXPECT_EQ(pool.evictable_count(), 1u);
  EXPECT_EQ(pool.find(key_of(1)), block);
  bool dropped = true;
  EXPECT_EQ(pool.take(&dropped), BlockId{1});
  EXPECT_FALSE(dropped);
  EXPECT_EQ(pool.find(key_of(1)), block);
  EXPECT_EQ(pool.take(&dropped), block);
  EXPECT_TRUE(dropped);
  EXPECT_EQ(pool.find(key_of(1)), std::nullopt);
  EXPECT_EQ(pool.key(block), nullptr);
}

TEST(BlockPool, APinnedBlockIsNotHandedOut) {  // bug X01
  BlockPool pool(2);
  const BlockId block = pool.take();
  ASSERT_TRUE(pool.publish(block, key_of(1)));
  pool.unpin(block);
  pool.pin(block);
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_EQ(pool.take(), BlockId{1});
  EXPECT_EQ(pool.find(key_of(1)), block);
}

TEST(BlockPool, ABlockInFlightIsReservedAndJoinsTheQueueInTheOrderOfItsRelease) {
  BlockPool pool(4);
  for (int i = 0; i < 4; ++i) pool.take();
  for (const std::uint32_t i : {0u, 1u, 2u}) pool.begin_use({i});
  pool.begin_use({1});
  pool.unpin(Blocks{{2}, {0}, {1}, {3}});
  EXPECT_EQ(pool.reserved(), (Blocks{{2}, {0}, {1}}));
  EXPECT_EQ(pool.free_queue(), (Blocks{{3}}));
  // Both end before either joins, so the order is that of the release, not of the ends.
  for (const std::uint32_t i : {0u, 1u, 2u}) pool.end_one_use({i});
  pool.queue_ended();
  EXPECT_EQ(pool.free_queue(), (Blocks{{3}, {2}, {0}}));
  EXPECT_EQ(pool.reserved(), (Blocks{{1}}));
  pool.end_use({1});
  EXPECT_EQ(pool.free_queue(), (Blocks{{3}, {2}, {0}, {1}}));
}

TEST(BlockPool, AReservedBlockThatIsPinnedIsUsedAgain) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  ASSERT_TRUE(pool.publish(block, key_of(1)));
  pool.begin_use(block);
  pool.unpin(block);
  EXPECT_EQ(pool.evictable_count(), 0u);
  pool.pin(block);
  EXPECT_EQ(pool.reserved_count(), 0u);
  pool.end_use(block);
  EXPECT_EQ(pool.count(block), 1u);
  EXPECT_EQ(pool.available(), 1u);
}

TEST(BlockPool, OneKeyNamesOneBlock) {
  BlockPool pool(3);
  const BlockId first = pool.take(), second = pool.take();
  ASSERT_TRUE(pool.publish(first, key_of(1)));
  EXPECT_FALSE(pool.publish(second, key_of(1)));
  EXPECT_FALSE(pool.publish(first, key_of(2)));
  EXPECT_EQ(pool.key(second), nullptr);
  EXPECT_EQ(pool.find(key_of(1)), first);
  EXPECT_EQ(pool.find(key_of(2)), std::nullopt);
}

TEST(BlockPool, KeysThatAgreeInTheKeptBitsCostHitsButNeverGiveAWrongOne) {
  BlockPool pool(3, 8);
  const BlockKey key{{1, 0x100}, {2, 3}}, other{{9, 0x200}, {8, 7}};
  const BlockId first = pool.take(), second = pool.take();
  ASSERT_TRUE(pool.publish(first, key));
  EXPECT_EQ(pool.find(other), std::nullopt);
  EXPECT_FALSE(pool.publish(second, other));
  pool.drop_key(first);
  EXPECT_TRUE(pool.publish(second, other));
  EXPECT_EQ(pool.find(key), std::nullopt);
}

TEST(BlockPool, TheWholeOfTheKeptBitsCounts) {
  for (const std::uint32_t bits : {8u, 64u, 65u, 128u, 200u, 256u}) {
    const std::array<std::uint64_t, 4> low_to_high = {0, 64, 128, 192};
    for (std::size_t word = 0; word < 4; ++word) {
      BlockPool pool(2, bits);
      BlockKey key{{5, 6}, {7, 8}}, other = key;
      std::uint64_t* words[] = {&other.first.low, &other.first.high, &other.second.low,
                                &other.second.high};
      *words[word] ^= 1;
      ASSERT_TRUE(pool.publish(pool.take(), key));
      EXPECT_EQ(pool.publish(pool.take(), other), bits > low_to_high[word]) << bits << " " << word;
    }
  }
}

TEST(BlockPool, TheHighestKeptBitOfAWordCounts) {
  for (const std::uint32_t bits : {8u, 63u, 64u}) {
    BlockPool pool(2, bits);
    BlockKey key{{5, 6}, {7, 8}}, other = key;
    other.first.low ^= std::uint64_t{1} << 63;
    if (bits < 64) other.first.low = key.first.low ^ (std::uint64_t{1} << (bits - 1));
    ASSERT_TRUE(pool.publish(pool.take(), key));
    EXPECT_TRUE(pool.publish(pool.take(), other)) << bits;
  }
}

TEST(BlockPool, EvictionDropsKeysInQueueOrderAndMovesNothing) {
  BlockPool pool(4);
  for (std::uint32_t i = 0; i < 4; ++i) pool.take();
  for (const std::uint32_t i : {0u, 2u, 3u}) ASSERT_TRUE(pool.publish({i}, key_of(i)));
  pool.unpin(Blocks{{3}, {1}, {0}});
  EXPECT_EQ(pool.evict(1), (Blocks{{3}}));
  EXPECT_EQ(pool.free_queue(), (Blocks{{3}, {1}, {0}}));
  EXPECT_EQ(pool.evict(5), (Blocks{{0}}));
  EXPECT_EQ(pool.find(key_of(2)), BlockId{2});  // in use: not evictable
}

TEST(BlockPool, UndoRestoresTheQueueAndTheDigest) {
  BlockPool pool(5);
  for (int i = 0; i < 2; ++i) pool.take();
  pool.begin_use({1});
  pool.unpin({1});
  const base::Hash128 before = pool.digest();
  std::vector<BlockPool::Pinned> pins;
  for (const std::uint32_t i : {0u, 3u, 2u, 1u, 4u, 3u}) pins.push_back(pool.pin({i}));
  EXPECT_NE(pool.digest(), before);
  for (; !pins.empty(); pins.pop_back()) pool.undo(pins.back());
  EXPECT_EQ(pool.digest(), before);
  EXPECT_EQ(pool.free_queue(), (Blocks{{2}, {3}, {4}}));
  EXPECT_EQ(pool.reserved(), (Blocks{{1}}));
}

TEST(BlockPool, TheDigestCountsTheOrderOfAllReservedBlocks) {
  const auto released = [](const Blocks& order) {
    BlockPool pool(4);
    for (int i = 0; i < 4; ++i) pool.take();
    for (const std::uint32_t i : {0u, 1u, 2u}) pool.begin_use({i});
    pool.unpin(order);
    return pool.digest();
  };
  EXPECT_EQ(released(Blocks{{0}, {1}, {2}}), released(Blocks{{0}, {1}, {2}}));
  EXPECT_NE(released(Blocks{{0}, {1}, {2}}), released(Blocks{{0}, {2}, {1}}));
}

TEST(BlockPool, WhatTheStateForbidsIsABugOfTheCaller) {
  base::SubjectScope scope;
  BlockPool pool(1);
  EXPECT_THROW(pool.unpin({0}), base::CheckFailure);
  EXPECT_THROW(pool.end_use({0}), base::CheckFailure);
  EXPECT_THROW(pool.pin({1}), base::CheckFailure);
  pool.take();
  EXPECT_THROW(pool.take(), base::CheckFailure);
}

// --- Beside a model ---

void expect_equal(const BlockPool& pool, const PoolModel& model) {
  RC_ASSERT(pool.free_queue() == Blocks(model.queue.begin(), model.queue.end()));
  RC_ASSERT(pool.reserved() == model.reserved);
  std::uint32_t used = 0, evictable = 0;
  for (std::uint32_t i = 0; i < model.blocks.size(); ++i) {
    const ModelBlock& block = model.blocks[i];
    used += block.count > 0;
    RC_ASSERT(pool.count({i}) == block.count);
    RC_ASSERT(pool.uses({i}) == block.uses);
    RC_ASSERT((pool.key({i}) != nullptr) == block.key.has_value());
    if (block.key) RC_ASSERT(*pool.key({i}) == key_of(*block.key));
  }
  for (const BlockId block : model.queue) evictable += model.blocks[block.value].key.has_value();
  RC_ASSERT(pool.used_count() == used);
  RC_ASSERT(pool.evictable_count() == evictable);
  RC_ASSERT(pool.reserved_count() == model.reserved.size());
  RC_ASSERT(pool.free_count() + evictable == model.queue.size());
  RC_ASSERT(pool.available() == model.queue.size());
  RC_ASSERT(pool.free_count() + pool.evictable_count() + pool.used_count() +
                pool.reserved_count() ==
            pool.block_count());
  for (std::uint64_t key = 0; key < 6; ++key) {
    RC_ASSERT(pool.find(key_of(key)) == model.find(key));
  }
}

using Command = rc::state::Command<PoolModel, BlockPool>;

struct Take : Command {
  void checkPreconditions(const PoolModel& model) const override { RC_PRE(!model.queue.empty()); }
  void apply(PoolModel& model) const override { model.take(); }
  void run(const PoolModel& model, BlockPool& pool) const override {
    Blocks next;
    pool.peek(1, next);
    bool dropped = false;
    const bool had_key = model.blocks[model.queue.front().value].key.has_value();
    RC_ASSERT(pool.take(&dropped) == model.queue.front());
    RC_ASSERT(next == Blocks{model.queue.front()});
    RC_ASSERT(dropped == had_key);
    expect_equal(pool, nextState(model));
  }
  void show(std::ostream& stream) const override { stream << "take"; }
};

// The others name one block, and sometimes a key or a second block.
struct OfBlock : Command {
  BlockId block;
  explicit OfBlock(const PoolModel& model)
      : block{
            *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(model.blocks.size()))} {}
  void show(std::ostream& stream) const override { stream << name() << " " << block.value; }
  virtual const char* name() const = 0;
};

struct Pin : OfBlock {
  using OfBlock::OfBlock;
  void apply(PoolModel& model) const override { model.pin(block); }
  void run(const PoolModel& model, BlockPool& pool) const override {
    const base::Hash128 before = pool.digest();
    pool.undo(pool.pin(block));
    expect_equal(pool, model);
    RC_ASSERT(pool.digest() == before);
    pool.pin(block);
    expect_equal(pool, nextState(model));
    RC_ASSERT(pool.digest() != before);
  }
  const char* name() const override { return "pin"; }
};

struct Unpin : Command {
  Blocks blocks;
  explicit Unpin(const PoolModel& model) {
    for (std::uint32_t i = 0; i < model.blocks.size(); ++i) {
      if (*rc::gen::inRange(0, 3) == 0) blocks.push_back({i});
    }
    if (*rc::gen::arbitrary<bool>()) std::reverse(blocks.begin(), blocks.end());
  }
  void checkPreconditions(const PoolModel& model) const override {
    RC_PRE(!blocks.empty());
    for (const BlockId block : blocks) RC_PRE(model.blocks[block.value].count > 0);
  }
  void apply(PoolModel& model) const override { model.unpin(blocks); }
  void run(const PoolModel& model, BlockPool& pool) const override {
    pool.unpin(blocks);
    expect_equal(pool, nextState(model));
  }
  void show(std::ostream& stream) const override {
    stream << "unpin";
    for (const BlockId block : blocks) stream << " " << block.value;
  }
};

struct BeginUse : OfBlock {
  using OfBlock::OfBlock;
  void checkPreconditions(const PoolModel& model) const override {
    RC_PRE(model.blocks[block.value].count > 0);
  }
  void apply(PoolModel& model) const override { ++model.blocks[block.value].uses; }
  void run(const PoolModel& model, BlockPool& pool) const override {
    pool.begin_use(block);
    expect_equal(pool, nextState(model));
  }
  const char* name() const override { return "begin_use"; }
};

// All launches end that use any block below `block`: a launch's blocks end together.
struct EndUses : OfBlock {
  using OfBlock::OfBlock;
  void apply(PoolModel& model) const override {
    for (std::uint32_t i = 0; i < block.value; ++i) {
      if (model.blocks[i].uses > 0) --model.blocks[i].uses;
    }
    model.queue_ended();
  }
  void run(const PoolModel& model, BlockPool& pool) const override {
    bool due = false;
    for (std::uint32_t i = 0; i < block.value; ++i) {
      if (model.blocks[i].uses > 0) due |= pool.end_one_use({i});
    }
    if (due) pool.queue_ended();
    expect_equal(pool, nextState(model));
  }
  const char* name() const override { return "end_uses"; }
};

struct Publish : OfBlock {
  std::uint64_t key;
  explicit Publish(const PoolModel& model)
      : OfBlock(model), key(*rc::gen::inRange<std::uint64_t>(0, 6)) {}
  void apply(PoolModel& model) const override { model.publish(block, key); }
  void run(const PoolModel& model, BlockPool& pool) const override {
    const base::Hash128 before = pool.digest();
    PoolModel next = model;
    const bool accepted = next.publish(block, key);
    RC_ASSERT(pool.can_publish(block, key_of(key)) == accepted);
    RC_ASSERT(pool.publish(block, key_of(key)) == accepted);
    RC_ASSERT((pool.digest() == before) == !accepted);
    expect_equal(pool, next);
  }
  const char* name() const override { return "publish"; }
  void show(std::ostream& stream) const override {
    stream << "publish " << block.value << " as " << key;
  }
};

struct DropKey : OfBlock {
  using OfBlock::OfBlock;
  void apply(PoolModel& model) const override { model.drop(block); }
  void run(const PoolModel& model, BlockPool& pool) const override {
    pool.drop_key(block);
    expect_equal(pool, nextState(model));
  }
  const char* name() const override { return "drop_key"; }
};

struct Evict : Command {
  std::uint32_t count = *rc::gen::inRange<std::uint32_t>(0, 4);
  void apply(PoolModel& model) const override { model.evict(count); }
  void run(const PoolModel& model, BlockPool& pool) const override {
    PoolModel next = model;
    RC_ASSERT(pool.evict(count) == next.evict(count));
    expect_equal(pool, next);
  }
  void show(std::ostream& stream) const override { stream << "evict " << count; }
};

void check_pool(PoolPolicy policy, std::uint32_t key_bits) {
  const auto block_count = *rc::gen::inRange<std::uint32_t>(1, 9);
  const PoolModel model(block_count, policy);
  BlockPool pool(block_count, key_bits, policy);
  rc::state::check(model, pool,
                   rc::state::gen::execOneOfWithArgs<Take, Take, Pin, Unpin, Unpin, BeginUse,
                                                     EndUses, Publish, Publish, DropKey, Evict>());
}

RC_GTEST_PROP(BlockPool, DoesWhatTheModelDoes, ()) { check_pool({}, 256); }
RC_GTEST_PROP(BlockPool, DoesWhatTheModelDoesWithFewKeptBits, ()) { check_pool({}, 8); }
RC_GTEST_PROP(BlockPool, DoesWhatTheModelDoesUnderOtherPolicies, ()) {
  check_pool({*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>()}, 256);
}

// Two pasts that lead to one state have one digest; it is no count of operations.
RC_GTEST_PROP(BlockPool, TheDigestIsAFunctionOfTheState, ()) {
  const auto block_count = *rc::gen::inRange<std::uint32_t>(2, 8);
  const auto taken = *rc::gen::inRange<std::uint32_t>(1, block_count);
  BlockPool direct(block_count), detour(block_count);
  for (std::uint32_t i = 0; i < taken; ++i) direct.take();
  for (std::uint32_t i = 0; i < block_count; ++i) detour.take();
  for (std::uint32_t i = taken; i < block_count; ++i) {
    const base::Hash128 before = detour.digest();
    RC_ASSERT(detour.publish({i}, key_of(i)));
    RC_ASSERT(detour.digest() != before);
    detour.drop_key({i});
    RC_ASSERT(detour.digest() == before);
    detour.unpin({i});
  }
  RC_ASSERT(detour.digest() == direct.digest());
}

}  // namespace
}  // namespace lockstep::engine
