// KvCache beside the model of kv_model_test.h: random admissions, launches in flight, forks,
// preemptions, evictions and injected faults, over random groups and pools. After every command:
// the same tables, queues, counts and keys as the model's; what the events told; every cell that a
// launch read was the request's own.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <rapidcheck/state.h>

#include <algorithm>

#include "base/check.h"
#include "engine/cache/kv_model_test.h"

namespace lockstep::engine {
namespace {

struct World {
  explicit World(const trace::EngineSettings& settings)
      : cache(settings, [this](trace::Event event) { shadow.on_event(event); }), memory(settings) {}
  EventShadow shadow;
  KvCache cache;
  CellMemory memory;
};

// What the cases have reached: a state machine that never copies on write proves nothing about it.
struct Reached {
  std::size_t hits = 0, refused_hits = 0, short_of = 0, starved = 0, injected = 0, copies = 0,
              rewritten = 0, given_back = 0, reserved = 0, forks = 0;
};
Reached reached;

void note(Growth growth) {
  reached.short_of += growth == Growth::Short;
  reached.starved += growth == Growth::Starved;
  reached.injected += growth == Growth::Injected;
}

KeyScope scope_of(std::uint64_t number) {
  KeyScope scope;
  if (number == 1) scope.adapter = 1;
  if (number == 2) scope.salt = "1";
  return scope;
}

void compare_pool(const BlockPool& pool, const PoolModel& model) {
  RC_ASSERT(pool.free_queue() == Blocks(model.queue.begin(), model.queue.end()));
  RC_ASSERT(pool.reserved() == model.reserved);
  for (std::uint32_t i = 0; i < model.blocks.size(); ++i) {
    RC_ASSERT(pool.count({i}) == model.blocks[i].count);
    RC_ASSERT(pool.uses({i}) == model.blocks[i].uses);
    RC_ASSERT((pool.key({i}) != nullptr) == model.blocks[i].key.has_value());
  }
  RC_ASSERT(pool.free_count() + pool.evictable_count() + pool.used_count() +
                pool.reserved_count() ==
            pool.block_count());
}

// The number of table entries that name a block is its count: nobody holds what no table names.
void compare_holders(const KvCache& cache, const KvModel& model) {
  std::map<PoolBlock, std::uint32_t> holders;
  for (const auto& [id, request] : model.requests) {
    for (std::uint32_t g = 0; g < cache.group_count(); ++g) {
      for (const BlockId block : cache.table(id, g)) {
        if (block != trace::kNoBlock) ++holders[{cache.group(g).pool, block}];
      }
    }
  }
  for (std::uint32_t p = 0; p < cache.pool_count(); ++p) {
    for (std::uint32_t i = 0; i < cache.pool(p).block_count(); ++i) {
      const auto found = holders.find({p, {i}});
      RC_ASSERT(cache.pool(p).count({i}) == (found == holders.end() ? 0 : found->second));
    }
  }
}

void compare_events(const KvCache& cache, const EventShadow& shadow) {
  RC_ASSERT(shadow.broken == std::vector<std::string>());
  for (const auto& [index, told] : shadow.pools) {
    const BlockPool& pool = cache.pool(index);
    for (const auto& [block, count] : told.counts) RC_ASSERT(pool.count(block) == count);
    std::uint32_t keys = 0;
    for (std::uint32_t i = 0; i < pool.block_count(); ++i) {
      if (!pool.key({i})) continue;
      ++keys;
      const auto key = told.keys.find({i});
      RC_ASSERT(key != told.keys.end());
      RC_ASSERT(key->second == hex(*pool.key({i})));
    }
    RC_ASSERT(keys == told.keys.size());
  }
}

void compare(const World& world, const KvModel& model) {
  for (std::uint32_t i = 0; i < model.pools.size(); ++i) {
    compare_pool(world.cache.pool(i), model.pools[i]);
  }
  for (const auto& [id, request] : model.requests) {
    for (std::uint32_t g = 0; g < model.settings.groups.size(); ++g) {
      const auto table = world.cache.table(id, g);
      RC_ASSERT(Blocks(table.begin(), table.end()) == request.tables[g]);
    }
  }
  compare_holders(world.cache, model);
  compare_events(world.cache, world.shadow);
}

std::vector<std::size_t> count_needs(const KvModel& model, const std::vector<Need>& needs) {
  std::vector<std::size_t> counts(model.pools.size(), 0);
  for (const Need& need : needs) ++counts[model.settings.groups[need.group].pool];
  return counts;
}

// Growth of a planned step as the model sees it. `fail_at`: which allocation fails, 0: none.
Growth expected_growth(const KvModel& model, const ModelRequest& request, std::uint32_t end,
                       std::uint32_t fail_at) {
  const std::vector<Need> needs = model.needs(request, end);
  const std::vector<std::size_t> counts = count_needs(model, needs);
  bool now = true, later = true;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    now &= counts[i] <= model.pools[i].queue.size();
    later &= counts[i] <= model.pools[i].queue.size() + model.pools[i].reserved.size();
  }
  if (!now) return later ? Growth::Short : Growth::Starved;
  return fail_at > 0 && fail_at <= needs.size() ? Growth::Injected : Growth::Done;
}

// Runs a reserve() of positions [first, end) and, if it is done, its launch.
Growth reserve_and_launch(World& world, const KvModel& next, RequestId id, std::uint32_t first,
                          std::uint32_t end, std::uint32_t fail_at) {
  CacheOps ops;
  std::uint32_t calls = 0;
  const AllocationFault fault = [&](std::uint32_t) { return ++calls == fail_at; };
  const std::size_t dropped = world.shadow.keys_dropped_in_use;
  const Growth growth = world.cache.reserve(id, first, end, {0}, fault, ops);
  reached.rewritten += world.shadow.keys_dropped_in_use - dropped;
  RC_ASSERT(growth == Growth::Done || (ops.fills.empty() && ops.copies.empty()));
  if (growth != Growth::Done) return growth;
  RC_ASSERT(calls == ops.fills.size() + ops.copies.size());
  const ModelRequest& request = next.requests.at(id);
  for (std::uint32_t g = 0; g < world.cache.group_count(); ++g) {
    const trace::GroupSpec& spec = world.cache.group(g);
    const auto table = world.cache.table(id, g);
    const std::uint32_t from = (next.is_mamba(g) ? end - 1 : first) / spec.block_size;
    for (std::uint32_t i = from; i <= (end - 1) / spec.block_size; ++i) {
      RC_ASSERT(world.cache.pool(spec.pool).count(table[i]) == 1u);
      RC_ASSERT(world.cache.pool(spec.pool).key(table[i]) == nullptr);
    }
  }
  reached.copies += ops.copies.size();
  world.memory.run(ops);
  RC_ASSERT(world.memory.launch(world.cache, id, request, first, end));
  world.cache.begin_use(next.launches.back().blocks);
  return growth;
}

using Command = rc::state::Command<KvModel, World>;

struct Open : Command {
  std::uint64_t scope = *rc::gen::weightedElement<std::uint64_t>({{8, 0}, {1, 1}, {1, 2}});
  Tokens tokens;
  Open() {  // one of two texts, for a while
    const auto shared = *rc::gen::inRange<std::uint32_t>(4, 16);
    const auto text = *rc::gen::weightedElement<std::uint32_t>({{4, 0}, {1, 1}});
    for (std::uint32_t i = 0; i < shared; ++i) tokens.push_back((i * 5 + text) % 7);
    const auto rest = *rc::gen::container<Tokens>(*rc::gen::inRange<std::size_t>(0, 3),
                                                  rc::gen::inRange<TokenId>(0, 2));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
  }
  void checkPreconditions(const KvModel& model) const override {
    RC_PRE(model.requests.size() < 5u);
  }
  void apply(KvModel& model) const override {
    ModelRequest request;
    request.scope = scope;
    request.tokens = tokens;
    request.tables.resize(model.settings.groups.size());
    request.offered.resize(model.settings.groups.size(), 0);
    model.requests[{model.next_request++}] = request;
  }
  void run(const KvModel& model, World& world) const override {
    world.cache.open({model.next_request}, scope_of(scope));
    compare(world, nextState(model));
  }
  void show(std::ostream& stream) const override {
    stream << "open scope " << scope << " tokens";
    for (const TokenId token : tokens) stream << " " << token;
  }
};

// The others name an open request by its place among them.
struct OfRequest : Command {
  std::uint32_t place = *rc::gen::inRange<std::uint32_t>(0, 5);
  RequestId id(const KvModel& model) const {
    auto found = model.requests.begin();
    std::advance(found, place % model.requests.size());
    return found->first;
  }
  const ModelRequest& request(const KvModel& model) const { return model.requests.at(id(model)); }
  void checkPreconditions(const KvModel& model) const override { RC_PRE(!model.requests.empty()); }
  void show(std::ostream& stream) const override { stream << name() << " place " << place; }
  virtual const char* name() const = 0;
};

struct Grows : OfRequest {
  std::uint32_t count =
      *rc::gen::weightedElement<std::uint32_t>({{4, 1}, {2, 2}, {2, 3}, {2, 5}, {2, 8}, {1, 16}});
  std::uint32_t fail_at = *rc::gen::weightedElement<std::uint32_t>({{8, 0}, {1, 1}, {1, 3}});
  void show(std::ostream& stream) const override {
    stream << name() << " place " << place << " count " << count << " fail at " << fail_at;
  }
};

struct Admit : Grows {
  void checkPreconditions(const KvModel& model) const override {
    Grows::checkPreconditions(model);
    RC_PRE(request(model).holds_nothing());
  }
  // The hit and what then comes of it; a refusal changes nothing.
  std::pair<std::uint32_t, Growth> admit(KvModel& model) const {
    KvModel tried = model;
    ModelRequest& admitted = tried.requests.at(id(model));
    const auto known = static_cast<std::uint32_t>(admitted.tokens.size());
    const std::uint32_t hit = tried.longest_hit(admitted, known - 1);
    tried.pin_hit(admitted, hit);
    const std::uint32_t end = std::min(known, hit + count);
    const Growth growth = expected_growth(tried, admitted, end, fail_at);
    if (growth != Growth::Done) {
      model.contents = tried.contents;
      return {hit, growth};
    }
    LS_CHECK(tried.grow(id(model), end));
    model = std::move(tried);
    return {hit, growth};
  }
  void apply(KvModel& model) const override { admit(model); }
  void run(const KvModel& model, World& world) const override {
    KvModel next = model;
    const auto [hit, growth] = admit(next);
    const Tokens& tokens = request(model).tokens;
    const auto known = static_cast<std::uint32_t>(tokens.size());
    const base::Hash128 before = world.cache.pools_digest();
    RC_ASSERT(world.cache.look_up(id(model), tokens, known - 1) == hit);
    RC_ASSERT(reserve_and_launch(world, next, id(model), hit, std::min(known, hit + count),
                                 fail_at) == growth);
    if (growth != Growth::Done) {
      world.cache.undo_look_up(id(model));
      RC_ASSERT(world.cache.pools_digest() == before);
    }
    note(growth);
    reached.hits += hit > 0 && growth == Growth::Done;
    reached.refused_hits += hit > 0 && growth != Growth::Done;
    compare(world, next);
  }
  const char* name() const override { return "admit"; }
};

struct Step : Grows {
  std::uint32_t text = *rc::gen::weightedElement<std::uint32_t>({{4, 0}, {1, 1}});
  void checkPreconditions(const KvModel& model) const override {
    Grows::checkPreconditions(model);
    RC_PRE(request(model).planned > 0u && request(model).planned + count <= 40u);
    RC_PRE(model.launches.size() < 4u);
  }
  std::uint32_t end(const KvModel& model) const { return request(model).planned + count; }
  Growth step(KvModel& model) const {
    Tokens& tokens = model.requests.at(id(model)).tokens;
    while (tokens.size() < end(model)) {
      tokens.push_back(static_cast<TokenId>((tokens.size() * 5 + text) % 7));
    }
    const Growth growth = expected_growth(model, request(model), end(model), fail_at);
    if (growth == Growth::Done) LS_CHECK(model.grow(id(model), end(model)));
    return growth;
  }
  void apply(KvModel& model) const override { step(model); }
  void run(const KvModel& model, World& world) const override {
    KvModel next = model;
    const Growth growth = step(next);
    const base::Hash128 before = world.cache.pools_digest();
    RC_ASSERT(reserve_and_launch(world, next, id(model), request(model).planned, end(model),
                                 fail_at) == growth);
    if (growth != Growth::Done) RC_ASSERT(world.cache.pools_digest() == before);
    note(growth);
    compare(world, next);
  }
  const char* name() const override { return "step"; }
};

struct Complete : Command {
  void checkPreconditions(const KvModel& model) const override { RC_PRE(!model.launches.empty()); }
  void apply(KvModel& model) const override { model.complete(); }
  void run(const KvModel& model, World& world) const override {
    const ModelLaunch& launch = model.launches.front();
    world.cache.end_use(launch.blocks);
    const auto found = model.requests.find(launch.request);
    if (found != model.requests.end() && found->second.life == launch.life) {
      const Tokens& tokens = found->second.tokens;
      world.cache.commit(launch.request, std::span(tokens).first(launch.end), launch.end);
      const std::uint32_t used = world.cache.pool(0).used_count();
      world.cache.trim(launch.request, launch.end);
      reached.given_back += used - world.cache.pool(0).used_count();
    }
    compare(world, nextState(model));
  }
  void show(std::ostream& stream) const override { stream << "complete"; }
};

struct Release : OfRequest {
  void apply(KvModel& model) const override { model.release(model.requests.at(id(model))); }
  void run(const KvModel& model, World& world) const override {
    world.cache.release(id(model));
    reached.reserved += world.cache.pool(0).reserved_count();
    compare(world, nextState(model));
  }
  const char* name() const override { return "release"; }
};

struct Close : OfRequest {
  void apply(KvModel& model) const override {
    model.release(model.requests.at(id(model)));
    model.requests.erase(id(model));
  }
  void run(const KvModel& model, World& world) const override {
    world.cache.close(id(model));
    compare(world, nextState(model));
  }
  const char* name() const override { return "close"; }
};

struct Fork : OfRequest {
  std::uint32_t back = *rc::gen::weightedElement<std::uint32_t>({{4, 0}, {2, 1}, {2, 2}, {2, 5}});
  Tokens more = *rc::gen::container<Tokens>(2, rc::gen::inRange<TokenId>(0, 3));
  std::uint32_t token_count(const KvModel& model) const { return request(model).committed - back; }
  void checkPreconditions(const KvModel& model) const override {
    OfRequest::checkPreconditions(model);
    RC_PRE(model.requests.size() < 6u);
    RC_PRE(request(model).committed > back);
    RC_PRE(model.can_fork(request(model), token_count(model)));
  }
  void apply(KvModel& model) const override {
    const RequestId child{model.next_request++};
    model.fork(id(model), child, token_count(model), more);
  }
  void run(const KvModel& model, World& world) const override {
    RC_ASSERT(world.cache.can_fork(id(model), token_count(model)));
    ++reached.forks;
    world.cache.fork(id(model), {model.next_request}, token_count(model));
    compare(world, nextState(model));
  }
  const char* name() const override { return "fork"; }
  void show(std::ostream& stream) const override {
    stream << "fork place " << place << " back " << back;
  }
};

struct Evict : Command {
  std::uint32_t pool, count = *rc::gen::inRange<std::uint32_t>(1, 4);
  explicit Evict(const KvModel& model)
      : pool(*rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(model.pools.size()))) {}
  void apply(KvModel& model) const override { model.pools[pool].evict(count); }
  void run(const KvModel& model, World& world) const override {
    KvModel next = model;
    RC_ASSERT(world.cache.evict(pool, count) == next.pools[pool].evict(count));
    compare(world, next);
  }
  void show(std::ostream& stream) const override {
    stream << "evict pool " << pool << " count " << count;
  }
};

