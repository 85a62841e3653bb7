#include "harness/search/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "harness/search/generate_events.h"

namespace lockstep::harness {
namespace {

using trace::GroupSpec;
using trace::GroupType;
using trace::RequestSpec;
using trace::Scenario;
using trace::TokenId;

constexpr std::array<FeatureWeight, kFeatureCount> kWeights = {{
    {Feature::SmallModel, "small model", 25},
    {Feature::SeveralGroups, "several groups", 30},
    {Feature::SharedPool, "shared pool", 40},
    {Feature::Scarce, "scarce pool", 50},
    {Feature::OddBlocks, "odd blocks", 25},
    {Feature::NoPrefixCache, "no prefix cache", 12},
    {Feature::FewHashBits, "few hash bits", 15},
    {Feature::SharedPrefixes, "shared prefixes", 65},
    {Feature::SmallBudget, "small budget", 35},
    {Feature::NoChunks, "no chunks", 15},
    {Feature::FewSequences, "few sequences", 25},
    {Feature::ShortContext, "short context", 15},
    {Feature::FullQueue, "full queue", 10},
    {Feature::Priorities, "priorities", 25},
    {Feature::Async, "async", 50},
    {Feature::Padding, "padding", 30},
    {Feature::Fills, "fills", 30},
    {Feature::Speculation, "speculation", 35},
    {Feature::Adapters, "adapters", 25},
    {Feature::Sampled, "sampled", 35},
    {Feature::Penalties, "penalties", 25},
    {Feature::MinTokens, "min tokens", 20},
    {Feature::StopIds, "stop ids", 25},
    {Feature::Scripts, "scripts", 35},
    {Feature::Logprobs, "logprobs", 20},
    {Feature::IdReuse, "id reuse", 30},
    {Feature::Holds, "holds", 20},
    {Feature::Cancels, "cancels", 40},
    {Feature::Forks, "forks", 25},
    {Feature::Preempts, "preempts", 25},
    {Feature::Evictions, "evictions", 20},
    {Feature::Schedules, "schedules", 20},
    {Feature::Completions, "completions", 30},
    {Feature::Stalls, "stalls", 20},
    {Feature::Failures, "failures", 20},
    {Feature::Flips, "flips", 8},
    {Feature::DeviceLost, "device lost", 8},
    {Feature::ManyRequests, "many requests", 25},
}};

constexpr std::array<std::uint32_t, 5> kUsualBlocks = {4, 2, 8, 4, 16};
constexpr std::array<std::uint32_t, 4> kOddBlocks = {1, 3, 5, 7};

// Token i of a run of prompts that begin alike; the file's {"seed", "length"} runs say the same
// thing in fewer bytes, but shrink worse.
TokenId family_token(const Scenario& scenario, std::uint64_t family, std::uint32_t index) {
  base::Prng prng(family * 0x10001u + index);
  return static_cast<TokenId>(
      prng.below(std::min<std::uint64_t>(256, scenario.ledger.tokenizer_size)));
}

class Generator {
 public:
  explicit Generator(Choices& choices) : choose_(choices) {}

  Scenario scenario() {
    for (const FeatureWeight& weight : kWeights) {
      features_[static_cast<std::size_t>(weight.feature)] = choose_.chance(weight.percent);
    }
    scenario_.executor = trace::ExecutorKind::Ledger;
    scenario_.seed = choose_.below(1000);
    // What never ends is to be found soon.
    scenario_.max_ticks = 3000;
    model();
    adapters();
    groups();
    speculation();
    requests();
    pools();
    limits();
    generate_events(choose_, features_, scenario_);
    return std::move(scenario_);
  }

 private:
  bool on(Feature feature) const { return features_[static_cast<std::size_t>(feature)]; }
  trace::EngineSettings& engine() { return scenario_.engine; }

