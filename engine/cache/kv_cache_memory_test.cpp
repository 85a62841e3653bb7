// Host memory that runs out at any allocation of any call leaves the KV cache as it was.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <numeric>

#include "engine/cache/kv_cache.h"

namespace {

// Which allocation from here on fails; negative: none.
long allocations_left = -1;

void* allocate(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::engine {
namespace {

constexpr trace::RequestId kA{1}, kB{2}, kC{3};

trace::EngineSettings two_groups() {
  trace::EngineSettings settings;
  settings.groups[0].block_size = 2;
  settings.groups.push_back(settings.groups[0]);
  settings.groups[1].type = trace::GroupType::SlidingWindow;
  settings.groups[1].window = 4;
  settings.pools[0].num_blocks = 40;
  return settings;
}

std::vector<trace::TokenId> text(std::uint32_t length) {
  std::vector<trace::TokenId> tokens(length);
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

struct State {
  base::Hash128 pools;
  std::vector<std::vector<BlockId>> tables;
  friend bool operator==(const State&, const State&) = default;
};

State state_of(const KvCache& cache) {
  State state{cache.pools_digest(), {}};
  for (const trace::RequestId request : {kA, kB, kC}) {
    for (std::uint32_t g = 0; cache.is_open(request) && g < cache.group_count(); ++g) {
      const auto table = cache.table(request, g);
      state.tables.emplace_back(table.begin(), table.end());
    }
  }
  return state;
}

// Lets each allocation of `call` fail, one after the other, until none does: `prepare` makes the
// cache it works on. The sink takes events without memory of its own.
template <class Prepare, class Call>
void fails_without_a_trace(const Prepare& prepare, const Call& call) {
  for (long fail_at = 0;; ++fail_at) {
    ASSERT_LT(fail_at, 200);
    KvCache cache(two_groups(), [](const trace::Event&) {});
    prepare(cache);
    const State before = state_of(cache);
    bool failed = false;
    allocations_left = fail_at;
    try {
      call(cache);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    allocations_left = -1;
    if (!failed) {
      EXPECT_GT(fail_at, 0);
      return;
    }
    ASSERT_EQ(state_of(cache), before) << "allocation " << fail_at;
    call(cache);  // and then it works
  }
}

void compute(KvCache& cache, trace::RequestId request, std::uint32_t end) {
  const auto tokens = text(end);
  cache.open(request, {});
  CacheOps ops;
  ASSERT_EQ(cache.reserve(request, 0, end, {0}, {}, ops), Growth::Done);
  cache.commit(request, tokens, end);
}

TEST(KvCache, HostMemoryThatRunsOutInReserveLeavesEverythingAsItWas) {
  fails_without_a_trace(
      [](KvCache& cache) {
        compute(cache, kA, 7);
        cache.fork(kA, kB, 7);
        cache.evict(0, 1);
      },
      [](KvCache& cache) {  // copies one block of each group and takes new ones
        CacheOps ops;
        ASSERT_EQ(cache.reserve(kB, 7, 20, {0}, {}, ops), Growth::Done);
        ASSERT_EQ(ops.copies.size(), 2u);
      });
}

TEST(KvCache, HostMemoryThatRunsOutInLookUpLeavesEverythingAsItWas) {
  const auto tokens = text(9);
  fails_without_a_trace(
      [](KvCache& cache) {
        compute(cache, kA, 8);
        cache.close(kA);
        cache.open(kB, {});
      },
      [&tokens](KvCache& cache) { ASSERT_EQ(cache.look_up(kB, tokens, 8), 8u); });
}

TEST(KvCache, HostMemoryThatRunsOutInForkTrimOrReleaseLeavesEverythingAsItWas) {
  const auto prepare = [](KvCache& cache) { compute(cache, kA, 9); };
  fails_without_a_trace(prepare, [](KvCache& cache) { cache.fork(kA, kB, 9); });
  fails_without_a_trace(prepare, [](KvCache& cache) { cache.trim(kA, 9); });
  fails_without_a_trace(prepare, [](KvCache& cache) { cache.release(kA); });
}

}  // namespace
}  // namespace lockstep::engine