struct Reset : Command {
  void apply(KvModel& model) const override {
    for (PoolModel& pool : model.pools) {
      for (std::uint32_t i = 0; i < pool.blocks.size(); ++i) pool.drop({i});
    }
  }
  void run(const KvModel& model, World& world) const override {
    world.cache.reset_prefix_cache();
    compare(world, nextState(model));
  }
  void show(std::ostream& stream) const override { stream << "reset"; }
};

trace::EngineSettings any_settings() {
  trace::EngineSettings settings;
  settings.enable_prefix_caching = *rc::gen::inRange(0, 8) > 0;
  settings.pools.clear();
  const auto pool_count = *rc::gen::inRange<std::uint32_t>(1, 3);
  for (std::uint32_t i = 0; i < pool_count; ++i) {
    settings.pools.push_back({"p" + std::to_string(i), *rc::gen::inRange<std::uint32_t>(2, 40)});
  }
  settings.groups.clear();
  const auto group_count = *rc::gen::weightedElement<int>({{4, 1}, {3, 2}, {2, 3}});
  for (int i = 0; i < group_count; ++i) {
    trace::GroupSpec group;
    group.name = "g" + std::to_string(i);
    group.type = *rc::gen::element(trace::GroupType::FullAttention, trace::GroupType::FullAttention,
                                   trace::GroupType::SlidingWindow, trace::GroupType::Mamba);
    group.block_size = *rc::gen::element<std::uint32_t>(1, 2, 2, 3, 4);
    group.pool = *rc::gen::inRange<std::uint32_t>(0, pool_count);
    group.window = *rc::gen::inRange<std::uint32_t>(1, 8);
    settings.groups.push_back(group);
  }
  return settings;
}

TEST(KvCache, DoesWhatTheModelDoes) {
  reached = {};
  ASSERT_TRUE(rc::check("KvCache beside its model", [] {
    const trace::EngineSettings settings = any_settings();
    const KvModel model(settings);
    World world(settings);
    using rc::state::gen::execOneOfWithArgs;
    rc::state::check(model, world,
                     execOneOfWithArgs<Open, Admit, Admit, Step, Step, Step, Complete, Complete,
                                       Complete, Release, Close, Fork, Fork, Evict, Reset>());
  }));
  EXPECT_GT(reached.hits, 100u);
  EXPECT_GT(reached.refused_hits, 20u);
  EXPECT_GT(reached.short_of, 10u);
  EXPECT_GT(reached.starved, 100u);
  EXPECT_GT(reached.injected, 50u);
  EXPECT_GT(reached.copies, 20u);
  EXPECT_GT(reached.rewritten, 2u);
  EXPECT_GT(reached.given_back, 100u);
  EXPECT_GT(reached.reserved, 50u);
  EXPECT_GT(reached.forks, 50u);
}

}  // namespace
}  // namespace lockstep::engine
