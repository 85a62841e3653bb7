// What generate() promises: valid, the same again, and every feature comes up.
#include "harness/search/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness/search/campaign.h"
#include "harness/search/edits.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

using trace::ForcedEvent;
using trace::ForcedEventType;
using trace::RequestSpec;
using trace::Scenario;

std::vector<ForcedEvent> all_events(const Scenario& scenario) {
  std::vector<ForcedEvent> all = scenario.events;
  all.insert(all.end(), scenario.faults.begin(), scenario.faults.end());
  return all;
}

// The name of the first event that names nothing; "" if all do.
std::string dangling(const Scenario& scenario) {
  const std::vector<std::string> keys = life_keys(scenario);
  const auto known = [&](const std::string& key) {
    return std::ranges::find(keys, key) != keys.end();
  };
  for (const ForcedEvent& event : all_events(scenario)) {
    if (!event.request.empty() && !known(event.request)) return event.request;
    if (event.trigger.request >= keys.size()) return "trigger";
    if (event.pool >= scenario.engine.pools.size()) return "pool";
    for (const auto& row : event.rows) {
      if (!known(row.first)) return row.first;
    }
  }
  return "";
}

TEST(Generate, WhatIsWrittenParsesToTheSameAndNamesOnlyWhatExists) {
  for (std::uint64_t number = 0; number < 5000; ++number) {
    const Scenario scenario = generate(1, number);
    const std::string text = trace::write_scenario(scenario);
    const base::Result<Scenario> again = trace::parse_scenario(text, "generated");
    ASSERT_TRUE(again.ok()) << "case " << number << ": " << again.error().message() << "\n" << text;
    ASSERT_EQ(trace::write_scenario(*again), text) << "case " << number;
    ASSERT_EQ(dangling(scenario), "") << "case " << number << "\n" << text;
    ASSERT_TRUE(ends_by_itself(scenario)) << "case " << number << "\n" << text;
  }
}

TEST(Generate, TheSameSeedGivesTheSameAndAnotherSeedAnother) {
  for (std::uint64_t number = 0; number < 1000; ++number) {
    ASSERT_EQ(trace::write_scenario(generate(7, number)),
              trace::write_scenario(generate(7, number)));
  }
  EXPECT_NE(trace::write_scenario(generate(7, 0)), trace::write_scenario(generate(8, 0)));
}

void count_engine(const Scenario& scenario, std::map<std::string, int>& seen) {
  const trace::EngineSettings& engine = scenario.engine;
  for (const trace::GroupSpec& group : engine.groups) {
    ++seen["group " + std::to_string(static_cast<int>(group.type))];
    seen["block of 1"] += group.block_size == 1;
    seen["block of its own"] += group.block_size != engine.block_size;
  }
  seen["shared pool"] += engine.groups.size() > engine.pools.size();
  seen["several pools"] += engine.pools.size() > 1;
  seen["no cache"] += !engine.enable_prefix_caching;
  seen["8 bits"] += engine.prefix_hash_bits == 8;
  seen["no chunks"] += !engine.enable_chunked_prefill;
  seen["chunk size"] += engine.chunked_prefill_size > 0;
  seen["budget"] += engine.max_num_batched_tokens < 20;
  seen["one at a time"] += engine.max_num_seqs == 1;
  seen["queue"] += engine.max_waiting > 0;
  seen["priority"] += engine.scheduling_policy == trace::SchedulingPolicy::Priority;
  ++seen["async " + std::to_string(engine.async_depth)];
  seen["capture"] += !engine.cudagraph_capture_sizes.empty();
  ++seen["pad " + std::to_string(static_cast<int>(engine.pad_fill))];
  ++seen["fill " + std::to_string(static_cast<int>(engine.fill_new_blocks))];
  if (engine.speculative) {
    ++seen["acceptance " + std::to_string(static_cast<int>(engine.speculative->acceptance))];
  }
  seen["watchdog"] += engine.watchdog_ticks != 64;
}

