#include "engine/cache/kv_pages.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

namespace lockstep::engine {
namespace {

using trace::PageId;
using trace::RequestId;

TEST(KvPages, HandsOutFromTheHeadAndTakesBackAtTheTailLastPageFirst) {
  KvPages pages(4, 2);
  ASSERT_TRUE(pages.grow({1}, 4));  // pages 0, 1
  ASSERT_TRUE(pages.grow({2}, 2));  // page 2
  EXPECT_EQ(pages.slot({1}, 3), 3u);
  EXPECT_EQ(pages.slot({2}, 1), 5u);
  EXPECT_EQ(pages.release({1}), (std::vector<PageId>{{1}, {0}}));
  std::vector<PageId> taken;
  ASSERT_TRUE(pages.grow({3}, 6, &taken));
  EXPECT_EQ(taken, (std::vector<PageId>{{3}, {1}, {0}}));
}

TEST(KvPages, RefusalLeavesEverythingAsItWas) {
  KvPages pages(3, 4);
  ASSERT_TRUE(pages.grow({1}, 5));
  std::vector<PageId> taken;
  EXPECT_FALSE(pages.grow({2}, 5, &taken));
  EXPECT_TRUE(taken.empty());
  EXPECT_TRUE(pages.table({2}).empty());
  EXPECT_FALSE(pages.grow({1}, 13));
  EXPECT_EQ(pages.table({1}).size(), 2u);
  EXPECT_EQ(pages.free_count(), 1u);
  ASSERT_TRUE(pages.grow({2}, 4, &taken));
  EXPECT_EQ(taken, (std::vector<PageId>{{2}}));
}

RC_GTEST_PROP(KvPages, EveryPageIsFreeOrHasOneOwnerAfterAnyOperations, ()) {
  const auto page_count = *rc::gen::inRange<std::uint32_t>(1, 12);
  const auto page_size = *rc::gen::inRange<std::uint32_t>(1, 5);
  KvPages pages(page_count, page_size);
  std::map<RequestId, std::uint64_t> lengths;  // the model: tokens that each request has room for
  const auto steps = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(
      rc::gen::pair(rc::gen::inRange<std::uint32_t>(0, 4), rc::gen::inRange<std::uint32_t>(0, 30)));
  for (const auto& [id, amount] : steps) {
    const RequestId request{id};
    if (amount == 0) {
      pages.release(request);
      lengths.erase(request);
    } else {
      std::uint32_t others = 0;
      for (const auto& [other, length] : lengths) {
        if (other != request) others += pages.pages_for(length);
      }
      const std::uint64_t wanted = std::max<std::uint64_t>(amount, lengths[request]);
      const bool fits = others + pages.pages_for(wanted) <= page_count;
      RC_ASSERT(pages.grow(request, amount) == fits);
      if (fits) lengths[request] = wanted;
      if (lengths[request] == 0) lengths.erase(request);
    }
    std::set<PageId> owned;
    std::size_t held = 0;
    for (const auto& [owner, length] : lengths) {
      RC_ASSERT(pages.table(owner).size() == pages.pages_for(length));
      owned.insert(pages.table(owner).begin(), pages.table(owner).end());
      held += pages.table(owner).size();
    }
    RC_ASSERT(owned.size() == held);
    RC_ASSERT(pages.free_count() + held == page_count);
  }
}

}  // namespace
}  // namespace lockstep::engine
