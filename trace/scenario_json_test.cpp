// The scenario file: defaults, prompts, and that writing and reading are each other's inverse.
#include "trace/scenario_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/prng.h"

namespace lockstep::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The same cases in every run; more of them: RC_PARAMS="seed=1 max_success=10000".
[[maybe_unused]] const int kSeeded = ::setenv("RC_PARAMS", "seed=20240811 max_success=300", 0);

Scenario parsed(const std::string& text) {
  auto scenario = parse_scenario(text, "s.json");
  EXPECT_TRUE(scenario.ok()) << text << "\n" << (scenario.ok() ? "" : scenario.error().message());
  return scenario.ok() ? *std::move(scenario) : Scenario{};
}

std::string request(const std::string& fields) {
  return R"({"requests": [{"key": "A", )" + fields + "}]}";
}

// fuzz/corpus/scenario: the page's four examples (x*.json), and files with every field.
std::string corpus(const std::string& name) {
  std::ifstream stream(std::string(LOCKSTEP_SOURCE_DIR) + "/fuzz/corpus/scenario/" + name);
  EXPECT_TRUE(stream.good()) << name;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(ScenarioJson, CorpusIsWrittenAsItStands) {
  for (const char* name : {"x01.json", "x17.json", "x24.json", "x77.json", "engine.json",
                           "requests.json", "events.json", "device.json"}) {
    const std::string text = corpus(name);
    EXPECT_EQ(write_scenario(parsed(text)), text) << name;
  }
}

TEST(ScenarioJson, WhatIsNotBuiltIsUnsupported) {
  const auto scenario = parse_scenario(corpus("unbuilt.json"), "unbuilt.json");
  ASSERT_FALSE(scenario.ok());
  EXPECT_EQ(scenario.error().exit_status(), 4);
}

TEST(ScenarioJson, DefaultsAreThoseOfThePage) {
  const Scenario s = parsed("{}");
  EXPECT_EQ(s.seed, 0u);
  EXPECT_EQ(s.executor, ExecutorKind::Ledger);
  EXPECT_EQ(s.device, "vgpu:sm_90");
  EXPECT_EQ(s.ledger, LedgerModel{});
  EXPECT_EQ(s.ledger.vocab_size, 288u);
  EXPECT_EQ(s.engine, EngineSettings{});
  EXPECT_EQ(s.max_ticks, 100000u);
  EXPECT_TRUE(s.requests.empty() && s.events.empty() && s.faults.empty() && s.adapters.empty());
  EXPECT_EQ(s.observe, Observe{});
  EXPECT_EQ(write_scenario(s), "{}\n");

  const Scenario one = parsed(request(R"("prompt": [1])"));
  RequestSpec want;
  want.key = want.id = "A";
  want.prompt = {1};
  EXPECT_EQ(one.requests[0], want);
  EXPECT_EQ(one.size(), 1u);
}

TEST(ScenarioJson, DefaultsMayBeWrittenOut) {
  // Those of fields that are not built, too.
  const Scenario spelled = parsed(R"({"schema": "lockstep.scenario/1", "note": "", "taps": "none",
    "adapters": [], "events": [], "faults": [], "observe": {},
    "engine": {"pools": [], "preemption_mode": "recompute", "tiers": null, "speculative": null,
      "kv_load_failure_policy": "recompute", "stream": {"queue_bytes": 65536,
      "slow_reader": "pause"}, "kv_cache_dtype": "auto", "kv_cache_groups": [{"name": "full",
      "type": "full_attention", "block_size": 16, "kernel_block_size": 16, "pool": "full",
      "ring_tokens": 0, "shares": null}]},
    "requests": [{"key": "A", "id": "A", "prompt": [1], "adapter": null, "media": null,
      "cache_salt": null, "stop": [], "include_stop_str_in_output": false, "top_k": -1,
      "logit_bias": {}, "seed": null, "logprobs": null, "prompt_logprobs": null, "n": 1,
      "beam_width": 0, "grammar": null, "kv_transfer": null, "client": {"read_rate": null,
      "disconnect_after": null, "delay": 0}, "script": [], "draft": [], "draft_default": "none",
      "raw": {}, "temperature": 0, "top_p": 1.0, "logprobs_mode": "raw_logprobs"}]})");
  EXPECT_EQ(spelled, parsed(request(R"("prompt": [1])")));
  const Scenario chain = parsed(R"({"model": {"seed": 5}, "engine": {"speculative":
    {"method": "scripted", "num_speculative_tokens": 3, "tree": [-1, 0, 1], "draft_seed": 5}}})");
  EXPECT_EQ(chain.engine.speculative->num_speculative_tokens, 3u);
}

