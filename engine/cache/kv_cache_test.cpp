// KvCache: its laws as examples. kv_cache_state_test.cpp tries them on random sequences.
#include "engine/cache/kv_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace lockstep::engine {
namespace {

using trace::GroupType;
using trace::kNoBlock;
using trace::RequestId;
using trace::TokenId;
using Blocks = std::vector<BlockId>;
using Tokens = std::vector<TokenId>;

constexpr RequestId kA{1}, kB{2}, kC{3};

trace::EngineSettings settings_of(std::uint32_t block_size, std::uint32_t block_count,
                                  GroupType type = GroupType::FullAttention,
                                  std::uint32_t window = 0) {
  trace::EngineSettings settings;
  settings.groups[0].block_size = block_size;
  settings.groups[0].type = type;
  settings.groups[0].window = window;
  settings.pools[0].num_blocks = block_count;
  return settings;
}

Tokens text(std::uint32_t length) {
  Tokens tokens(length);
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

struct Cache : KvCache {
  explicit Cache(const trace::EngineSettings& settings)
      : KvCache(settings, [this](trace::Event event) { events.push_back(std::move(event)); }) {}
  std::vector<trace::Event> events;
  CacheOps ops;

  Growth grow(RequestId request, std::uint32_t first, std::uint32_t end) {
    ops = {};
    return reserve(request, first, end, {0}, {}, ops);
  }
  // Computes tokens [0, tokens.size()) of a new request in one step.
  void compute(RequestId request, const Tokens& tokens, const KeyScope& scope = {}) {
    open(request, scope);
    const auto end = static_cast<std::uint32_t>(tokens.size());
    const std::uint32_t hit = look_up(request, tokens, end - 1);
    ASSERT_EQ(grow(request, hit, end), Growth::Done);
    commit(request, tokens, end);
  }
  Blocks blocks(RequestId request, std::uint32_t group = 0) const {
    const auto span = table(request, group);
    return {span.begin(), span.end()};
  }
  template <class Kind>
  std::vector<Kind> of_kind() const {
    std::vector<Kind> result;
    for (const trace::Event& event : events) {
      if (const Kind* found = std::get_if<Kind>(&event)) result.push_back(*found);
    }
    return result;
  }
};

TEST(KvCache, ARequestHoldsExactlyTheBlocksThatItsTokensNeed) {
  Cache cache(settings_of(4, 8));
  cache.open(kA, {});
  ASSERT_EQ(cache.grow(kA, 0, 4), Growth::Done);  // full to the brim: bug X03
  EXPECT_EQ(cache.blocks(kA), (Blocks{{0}}));
  ASSERT_EQ(cache.grow(kA, 4, 5), Growth::Done);
  EXPECT_EQ(cache.blocks(kA), (Blocks{{0}, {1}}));
  ASSERT_EQ(cache.grow(kA, 5, 13), Growth::Done);
  EXPECT_EQ(cache.blocks(kA), (Blocks{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(cache.ops.fills.size(), 2u);
  cache.close(kA);
  EXPECT_EQ(cache.pool(0).free_queue(), (Blocks{{4}, {5}, {6}, {7}, {3}, {2}, {1}, {0}}));
}

TEST(KvCache, RefusalLeavesEverythingAsItWas) {
  trace::EngineSettings settings = settings_of(4, 8);
  settings.groups.push_back(settings.groups[0]);
  settings.pools.push_back({"small", 2});
  settings.groups[1].pool = 1;
  Cache cache(settings);
  cache.compute(kA, text(8));
  cache.release(kA);
  cache.open(kB, {});
  const base::Hash128 before = cache.pools_digest();
  const Blocks queue = cache.pool(0).free_queue();
  cache.events.clear();
  const Tokens tokens = text(30);
  ASSERT_EQ(cache.look_up(kB, tokens, 29), 8u);
  EXPECT_EQ(cache.pool(0).used_count(), 2u);          // pinned at once
  EXPECT_EQ(cache.grow(kB, 8, 12), Growth::Starved);  // the first pool could, the second can't
  cache.undo_look_up(kB);
  EXPECT_EQ(cache.pools_digest(), before);
  EXPECT_EQ(cache.pool(0).free_queue(), queue);
  EXPECT_TRUE(cache.blocks(kB).empty());
  EXPECT_TRUE(cache.events.empty());
  EXPECT_TRUE(cache.ops.fills.empty());
}

TEST(KvCache, AnInjectedFaultIsAskedOnceABlockAndChangesNothing) {
  Cache cache(settings_of(2, 8));
  cache.open(kA, {});
  const base::Hash128 before = cache.pools_digest();
  CacheOps ops;
  int calls = 0;
  const AllocationFault third = [&](std::uint32_t) { return ++calls == 3; };
  EXPECT_EQ(cache.reserve(kA, 0, 8, {0}, third, ops), Growth::Injected);
  EXPECT_EQ(cache.pools_digest(), before);
  EXPECT_EQ(cache.reserve(kA, 0, 8, {0}, third, ops), Growth::Done);
  EXPECT_EQ(calls, 3 + 4);
  EXPECT_EQ(cache.reserve(kA, 8, 40, {0}, third, ops), Growth::Starved);
  EXPECT_EQ(calls, 3 + 4);  // no block would have been handed out
}

TEST(KvCache, BlocksThatAreOnTheirWayMakeARefusalShort) {
  Cache cache(settings_of(4, 4));
  cache.compute(kA, text(12));
  const std::vector<std::pair<std::uint32_t, BlockId>> launch = {{0, {0}}, {0, {1}}, {0, {2}}};
  cache.begin_use(launch);
  cache.release(kA);
  cache.open(kB, {});
  EXPECT_EQ(cache.grow(kB, 0, 16), Growth::Short);
  EXPECT_EQ(cache.grow(kB, 0, 17), Growth::Starved);
  cache.end_use(launch);
  EXPECT_EQ(cache.grow(kB, 0, 16), Growth::Done);
  EXPECT_EQ(cache.blocks(kB), (Blocks{{3}, {2}, {1}, {0}}));
}

TEST(KvCache, AHitIsPinnedAtLookUp) {  // bug X01
  Cache cache(settings_of(4, 3));
  cache.compute(kC, text(4));
  cache.close(kC);
  cache.open(kA, {});
  const Tokens tokens = text(5);
  ASSERT_EQ(cache.look_up(kA, tokens, 4), 4u);
  cache.open(kB, {});
  EXPECT_EQ(cache.grow(kB, 0, 9), Growth::Starved);
  ASSERT_EQ(cache.grow(kA, 4, 5), Growth::Done);
  EXPECT_EQ(cache.blocks(kA), (Blocks{{0}, {1}}));
  EXPECT_EQ(cache.of_kind<trace::BlocksHit>().size(), 1u);
}

TEST(KvCache, AHitIsWholeBlocksAndLessThanTheLimit) {
  Cache cache(settings_of(4, 8));
  cache.compute(kA, text(11));
  const Tokens tokens = text(8);
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, tokens, 7), 4u);  // a full hit gives back its last block
  cache.undo_look_up(kB);
  EXPECT_EQ(cache.look_up(kB, text(12), 11), 8u);  // the third block is not full
  cache.undo_look_up(kB);
  Tokens other = text(12);
  other[5] = 77;
  EXPECT_EQ(cache.look_up(kB, text(12), 11), 8u);
  cache.close(kB);
  cache.open(kC, {});
  EXPECT_EQ(cache.look_up(kC, other, 11), 4u);
}

TEST(KvCache, NothingIsHitThatWasNotCommitted) {  // bug X14
  Cache cache(settings_of(4, 8));
  cache.open(kA, {});
  ASSERT_EQ(cache.grow(kA, 0, 12), Growth::Done);
  const Tokens tokens = text(12);
  cache.commit(kA, std::span(tokens).first(7), 7);
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, tokens, 11), 4u);
}

TEST(KvCache, ScopesDoNotShare) {  // bug X08
  Cache cache(settings_of(4, 8));
  KeyScope adapter, salt;
  adapter.adapter = 83;
  salt.salt = "S";
  cache.compute(kA, text(8), adapter);
  const Tokens tokens = text(8);
  cache.open(kB, salt);
  EXPECT_EQ(cache.look_up(kB, tokens, 7), 0u);
  cache.open(kC, adapter);
  EXPECT_EQ(cache.look_up(kC, tokens, 7), 4u);
}

TEST(KvCache, ABlockThatIsHandedOutIsFoundNoMore) {  // bug X10
  Cache cache(settings_of(4, 2));
  cache.compute(kA, text(8));
  cache.close(kA);
  cache.open(kB, {});
  ASSERT_EQ(cache.grow(kB, 0, 4), Growth::Done);  // block 1, A's last
  EXPECT_EQ(cache.of_kind<trace::KeyDropped>().size(), 1u);
  const Tokens tokens = text(9);
  cache.open(kC, {});
  EXPECT_EQ(cache.look_up(kC, tokens, 8), 4u);
}

TEST(KvCache, TheLastSharerWritesInPlaceTheOthersCopy) {  // bug X06
  Cache cache(settings_of(4, 4));
  cache.compute(kA, text(6));
  cache.fork(kA, kB, 6);
  EXPECT_EQ(cache.blocks(kB), (Blocks{{0}, {1}}));
  ASSERT_EQ(cache.grow(kA, 6, 7), Growth::Done);
  EXPECT_EQ(cache.blocks(kA), (Blocks{{0}, {2}}));
  ASSERT_EQ(cache.ops.copies.size(), 1u);
  EXPECT_EQ(cache.ops.copies[0].source, BlockId{1});
  EXPECT_EQ(cache.ops.copies[0].destination, BlockId{2});
  EXPECT_TRUE(cache.ops.fills.empty());  // the copy overwrites all of it
  ASSERT_EQ(cache.grow(kB, 6, 8), Growth::Done);
  EXPECT_EQ(cache.blocks(kB), (Blocks{{0}, {1}}));
  EXPECT_TRUE(cache.ops.copies.empty());
}

TEST(KvCache, AForkThatWentBackRewritesAPublishedBlockOnlyWithoutItsKey) {
  Cache cache(settings_of(4, 4));
  cache.compute(kA, text(8));
  cache.fork(kA, kB, 5);
  cache.close(kA);
  EXPECT_EQ(cache.evict(0, 4), Blocks{});  // both blocks are B's
  ASSERT_EQ(cache.grow(kB, 5, 8), Growth::Done);
  EXPECT_EQ(cache.blocks(kB), (Blocks{{0}, {1}}));
  EXPECT_EQ(cache.pool(0).key({1}), nullptr);
  EXPECT_EQ(cache.of_kind<trace::KeyDropped>().size(), 1u);
  Tokens changed = text(8);
  changed[6] = 99;
  cache.commit(kB, changed, 8);
  cache.open(kC, {});
  EXPECT_EQ(cache.look_up(kC, text(9), 8), 4u);
  cache.undo_look_up(kC);
  cache.close(kC);
  cache.open(kC, {});
  changed.push_back(9);
  EXPECT_EQ(cache.look_up(kC, changed, 8), 8u);
}

TEST(KvCache, AForkThatWentBackPublishesAgainInEveryGroup) {
  trace::EngineSettings settings = settings_of(4, 8);
  settings.groups.push_back(settings.groups[0]);
  Cache cache(settings);
  cache.compute(kA, text(8));
  cache.fork(kA, kB, 5);
  cache.close(kA);
  ASSERT_EQ(cache.grow(kB, 5, 8), Growth::Done);
  Tokens changed = text(8);
  changed[6] = 99;
  cache.commit(kB, changed, 8);
  cache.open(kC, {});
  changed.push_back(9);
  EXPECT_EQ(cache.look_up(kC, changed, 8), 8u);
}

TEST(KvCache, BlocksOutOfTheWindowGoBackLastFirst) {
  Cache cache(settings_of(2, 8, GroupType::SlidingWindow, 3));
  cache.compute(kA, text(8));
  cache.trim(kA, 8);  // position 8 sees 6, 7, 8
  EXPECT_EQ(cache.blocks(kA), (Blocks{kNoBlock, kNoBlock, kNoBlock, {3}}));
  EXPECT_EQ(cache.pool(0).free_queue(), (Blocks{{4}, {5}, {6}, {7}, {2}, {1}, {0}}));
  cache.trim(kA, 8);
  EXPECT_EQ(cache.of_kind<trace::BlocksReleased>().size(), 1u);
  ASSERT_EQ(cache.grow(kA, 8, 9), Growth::Done);
  EXPECT_EQ(cache.blocks(kA), (Blocks{kNoBlock, kNoBlock, kNoBlock, {3}, {4}}));
}

TEST(KvCache, AWindowHitNeedsOnlyTheBlocksThatTheWindowTouches) {
  Cache cache(settings_of(2, 8, GroupType::SlidingWindow, 3));
  const Tokens tokens = text(9);
  cache.compute(kA, text(8));
  cache.release(kA);
  ASSERT_EQ(cache.evict(0, 1), (Blocks{{3}}));  // released last block first
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, tokens, 8), 6u);
  EXPECT_EQ(cache.blocks(kB), (Blocks{kNoBlock, kNoBlock, {2}}));
}