  void model() {
    trace::LedgerModel& ledger = scenario_.ledger;
    ledger.seed = choose_.below(4);
    if (!on(Feature::SmallModel)) return;
    constexpr std::array<std::uint32_t, 4> kSizes = {8, 33, 300, 64};
    ledger.tokenizer_size = choose_.pick(kSizes);
    ledger.vocab_size =
        ledger.tokenizer_size + choose_.pick(std::array<std::uint32_t, 3>{0, 1, 32});
    ledger.eos_token_ids.clear();
    for (std::uint32_t i = choose_.small(3); i > 0; --i) {
      ledger.eos_token_ids.push_back(ledger.tokenizer_size - i);
    }
  }

  // A client's names, numbers and salts are text of its own choice: they may look alike.
  void adapters() {
    if (!on(Feature::Adapters)) return;
    constexpr std::array<std::string_view, 3> kNames = {"s", "t", "1"};
    const std::uint32_t count = choose_.between(1, 3);
    for (std::uint32_t i = 0; i < count; ++i) {
      trace::AdapterSpec adapter;
      adapter.key = fmt::format("L{}", i);
      adapter.name = choose_.pick(kNames);
      adapter.id = choose_.between(1, 2);
      adapter.weights = i + 1;
      scenario_.adapters.push_back(adapter);
    }
  }

  void groups() {
    const std::uint32_t block =
        on(Feature::OddBlocks) ? choose_.pick(kOddBlocks) : choose_.pick(kUsualBlocks);
    engine().block_size = block;
    engine().groups.clear();
    const std::uint32_t count = on(Feature::SeveralGroups) ? choose_.between(1, 3) : 1;
    for (std::uint32_t i = 0; i < count; ++i) {
      GroupSpec group;
      group.block_size = block;
      if (on(Feature::SeveralGroups)) group_kind(group, i, count);
      engine().groups.push_back(group);
    }
  }

  void group_kind(GroupSpec& group, std::uint32_t index, std::uint32_t count) {
    constexpr std::array<GroupType, 5> kTypes = {GroupType::FullAttention, GroupType::SlidingWindow,
                                                 GroupType::Mamba, GroupType::SlidingWindow,
                                                 GroupType::FullAttention};
    group.type = choose_.pick(kTypes);
    // The plain case has a full group: a group alone may be of any kind.
    if (index == 0 && count > 1) group.type = GroupType::FullAttention;
    // Drafts over a recurrent state are not built.
    if (group.type == GroupType::Mamba && on(Feature::Speculation)) {
      group.type = GroupType::SlidingWindow;
    }
    group.name = fmt::format("g{}", index);
    if (choose_.chance(35)) {
      group.block_size = choose_.chance(50) ? group.block_size * 2 : choose_.between(1, 6);
    }
    const std::uint32_t block = group.block_size;
    if (group.type == GroupType::SlidingWindow) {
      group.window = choose_.chance(50) ? choose_.between(std::max(block, 2u) - 1, block + 1)
                                        : choose_.between(1, 2 * block + 1);
    }
    if (group.type == GroupType::Mamba) group.conv_width = choose_.between(2, 5);
  }

  void speculation() {
    if (!on(Feature::Speculation)) return;
    trace::SpeculativeSpec spec;
    spec.num_speculative_tokens = choose_.between(1, choose_.chance(20) ? 8 : 4);
    // With a temperature only `same_draw` is built.
    const bool same_draw = on(Feature::Sampled) || choose_.chance(30);
    spec.acceptance = same_draw ? trace::Acceptance::SameDraw : trace::Acceptance::Rejection;
    engine().speculative = spec;
  }

  std::uint32_t alphabet() const {
    return std::min<std::uint32_t>(256, scenario_.ledger.tokenizer_size);
  }
  // Near a multiple of the block.
  std::uint32_t length_near_block(std::uint32_t blocks) {
    const std::uint32_t block = engine().block_size;
    const std::uint32_t middle = block * choose_.small(blocks + 1);
    const std::uint32_t offset = choose_.small(4);  // 0, +1, -1, or anything
    if (offset == 1) return middle + 1;
    if (offset == 2) return middle > 1 ? middle - 1 : middle;
    return offset == 3 ? middle + choose_.small(block) : middle;
  }