TEST(ScenarioJson, PoolsComeByNameAsGroupsUseThem) {
  const Scenario s = parsed(R"({"engine": {"block_size": 4, "pools": [{"name": "b",
    "num_blocks": 7}], "kv_cache_groups": [{"name": "a", "type": "full_attention"},
    {"name": "w", "type": "sliding_window", "window": 3, "pool": "b", "block_size": 8},
    {"name": "c", "type": "mamba", "pool": "a"}]}})");
  ASSERT_EQ(s.engine.pools.size(), 2u);
  EXPECT_EQ(s.engine.pools[0], (PoolSpec{"b", 7}));
  EXPECT_EQ(s.engine.pools[1], (PoolSpec{"a", 1024}));
  EXPECT_EQ(s.engine.groups[0].pool, 1u);
  EXPECT_EQ(s.engine.groups[0].block_size, 4u);
  EXPECT_EQ(s.engine.groups[1].pool, 0u);
  EXPECT_EQ(s.engine.groups[1].block_size, 8u);
  EXPECT_EQ(s.engine.groups[2].pool, 1u);
}

TEST(ScenarioJson, VocabularyDefaultsFollowTheTokenizer) {
  EXPECT_EQ(parsed(R"({"model": {"tokenizer_size": 320}})").ledger.vocab_size, 320u);
  const LedgerModel small = parsed(R"({"model": {"tokenizer_size": 100}})").ledger;
  EXPECT_EQ(small.vocab_size, 128u);
  EXPECT_TRUE(small.eos_token_ids.empty());  // 256 is no token of it
}

TEST(ScenarioJson, TextPromptsAreTheirBytes) {
  const Scenario s = parsed(request(R"("prompt": "h\u00e9")"));
  EXPECT_THAT(s.requests[0].prompt, ElementsAre(0x68, 0xc3, 0xa9));
  EXPECT_EQ(s.requests[0].prompt_text, "h\xc3\xa9");
}

TEST(ScenarioJson, RunsAreMixModuloTheTokenizer) {
  const Scenario s = parsed(request(R"("prompt": [3, {"seed": 5, "length": 6}, 4])"));
  EXPECT_THAT(s.requests[0].prompt, ElementsAre(3, 72, 144, 162, 134, 156, 111, 4));
  const Scenario small = parsed(
      R"({"model": {"tokenizer_size": 100}, "requests": [{"key": "A", "prompt":
          [{"seed": 5, "length": 6}]}]})");
  EXPECT_THAT(small.requests[0].prompt, ElementsAre(28, 4, 86, 98, 44, 15));
  const Scenario large = parsed(request(R"("prompt": [{"seed": 9007199254740991, "length": 3}])"));
  EXPECT_THAT(large.requests[0].prompt, ElementsAre(55, 141, 149));
}

TEST(ScenarioJson, TextThatThePromptNoLongerSaysIsNotWritten) {
  Scenario s = parsed(request(R"("prompt": "hello")"));
  s.requests[0].prompt.pop_back();
  EXPECT_THAT(write_scenario(s), HasSubstr(R"("prompt": [104, 101, 108, 108])"));
}