TEST(KvCache, AHitIsValidInEveryGroup) {
  trace::EngineSettings settings = settings_of(2, 8);
  settings.pools.push_back({"other", 8});
  settings.groups.push_back(settings.groups[0]);
  settings.groups[1].block_size = 3;
  settings.groups[1].pool = 1;
  Cache cache(settings);
  const Tokens tokens = text(14);
  cache.compute(kA, text(13));
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, tokens, 13), 12u);
  cache.undo_look_up(kB);
  EXPECT_EQ(cache.look_up(kB, tokens, 11), 6u);
  cache.close(kB);
  cache.close(kA);
  EXPECT_EQ(cache.evict(1, 1), (Blocks{{3}}));  // positions 9 to 11
  cache.open(kC, {});
  EXPECT_EQ(cache.look_up(kC, tokens, 13), 6u);
}

TEST(KvCache, ARecurrentStateIsHitOnlyWhereALaunchEndedWithItsBlock) {  // bug X77
  trace::EngineSettings settings = settings_of(8, 8);
  settings.pools.push_back({"state", 8});
  settings.groups.push_back(settings.groups[0]);
  settings.groups[1].type = GroupType::Mamba;
  settings.groups[1].pool = 1;
  Cache cache(settings);
  const Tokens tokens = text(17);
  cache.open(kA, {});
  for (const auto& [first, end] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 6}, {6, 11}, {11, 16}}) {
    ASSERT_EQ(cache.grow(kA, first, end), Growth::Done);
    cache.commit(kA, std::span(tokens).first(end), end);
    if (end == 16) break;
    cache.open(kB, {});
    EXPECT_EQ(cache.look_up(kB, tokens, 16), 0u);
    cache.close(kB);
  }
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, tokens, 16), 16u);
  EXPECT_EQ(cache.blocks(kB, 0), (Blocks{{0}, {1}}));
  EXPECT_EQ(cache.blocks(kB, 1), (Blocks{kNoBlock, {1}}));
}