  void requests() {
    const std::uint32_t count =
        on(Feature::ManyRequests) ? choose_.between(4, 8) : choose_.between(1, 4);
    for (std::uint32_t i = 0; i < count; ++i) {
      RequestSpec request;
      request.key = std::string(1, static_cast<char>('A' + i));
      request.id = on(Feature::IdReuse) && choose_.chance(60) ? "r" : request.key;
      request.tick = choose_.chance(50) ? choose_.small(4) : choose_.small(16);
      prompt(request, i);
      request.max_tokens = choose_.between(1, choose_.chance(20) ? 20 : 8);
      if (on(Feature::Priorities))
        request.priority = static_cast<std::int32_t>(choose_.small(3)) - 1;
      request.hold = on(Feature::Holds) && choose_.chance(50);
      if (!scenario_.adapters.empty() && choose_.chance(50)) {
        request.adapter = choose_.small(static_cast<std::uint32_t>(scenario_.adapters.size()));
      }
      if (on(Feature::Adapters) && choose_.chance(40)) {
        request.cache_salt = choose_.pick(std::array<std::string, 4>{"s", "t", "1", "s1"});
      }
      sampling(request);
      scripts(request);
      scenario_.requests.push_back(std::move(request));
    }
  }

  void prompt(RequestSpec& request, std::uint32_t index) {
    const std::uint32_t blocks = engine().block_size >= 8 ? 2 : 4;
    if (on(Feature::SharedPrefixes)) {
      const std::uint64_t family = choose_.below(2);
      const std::uint32_t shared = length_near_block(blocks);
      for (std::uint32_t i = 0; i < shared; ++i) {
        request.prompt.push_back(family_token(scenario_, family, i));
      }
    }
    const bool alone = request.prompt.empty();
    if (alone || choose_.chance(60)) {
      const std::uint32_t own = std::max(alone ? 1u : 0u, length_near_block(alone ? blocks : 2));
      for (std::uint32_t i = 0; i < own; ++i) {
        request.prompt.push_back(family_token(scenario_, 100 + index, i));
      }
    }
    // A request of the same text twice is the fullest hit there is.
    if (index > 0 && choose_.chance(15)) request.prompt = scenario_.requests[index - 1].prompt;
  }

  void sampling(RequestSpec& request) {
    trace::SamplingParams& s = request.sampling;
    if (on(Feature::Sampled) && choose_.chance(75)) {
      s.temperature = choose_.pick(std::array<double, 4>{1, 0.5, 2, 8});
      if (choose_.chance(30)) s.top_k = choose_.between(1, 5);
      if (choose_.chance(30)) s.top_p = choose_.pick(std::array<double, 3>{0.5, 0.9, 0.99});
      if (choose_.chance(20)) s.min_p = choose_.pick(std::array<double, 2>{0.05, 0.5});
      if (choose_.chance(65)) s.seed = choose_.below(3);
    }
    if (on(Feature::Penalties) && choose_.chance(60)) {
      constexpr std::array<double, 4> kPenalties = {0, 1.5, -1, 2};
      s.repetition_penalty = choose_.pick(std::array<double, 3>{1, 1.5, 0.75});
      s.presence_penalty = choose_.pick(kPenalties);
      s.frequency_penalty = choose_.pick(kPenalties);
    }
    if (on(Feature::StopIds) && choose_.chance(60)) {
      // Few ids of a small alphabet come up by themselves; elsewhere scripts say them.
      const TokenId first = choose_.small(alphabet() - 2);
      s.stop_token_ids.push_back(first);
      if (choose_.chance(30)) s.stop_token_ids.push_back(first + 1);
    }
    if (on(Feature::MinTokens) && choose_.chance(60)) {
      s.min_tokens = choose_.between(0, request.max_tokens);
    }
    s.ignore_eos = choose_.chance(8);
    if (choose_.chance(10)) {
      // One draw a statement: the order of arguments is the compiler's.
      const double bias = choose_.pick(std::array<double, 3>{5, -5, 40});
      s.logit_bias.emplace_back(choose_.small(alphabet()), bias);
    }
    if (on(Feature::Logprobs) && choose_.chance(60)) {
      s.logprobs = choose_.small(4);
      s.processed_logprobs = choose_.chance(50);
    }
  }