TEST(ScenarioJson, WhatNamesNothingIsWrittenSoThatItIsRefused) {
  const Scenario good = parsed(corpus("events.json"));
  std::vector<Scenario> bad(7, good);
  bad[0].requests[0].adapter = 0;
  bad[1].engine.groups[0].pool = 1;
  bad[2].events[5].trigger.request = 9;
  bad[3].events[3].trigger.request = 9;
  bad[4].events[6].pool = 1;
  bad[5].requests[0].sampling.temperature = std::numeric_limits<double>::quiet_NaN();
  bad[6].requests[0].key = "\xff";
  for (const Scenario& scenario : bad) {
    EXPECT_FALSE(parse_scenario(write_scenario(scenario), "bad.json").ok());
  }
}

TEST(ScenarioJson, LaunchIsTriggerAndFieldOfCompletions) {
  const Scenario s = parsed(R"({"events": [{"launch": 4, "type": "lost"},
    {"launch": 5, "tick": 2, "type": "late", "ticks": 1}]})");
  EXPECT_EQ(s.events[0].trigger, (Trigger{Trigger::Kind::Launch, 4, 0}));
  EXPECT_EQ(s.events[0].launch, 4u);
  EXPECT_EQ(s.events[1].trigger, (Trigger{Trigger::Kind::AtTick, 2, 0}));
  EXPECT_EQ(s.events[1].launch, 5u);
}

TEST(ScenarioJson, ForksAreLivesAfterTheRequests) {
  const Scenario s = parsed(corpus("events.json"));
  EXPECT_EQ(s.events[5].trigger, (Trigger{Trigger::Kind::Emitted, 1, 2}));
  EXPECT_EQ(s.faults[4].trigger, (Trigger{Trigger::Kind::Emitted, 1, 2}));
}

TEST(ScenarioJson, SizeEightPrintsInEightLines) {
  const std::string text = write_scenario(parsed(R"({"engine": {"block_size": 4}, "requests": [
    {"key": "A", "prompt": [1]}, {"key": "B", "prompt": [1]}, {"key": "C", "prompt": [1]},
    {"key": "D", "prompt": [1]}], "events": [{"tick": 1, "type": "cancel", "request": "A"},
    {"tick": 1, "type": "cancel", "request": "B"}, {"tick": 1, "type": "reset_prefix_cache"}],
    "faults": [{"tick": 1, "type": "device_lost"}]})"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
}