TEST(KvCache, WithoutPrefixCachingNothingIsPublished) {
  trace::EngineSettings settings = settings_of(4, 8);
  settings.enable_prefix_caching = false;
  Cache cache(settings);
  cache.compute(kA, text(9));
  EXPECT_TRUE(cache.of_kind<trace::BlockPublished>().empty());
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, text(9), 8), 0u);
}

TEST(KvCache, ResetForgetsBlocksInUseToo) {
  Cache cache(settings_of(4, 8));
  cache.compute(kA, text(9));
  cache.reset_prefix_cache();
  EXPECT_EQ(cache.of_kind<trace::KeyDropped>().size(), 2u);
  cache.open(kB, {});
  EXPECT_EQ(cache.look_up(kB, text(9), 8), 0u);
}

TEST(KvCache, AFillNamesEveryBlockHandedOutUnlessNoneIsWanted) {
  trace::EngineSettings settings = settings_of(4, 8);
  settings.fill_new_blocks = trace::BlockFill::None;
  Cache cache(settings);
  cache.open(kA, {});
  ASSERT_EQ(cache.grow(kA, 0, 9), Growth::Done);
  EXPECT_TRUE(cache.ops.fills.empty());
}

TEST(KvCache, UndoOfAnythingButTheLatestChangeIsABugOfTheCaller) {
  base::SubjectScope scope;
  Cache cache(settings_of(4, 8));
  cache.open(kA, {});
  cache.open(kB, {});
  EXPECT_THROW(cache.undo_look_up(kA), base::CheckFailure);
  cache.look_up(kA, text(5), 4);
  ASSERT_EQ(cache.grow(kB, 0, 4), Growth::Done);
  EXPECT_THROW(cache.undo_look_up(kA), base::CheckFailure);
  EXPECT_THROW(cache.open(kA, {}), base::CheckFailure);
  EXPECT_THROW(cache.table(kC, 0), base::CheckFailure);
}