  // An id that min_tokens never masks: a row's logits must not all be -inf.
  TokenId plain_id(const RequestSpec& request) {
    TokenId id = choose_.small(alphabet());
    const auto masked = [&](TokenId token) {
      const auto has = [&](const std::vector<TokenId>& list) {
        return std::ranges::find(list, token) != list.end();
      };
      return has(request.sampling.stop_token_ids) || has(scenario_.ledger.eos_token_ids);
    };
    while (masked(id)) id = (id + 1) % alphabet();
    return id;
  }
  TokenId scripted_id(const RequestSpec& request) {
    const auto& stops = request.sampling.stop_token_ids;
    const auto& ends = scenario_.ledger.eos_token_ids;
    if (!stops.empty() && choose_.chance(15)) return choose_.pick(stops);
    if (!ends.empty() && choose_.chance(10)) return choose_.pick(ends);
    return plain_id(request);
  }

  void scripts(RequestSpec& request) {
    using Script = trace::ScriptEntry;
    if (on(Feature::Scripts) && choose_.chance(70)) {
      const std::uint32_t length = choose_.between(1, request.max_tokens + 1);
      for (std::uint32_t i = 0; i < length; ++i) {
        Script entry;
        const std::uint32_t kind = choose_.small(8);
        if (kind >= 2) {
          entry.kind = Script::Kind::Token;
          entry.token = scripted_id(request);
        } else if (kind == 1) {
          entry.kind = Script::Kind::Logits;
          entry.logits = {{plain_id(request), 1.0}};
          const TokenId second = scripted_id(request);
          if (second != entry.logits[0].first) entry.logits.emplace_back(second, 1.5);
          std::ranges::sort(entry.logits);
        }
        request.script.push_back(std::move(entry));
      }
    }
    if (engine().speculative) drafts(request);
  }

  void drafts(RequestSpec& request) {
    using Draft = trace::DraftEntry;
    request.draft_default.kind = choose_.pick(std::array<Draft::Kind, 4>{
        Draft::Kind::Match, Draft::Kind::None, Draft::Kind::Miss, Draft::Kind::Match});
    if (!choose_.chance(60)) return;
    const std::uint32_t length = choose_.between(1, request.max_tokens + 2);
    for (std::uint32_t i = 0; i < length; ++i) {
      Draft entry;
      entry.kind = choose_.pick(std::array<Draft::Kind, 6>{Draft::Kind::Match, Draft::Kind::Miss,
                                                           Draft::Kind::Match, Draft::Kind::Token,
                                                           Draft::Kind::None, Draft::Kind::Match});
      if (entry.kind == Draft::Kind::Token) {
        const bool scripted =
            i < request.script.size() && request.script[i].kind == trace::ScriptEntry::Kind::Token;
        entry.token = scripted ? request.script[i].token : choose_.small(alphabet());
      }
      request.draft.push_back(entry);
    }
  }

  // Most tokens of a request that are ever in the cache.
  std::uint32_t longest() const {
    std::uint32_t tokens = 1;
    for (const RequestSpec& request : scenario_.requests) {
      tokens = std::max(tokens,
                        static_cast<std::uint32_t>(request.prompt.size()) + request.max_tokens - 1);
    }
    return tokens;
  }
  // With those of drafts, and of children that are given tokens.
  std::uint32_t reach() const {
    return longest() + draft_tokens() + (on(Feature::Forks) ? kForkTokensMax : 0);
  }
  std::uint32_t draft_tokens() const {
    return scenario_.engine.speculative ? scenario_.engine.speculative->num_speculative_tokens : 0;
  }