// --- any scenario of the format, from a seed ---

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : prng_(seed) {}

  Scenario scenario() {
    Scenario s = parsed("{}");
    s.seed = large();
    if (coin()) s.note = "a \"note\"\n";
    s.ledger.seed = large();
    s.ledger.tokenizer_size = 2 + below(600);
    s.ledger.vocab_size = s.ledger.tokenizer_size + below(40);
    limit_ = s.ledger.tokenizer_size;
    s.ledger.eos_token_ids = tokens(below(3));
    engine(s.engine);
    for (std::uint32_t i = below(3); i > 0; --i) {
      s.adapters.push_back(
          {"a" + std::to_string(i), coin() ? "n" : "a1", large(), 1 + large() / 2});
    }
    for (std::uint32_t i = below(4); i > 0; --i) s.requests.push_back(request(s, i));
    if (!s.requests.empty()) entries(s);
    for (std::uint32_t i = below(3), tick = 0; i > 0; --i) {
      s.observe.ticks.push_back(tick += 1 + below(9));
    }
    s.observe.steps = coin();
    s.max_ticks = 1 + large() / 2;
    return s;
  }

 private:
  std::uint32_t below(std::uint64_t bound) {
    return static_cast<std::uint32_t>(prng_.below(bound));
  }
  bool coin() { return below(2) == 1; }
  std::uint64_t large() { return coin() ? below(4) : prng_.next() >> 11; }
  std::vector<TokenId> tokens(std::uint32_t count) {
    std::vector<TokenId> result(count);
    for (TokenId& token : result) token = below(limit_);
    return result;
  }
  std::vector<std::pair<TokenId, double>> token_map() {
    std::map<TokenId, double> map;
    for (std::uint32_t i = 1 + below(3); i > 0; --i) map[below(limit_)] = 100 * prng_.unit() - 50;
    return {map.begin(), map.end()};
  }

  void engine(EngineSettings& engine) {
    engine.block_size = 1 + below(32);
    engine.groups.clear();
    engine.pools.clear();
    for (std::uint32_t i = 0; i < 1 + below(3) % 3; ++i) {
      engine.pools.push_back({i == 0 ? "full" : "p" + std::to_string(i), 1 + below(2000)});
    }
    for (std::uint32_t i = 0; i < 1 + below(3) % 3; ++i) {
      GroupSpec group;
      group.name = i == 0 ? "full" : "g" + std::to_string(i);
      group.type = static_cast<GroupType>(below(3));
      group.block_size = coin() ? engine.block_size : 1 + below(32);
      group.pool = below(engine.pools.size());
      if (group.type == GroupType::SlidingWindow) group.window = 1 + below(40);
      if (group.type == GroupType::Mamba) group.conv_width = 1 + below(8);
      engine.groups.push_back(group);
    }
    engine.enable_prefix_caching = coin();
    engine.prefix_hash_bits = 8 + below(249);
    engine.max_num_seqs = 1 + below(20);
    engine.max_num_batched_tokens = 1 + below(4096);
    engine.enable_chunked_prefill = coin();
    engine.chunked_prefill_size = below(3) * 7;
    engine.max_model_len = 1 + below(5000);
    engine.max_waiting = below(3);
    engine.scheduling_policy = static_cast<SchedulingPolicy>(below(2));
    engine.async_depth = 1 + below(3);
    if (coin()) engine.cudagraph_capture_sizes = {1, 2 + below(7), 9 + below(9)};
    engine.pad_fill = static_cast<PadFill>(below(4));
    engine.fill_new_blocks = static_cast<BlockFill>(below(3));
    if (coin()) engine.speculative = SpeculativeSpec{1 + below(16), Acceptance::SameDraw};
    engine.watchdog_ticks = 1 + below(1000);
  }

  void sampling(RequestSpec& request) {
    SamplingParams& sampling = request.sampling;
    request.max_tokens = 1 + below(40);
    sampling.min_tokens = below(request.max_tokens + 1);
    sampling.temperature = coin() ? 0 : 2 * prng_.unit();
    sampling.top_k = below(3) * 20;
    sampling.top_p = 1 - 0.5 * prng_.unit();
    sampling.min_p = coin() ? 0 : prng_.unit();
    if (coin()) sampling.seed = large();
    sampling.repetition_penalty = 1 + below(2) * prng_.unit();
    sampling.presence_penalty = below(2) * (4 * prng_.unit() - 2);
    sampling.frequency_penalty = below(2) * (4 * prng_.unit() - 2);
    if (coin()) sampling.logit_bias = token_map();
    sampling.stop_token_ids = tokens(below(3));
    sampling.ignore_eos = coin();
    if (coin()) sampling.logprobs = below(2);
    sampling.processed_logprobs = coin();
  }

  RequestSpec request(const Scenario& s, std::uint32_t number) {
    RequestSpec request;
    request.key = "r" + std::to_string(number);
    request.id = coin() ? request.key : "id";
    request.tick = large();
    request.hold = coin();
    request.priority = static_cast<std::int32_t>(prng_.next());
    request.prompt = tokens(1 + below(30));
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Scenario run = parsed(R"({"model": {"tokenizer_size": )" + std::to_string(limit_) +
                                  R"(}, "requests": [{"key": "A", "prompt": [{"seed": )" +
                                  std::to_string(below(1100)) + R"(, "length": )" +
                                  std::to_string(1 + below(40)) + "}]}]}");
      const auto& more = run.requests.at(0).prompt;
      if (coin()) request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    }
    if (!s.adapters.empty() && coin()) request.adapter = below(s.adapters.size());
    if (coin()) request.cache_salt = "salt";
    sampling(request);
    for (std::uint32_t i = below(3); i > 0; --i) {
      ScriptEntry entry{static_cast<ScriptEntry::Kind>(below(3)), 0, {}};
      if (entry.kind == ScriptEntry::Kind::Token) entry.token = below(limit_);
      if (entry.kind == ScriptEntry::Kind::Logits) entry.logits = token_map();
      request.script.push_back(entry);
    }
    for (std::uint32_t i = below(4); i > 0; --i) request.draft.push_back(draft());
    request.draft_default = draft();
    return request;
  }
  DraftEntry draft() {
    DraftEntry entry{static_cast<DraftEntry::Kind>(below(4)), 0};
    if (entry.kind == DraftEntry::Kind::Token) entry.token = below(limit_);
    return entry;
  }

  void entries(Scenario& s) {
    std::vector<std::string> lives;
    for (const RequestSpec& request : s.requests) lives.push_back(request.key);
    for (std::uint32_t i = below(6); i > 0; --i) {
      s.events.push_back(entry(s, static_cast<ForcedEventType>(below(12)), lives));
      if (s.events.back().type == ForcedEventType::Fork) lives.push_back(s.events.back().as);
    }
    for (std::uint32_t i = below(4); i > 0; --i) {
      s.faults.push_back(entry(s, static_cast<ForcedEventType>(12 + below(3)), lives));
    }
  }

  ForcedEvent entry(const Scenario& s, ForcedEventType type,
                    const std::vector<std::string>& lives) {
    using Type = ForcedEventType;
    ForcedEvent event;
    event.type = type;
    event.trigger = {static_cast<Trigger::Kind>(below(4)), below(100), 0};
    const bool named = event.trigger.kind == Trigger::Kind::Emitted ||
                       event.trigger.kind == Trigger::Kind::Computed;
    if (named) event.trigger.request = below(lives.size());
    const bool completion = type == Type::Late || type == Type::Duplicate || type == Type::Lost;
    if (completion) {
      event.launch = event.trigger.kind == Trigger::Kind::Launch ? event.trigger.value : below(9);
    }
    if (type == Type::Late || type == Type::Duplicate || type == Type::Stall) {
      event.ticks = 1 + below(9);
    }
    if (type <= Type::Admit || type == Type::Preempt || type == Type::Fork) {
      event.request = lives[below(lives.size())];
    }
    if (type <= Type::Disconnect) event.delay = below(3);
    if (type == Type::Schedule) event.rows = {{lives[below(lives.size())], 1 + below(9)}};
    if (type == Type::Fork) {
      event.as = "fork" + std::to_string(lives.size());
      event.tokens = tokens(below(3));
      event.back = below(3);
    }
    event.any_pool = !(type == Type::Evict || type == Type::Flip) && (type != Type::Fail || coin());
    if (!event.any_pool) event.pool = below(s.engine.pools.size());
    if (type == Type::Evict) event.blocks = 1 + below(9);
    if (type == Type::Fail) {
      event.what = event.any_pool ? static_cast<FailPoint>(below(4)) : FailPoint::BlockAlloc;
      event.nth = 1 + below(3);
      event.count = 1 + below(3);
    }
    if (type == Type::Flip) {
      event.block = below(s.engine.pools[event.pool].num_blocks);
      event.bits = 1 + large() / 2;
    }
    return event;
  }

  base::Prng prng_;
  std::uint64_t limit_ = 257;
};

RC_GTEST_PROP(ScenarioJson, WritingAndReadingGivesTheSame, (std::uint64_t seed)) {
  const Scenario scenario = Generator(seed).scenario();
  const std::string text = write_scenario(scenario);
  const auto again = parse_scenario(text, "again.json");
  if (!again.ok()) RC_FAIL(again.error().message() + "\n" + text);
  if (!(*again == scenario)) RC_FAIL(text + "\n" + write_scenario(*again));
}

}  // namespace
}  // namespace lockstep::trace