TEST(KvCache, CountsArePoolByPool) {
  trace::EngineSettings settings = settings_of(4, 3);
  settings.pools.push_back({"other", 5});
  settings.groups.push_back(settings.groups[0]);
  settings.groups[1].pool = 1;
  Cache cache(settings);
  cache.compute(kA, text(4));
  cache.close(kA);
  cache.events.clear();
  cache.count_pools();
  const auto counted = cache.of_kind<trace::PoolCounted>();
  ASSERT_EQ(counted.size(), 2u);
  for (std::uint32_t pool = 0; pool < 2; ++pool) {
    EXPECT_EQ(counted[pool].pool, pool);
    EXPECT_EQ(counted[pool].free, settings.pools[pool].num_blocks - 1);
    EXPECT_EQ(counted[pool].evictable, 1u);
    EXPECT_EQ(counted[pool].used + counted[pool].reserved, 0u);
  }
}

TEST(KvCache, AWindowIsHeldWithTheSmallerOfBudgetAndChunk) {
  trace::EngineSettings settings = settings_of(2, 4, GroupType::SlidingWindow, 4);
  settings.max_num_batched_tokens = 64;
  settings.chunked_prefill_size = 4;  // 4 - 1 + 4 positions touch 4 blocks
  EXPECT_TRUE(Cache(settings).can_ever_hold(1000, 1000));
  settings.chunked_prefill_size = 64;
  EXPECT_FALSE(Cache(settings).can_ever_hold(1000, 1000));
  settings.max_num_batched_tokens = 4;
  EXPECT_TRUE(Cache(settings).can_ever_hold(1000, 1000));
}