void count_requests(const Scenario& scenario, std::map<std::string, int>& seen) {
  std::map<std::string, int> ids;
  for (const RequestSpec& request : scenario.requests) {
    seen["id again"] += ++ids[request.id] == 2;
    seen["adapter"] += request.adapter.has_value();
    seen["salt"] += request.cache_salt.has_value();
    seen["adapter named like a salt"] +=
        request.adapter && std::ranges::any_of(scenario.requests, [&](const RequestSpec& other) {
          return other.cache_salt == scenario.adapters[*request.adapter].name && !other.adapter;
        });
    const trace::SamplingParams& sampling = request.sampling;
    seen["temperature"] += sampling.temperature > 0;
    seen["seed"] += sampling.seed.has_value();
    seen["no seed"] += sampling.temperature > 0 && !sampling.seed;
    seen["top_k"] += sampling.top_k > 0;
    seen["top_p"] += sampling.top_p < 1;
    seen["min_p"] += sampling.min_p > 0;
    seen["penalties"] += sampling.has_penalties();
    seen["bias"] += !sampling.logit_bias.empty();
    seen["min_tokens"] += sampling.min_tokens > 0;
    seen["stop ids"] += !sampling.stop_token_ids.empty();
    seen["ignore_eos"] += sampling.ignore_eos;
    seen["logprobs"] += sampling.logprobs.has_value();
    seen["hold"] += request.hold;
    for (const trace::ScriptEntry& entry : request.script) {
      ++seen["script " + std::to_string(static_cast<int>(entry.kind))];
      seen["script ends"] += entry.kind == trace::ScriptEntry::Kind::Token && entry.token == 256;
    }
    for (const trace::DraftEntry& entry : request.draft) {
      ++seen["draft " + std::to_string(static_cast<int>(entry.kind))];
    }
    const std::size_t block = scenario.engine.block_size, tokens = request.prompt.size();
    ++seen["prompt at " + std::string(tokens % block == 0 ? "a block" : "within")];
    seen["prompt one above"] += block > 2 && tokens % block == 1;
    seen["prompt one below"] += block > 2 && tokens % block == block - 1;
  }
  for (std::size_t i = 1; i < scenario.requests.size(); ++i) {
    const auto &a = scenario.requests[0].prompt, &b = scenario.requests[i].prompt;
    const std::size_t block = scenario.engine.block_size;
    seen["shared prefix"] +=
        a.size() >= block && b.size() >= block &&
        std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(block), b.begin());
  }
}

TEST(Generate, EveryFeatureComesUp) {
  std::map<std::string, int> seen;
  for (std::uint64_t number = 0; number < 5000; ++number) {
    const Scenario scenario = generate(1, number);
    count_engine(scenario, seen);
    count_requests(scenario, seen);
    for (const ForcedEvent& event : all_events(scenario)) {
      ++seen["event " + std::to_string(static_cast<int>(event.type))];
      ++seen["trigger " + std::to_string(static_cast<int>(event.trigger.kind))];
      seen["delay"] += event.delay > 0;
      if (event.type == ForcedEventType::Fail) {
        ++seen["fail " + std::to_string(static_cast<int>(event.what))];
        seen["fail in a pool"] += !event.any_pool;
      }
    }
  }
  for (int type = 0; type <= static_cast<int>(ForcedEventType::DeviceLost); ++type) {
    EXPECT_GE(seen["event " + std::to_string(type)], 100) << "event type " << type;
  }
  for (int kind = 0; kind < 4; ++kind) {
    for (const char* what : {"trigger ", "pad ", "fail "}) {
      EXPECT_GE(seen[what + std::to_string(kind)], 100) << what << kind;
    }
    EXPECT_GE(seen["draft " + std::to_string(kind)], 50) << "draft " << kind;
  }
  for (int kind = 0; kind < 3; ++kind) {
    for (const char* what : {"group ", "fill ", "script "}) {
      EXPECT_GE(seen[what + std::to_string(kind)], 100) << what << kind;
    }
    EXPECT_GE(seen["async " + std::to_string(kind + 1)], 100) << "async " << kind + 1;
  }
  EXPECT_GE(seen["acceptance 0"], 100);
  EXPECT_GE(seen["acceptance 1"], 100);
  for (const auto& [name, count] : seen) EXPECT_GE(count, 20) << name;
}

TEST(Generate, AnyBytesGiveAValidScenario) {
  base::Prng prng(5);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::byte> bytes(prng.below(600));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
    const Scenario scenario = generate_from_bytes(bytes);
    const std::string text = trace::write_scenario(scenario);
    const base::Result<Scenario> again = trace::parse_scenario(text, "bytes");
    ASSERT_TRUE(again.ok()) << again.error().message() << "\n" << text;
    ASSERT_EQ(dangling(scenario), "") << text;
  }
  const Scenario plainest = generate_from_bytes({});
  EXPECT_EQ(plainest.size(), 1u);
}

TEST(Mutations, AreValidAndMostlyDiffer) {
  int differ = 0;
  for (std::uint64_t number = 0; number < 500; ++number) {
    const Scenario base = generate(3, number);
    const Scenario other = mutated(base, 1, number);
    const std::string text = trace::write_scenario(other);
    ASSERT_TRUE(trace::parse_scenario(text, "mutation").ok()) << text;
    ASSERT_TRUE(ends_by_itself(other)) << text;
    ASSERT_EQ(dangling(other), "") << text;
    differ += text != trace::write_scenario(base);
  }
  EXPECT_GE(differ, 400);
}

}  // namespace
}  // namespace lockstep::harness