  void pools() {
    engine().pools.clear();
    const bool shared = on(Feature::SharedPool);
    for (std::uint32_t i = 0; i < engine().groups.size(); ++i) {
      if (shared && i > 0) {
        engine().groups[i].pool = 0;
        continue;
      }
      engine().groups[i].pool = static_cast<std::uint32_t>(engine().pools.size());
      engine().pools.push_back({shared ? "full" : engine().groups[i].name, 0});
    }
    for (std::uint32_t pool = 0; pool < engine().pools.size(); ++pool) {
      std::uint32_t need = 0;
      for (const GroupSpec& group : engine().groups) {
        // Drafts of a last step included: a step is not shortened to fit.
        if (group.pool == pool) need += (reach() + group.block_size - 1) / group.block_size;
      }
      const bool scarce = on(Feature::Scarce) && choose_.chance(80);
      engine().pools[pool].num_blocks = scarce ? need + choose_.small(3) : need * 4 + 16;
      // Some requests can never fit: they are refused.
      if (scarce && !engine().speculative && choose_.chance(10)) {
        engine().pools[pool].num_blocks = std::max(1u, need - 1);
      }
    }
  }

  void limits() {
    trace::EngineSettings& e = engine();
    e.enable_prefix_caching = !on(Feature::NoPrefixCache);
    if (on(Feature::FewHashBits))
      e.prefix_hash_bits = choose_.pick(std::array<std::uint32_t, 3>{8, 12, 64});
    e.enable_chunked_prefill = !on(Feature::NoChunks);
    if (on(Feature::SmallBudget)) {
      // Without chunks a request that was preempted computes all its tokens in one step.
      const std::uint32_t least = e.enable_chunked_prefill ? 1 + draft_tokens() : reach() + 1;
      e.max_num_batched_tokens = least + choose_.small(12);
      if (e.enable_chunked_prefill && choose_.chance(60)) {
        e.chunked_prefill_size = choose_.between(1, 2 * e.block_size + 1);
      }
    }
    if (on(Feature::FewSequences)) e.max_num_seqs = choose_.between(1, 3);
    if (on(Feature::ShortContext)) e.max_model_len = std::max(2u, longest() - 1 + choose_.small(4));
    if (on(Feature::FullQueue)) e.max_waiting = choose_.between(1, 2);
    if (on(Feature::Priorities)) e.scheduling_policy = trace::SchedulingPolicy::Priority;
    if (on(Feature::Async)) e.async_depth = choose_.between(2, 3);
    if (on(Feature::Padding)) {
      std::uint32_t size = 0;
      for (std::uint32_t i = choose_.between(1, 3); i > 0; --i) {
        e.cudagraph_capture_sizes.push_back(size += choose_.between(1, 8));
      }
    }
    if (on(Feature::Fills)) {
      e.pad_fill = choose_.pick(std::array<trace::PadFill, 4>{
          trace::PadFill::Zero, trace::PadFill::Stale, trace::PadFill::Nan, trace::PadFill::Huge});
      e.fill_new_blocks = choose_.pick(std::array<trace::BlockFill, 3>{
          trace::BlockFill::None, trace::BlockFill::Zero, trace::BlockFill::Poison});
    }
  }

  Choices& choose_;
  Features features_;
  Scenario scenario_;
};

}  // namespace

const std::array<FeatureWeight, kFeatureCount>& feature_weights() { return kWeights; }

Scenario generate(Choices& choices) { return Generator(choices).scenario(); }

Scenario generate(std::uint64_t seed, std::uint64_t number) {
  // Neighbouring seeds and numbers share nothing.
  base::Prng of_seed(seed);
  SeededChoices choices(of_seed.next() ^ (number * 0x9e3779b97f4a7c15u));
  return generate(choices);
}

Scenario generate_from_bytes(std::span<const std::byte> bytes) {
  ByteChoices choices(bytes);
  return generate(choices);
}

}  // namespace lockstep::harness