TEST(KvCache, AnOutputThatSlidesOutOfTheWindowIsHeldInFewBlocks) {
  trace::EngineSettings settings = settings_of(4, 2, GroupType::SlidingWindow, 4);
  EXPECT_TRUE(Cache(settings).can_ever_hold(3, 1000));
  EXPECT_FALSE(Cache(settings).can_ever_hold(9, 1000));  // in one step
  // Behind a hit of 8 tokens, or computed again after all: as many as fit.
  EXPECT_EQ(Cache(settings).fitting(0, 1000), 8u);
  EXPECT_EQ(Cache(settings).fitting(6, 1000), 2u);
  EXPECT_EQ(Cache(settings).fitting(8, 1000), 4u);
  EXPECT_EQ(Cache(settings).fitting(8, 3), 3u);
  EXPECT_EQ(Cache(settings).fitting(8, 0), 0u);
  EXPECT_EQ(Cache(settings_of(4, 1, GroupType::SlidingWindow, 4)).fitting(5, 3), 0u);
}

// Whether a request runs alone in an empty cache, in the steps that `next` chooses of those left.
bool runs_alone(const trace::EngineSettings& settings, std::uint32_t token_count,
                const std::function<std::uint32_t(const KvCache&, std::uint32_t first)>& next) {
  KvCache cache(settings, {});
  cache.open(kA, {});
  for (std::uint32_t first = 0; first < token_count;) {
    const std::uint32_t end = first + next(cache, first);
    CacheOps ops;
    if (cache.reserve(kA, first, end, {0}, {}, ops) != Growth::Done) return false;
    first = end;
    cache.trim(kA, first);
  }
  return true;
}

// The request that runs alone as large steps take it, and in steps of one token, is the one that
// can be held; and then it runs in any steps that are cut to what fits.
RC_GTEST_PROP(KvCache, WhatCanBeHeldIsWhatRunsAlone, ()) {
  trace::EngineSettings settings;
  settings.groups.clear();
  settings.pools[0].num_blocks = *rc::gen::inRange<std::uint32_t>(1, 12);
  const int group_count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < group_count; ++i) {
    trace::GroupSpec group;
    group.type = *rc::gen::element(GroupType::FullAttention, GroupType::SlidingWindow,
                                   GroupType::SlidingWindow);
    group.block_size = *rc::gen::inRange<std::uint32_t>(1, 5);
    group.window = *rc::gen::inRange<std::uint32_t>(1, 9);
    settings.groups.push_back(group);
  }
  settings.max_num_batched_tokens = *rc::gen::inRange<std::uint32_t>(1, 9);
  settings.chunked_prefill_size = *rc::gen::inRange<std::uint32_t>(0, 5);
  settings.enable_chunked_prefill = *rc::gen::arbitrary<bool>();
  const auto prompt_count = *rc::gen::inRange<std::uint32_t>(1, 20);
  const auto token_count = prompt_count + *rc::gen::inRange<std::uint32_t>(0, 30);
  std::uint32_t most = settings.max_num_batched_tokens;
  if (settings.chunked_prefill_size > 0) most = std::min(most, settings.chunked_prefill_size);
  if (!settings.enable_chunked_prefill) most = token_count;

  const bool can = KvCache(settings, {}).can_ever_hold(prompt_count, token_count);
  const bool in_large_steps = runs_alone(settings, token_count, [&](auto&, std::uint32_t first) {
    return first < prompt_count ? std::min(most, prompt_count - first) : 1;
  });
  const bool one_by_one = runs_alone(settings, token_count, [](auto&, std::uint32_t) { return 1; });
  RC_ASSERT(can == (in_large_steps && one_by_one));
  if (!can) return;
  RC_ASSERT(runs_alone(settings, token_count, [&](const KvCache& cache, std::uint32_t first) {
    const auto wished = *rc::gen::inRange<std::uint32_t>(1, token_count - first + 1);
    return cache.fitting(first, wished);
  }));
}

}  // namespace
}  // namespace lockstep::engine
