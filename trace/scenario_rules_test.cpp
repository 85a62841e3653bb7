// Every rule of the scenario format with a file that breaks it, and every field that is not built.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trace/scenario_json.h"
#include "trace/scenario_reader.h"

namespace lockstep::trace {
namespace {

using testing::HasSubstr;

struct Rule {
  std::string text;   // of the part that the table is about
  std::string where;  // JSON pointer
  std::string rule;   // part of the message
};

void expect_error(const std::string& text, const std::string& where, const std::string& rule,
                  int status) {
  const auto scenario = parse_scenario(text, "s.json");
  ASSERT_FALSE(scenario.ok()) << text;
  EXPECT_EQ(scenario.error().file, "s.json");
  EXPECT_EQ(scenario.error().exit_status(), status) << text << scenario.error().message();
  EXPECT_EQ(scenario.error().where, where) << text << scenario.error().message();
  EXPECT_THAT(scenario.error().rule, HasSubstr(rule)) << text;
}

void expect_input_errors(const std::vector<Rule>& rules, const std::string& before,
                         const std::string& after) {
  for (const Rule& rule : rules) {
    expect_error(before + rule.text + after, rule.where, rule.rule, 2);
  }
}

TEST(ScenarioRules, SyntaxErrorsNameTheByte) {
  const auto scenario = parse_scenario("{\"seed\": 1,}", "s.json");
  ASSERT_FALSE(scenario.ok());
  EXPECT_EQ(scenario.error().exit_status(), 2);
  EXPECT_EQ(scenario.error().offset, 12u);
  EXPECT_THAT(scenario.error().message(), HasSubstr("s.json: offset 12"));
  for (const char* text : {"", "{", "nul", "{} {}", "[1", "{\"note\": \"\xff\"}", "{\"seed\": 01}",
                           "{\"seed\": NaN}", "{\"max_ticks\": Infinity}", "{'seed': 1}"}) {
    const auto broken = parse_scenario(text, "s.json");
    ASSERT_FALSE(broken.ok()) << text;
    EXPECT_EQ(broken.error().exit_status(), 2) << text;
    EXPECT_TRUE(broken.error().offset.has_value()) << text;
  }
}

TEST(ScenarioRules, DuplicateKeysDepthAndSizeAreErrors) {
  expect_error(R"({"seed": 1, "seed": 1})", "/seed", "\"seed\" occurs twice", 2);
  expect_error(R"({"requests": [{}, {"key": "A", "script": [1, {"a/b": 1, "a/b": 2}]}]})",
               "/requests/1/script/1/a~1b", "occurs twice", 2);
  base::Limits limits;
  limits.json_depth = 2;
  const auto deep = parse_scenario(R"({"requests": [[]]})", "s.json", limits);
  ASSERT_FALSE(deep.ok());
  EXPECT_THAT(deep.error().message(), HasSubstr("s.json: /requests/0: nested deeper"));
  EXPECT_THAT(deep.error().message(), HasSubstr("json_depth"));
  limits.json_bytes = 4;
  const auto large = parse_scenario(R"({"seed": 1})", "s.json", limits);
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.error().message(), HasSubstr("json_bytes"));
}

TEST(ScenarioRules, TopLevel) {
  expect_input_errors(
      {
          {"[]", "", "must be an object"},
          {"3", "", "must be an object"},
          {R"({"sead": 1})", "/sead", "unknown field"},
          {R"({"a/b~": 1})", "/a~1b~0", "unknown field"},
          {R"({"schema": "lockstep.scenario/2"})", "/schema", "lockstep.scenario/1"},
          {R"({"note": 1})", "/note", "must be text"},
          {R"({"seed": -1})", "/seed", "integer from 0 to 9007199254740991, not -1"},
          {R"({"seed": 1.0})", "/seed", "not 1.0"},
          {R"({"seed": 9007199254740992})", "/seed", "not 9007199254740992"},
          {R"({"seed": 99999999999999999999})", "/seed", "integer"},
          {R"({"seed": "1"})", "/seed", "integer"},
          {R"({"seed": null})", "/seed", "integer"},
          {R"({"seed": true})", "/seed", "integer"},
          {R"({"executor": "gpu"})", "/executor", "`ledger`, `device`"},
          {R"({"executor": 1})", "/executor", "must be one of"},
          {R"({"device": ""})", "/device", "1 to 256 bytes"},
          {R"({"model": "tiny:llama:1"})", "/model", "must be an object"},
          {R"({"executor": "device", "model": {}})", "/model", "must be text"},
          {R"({"model": {"size": 1}})", "/model/size", "unknown field"},
          {R"({"model": {"tokenizer_size": 1}})", "/model/tokenizer_size", "from 2 to"},
          {R"({"model": {"tokenizer_size": 1048577}})", "/model/tokenizer_size", "to 1048576"},
          {R"({"model": {"vocab_size": 256}})", "/model/vocab_size", "from 257"},
          {R"({"model": {"eos_token_ids": [257]}})", "/model/eos_token_ids/0", "to 256"},
          {R"({"model": {"eos_token_ids": 256}})", "/model/eos_token_ids", "must be a list"},
          {R"({"model": {"eos_token_ids": [1.5]}})", "/model/eos_token_ids/0", "integer"},
          {R"({"observe": {"ticks": [1, -1]}})", "/observe/ticks/1", "integer"},
          {R"({"observe": {"steps": 1}})", "/observe/steps", "true or false"},
          {R"({"observe": {"every": 1}})", "/observe/every", "unknown field"},
          {R"({"taps": "all"})", "/taps", "`none`, `logits`, `ops`"},
          {R"({"max_ticks": 0})", "/max_ticks", "from 1"},
      },
      "", "");
}

TEST(ScenarioRules, Adapters) {
  expect_input_errors(
      {
          {R"({})", "/adapters", "must be a list"},
          {R"([1])", "/adapters/0", "must be an object"},
          {R"([{"weights": 1}])", "/adapters/0", "`key` is missing"},
          {R"([{"key": "a"}])", "/adapters/0", "`weights` is missing"},
          {R"([{"key": "", "weights": 1}])", "/adapters/0/key", "1 to 256 bytes"},
          {R"([{"key": "a", "weights": 0}])", "/adapters/0/weights", "from 1"},
          {R"([{"key": "a", "weights": 1, "id": -1}])", "/adapters/0/id", "integer"},
          {R"([{"key": "a", "weights": 1, "rank": 8}])", "/adapters/0/rank", "unknown field"},
          {R"([{"key": "a", "weights": 1}, {"key": "a", "weights": 2}])", "/adapters/1/key",
           "occurs twice"},
      },
      R"({"adapters": )", "}");
}

TEST(ScenarioRules, Engine) {
  expect_input_errors(
      {
          {R"("blocksize": 4)", "/engine/blocksize", "unknown field"},
          {R"("block_size": 0)", "/engine/block_size", "from 1 to 4096"},
          {R"("block_size": 4097)", "/engine/block_size", "from 1 to 4096"},
          {R"("pools": [{"name": "full"}])", "/engine/pools/0", "`num_blocks` is missing"},
          {R"("pools": [{"num_blocks": 1}])", "/engine/pools/0", "`name` is missing"},
          {R"("pools": [{"name": "a", "num_blocks": 0}])", "/engine/pools/0/num_blocks", "from 1"},
          {R"("pools": [{"name": "a", "num_blocks": 1048577}])", "/engine/pools/0/num_blocks",
           "to 1048576"},
          {R"("pools": [{"name": "a", "num_blocks": 1}, {"name": "a", "num_blocks": 1}])",
           "/engine/pools/1/name", "occurs twice"},
          {R"("block_size": 4096, "pools": [{"name": "full", "num_blocks": 16385}])", "/engine",
           "67112960 cells"},
          {R"("enable_prefix_caching": 1)", "/engine/enable_prefix_caching", "true or false"},
          {R"("prefix_hash_bits": 7)", "/engine/prefix_hash_bits", "from 8 to 256"},
          {R"("prefix_hash_bits": 257)", "/engine/prefix_hash_bits", "from 8 to 256"},
          {R"("max_num_seqs": 0)", "/engine/max_num_seqs", "from 1"},
          {R"("max_num_batched_tokens": 0)", "/engine/max_num_batched_tokens", "from 1"},
          {R"("enable_chunked_prefill": "yes")", "/engine/enable_chunked_prefill", "true or false"},
          {R"("chunked_prefill_size": -1)", "/engine/chunked_prefill_size", "from 0"},
          {R"("max_model_len": 0)", "/engine/max_model_len", "from 1"},
          {R"("max_waiting": -1)", "/engine/max_waiting", "from 0"},
          {R"("scheduling_policy": "lifo")", "/engine/scheduling_policy", "`fcfs`, `priority`"},
          {R"("preemption_mode": "drop")", "/engine/preemption_mode", "`recompute`, `swap`"},
          {R"("async_depth": 0)", "/engine/async_depth", "from 1 to 3"},
          {R"("async_depth": 4)", "/engine/async_depth", "from 1 to 3"},
          {R"("cudagraph_capture_sizes": [0])", "/engine/cudagraph_capture_sizes/0", "from 1"},
          {R"("pad_fill": "ones")", "/engine/pad_fill", "`zero`, `stale`, `nan`, `huge`"},
          {R"("fill_new_blocks": "nan")", "/engine/fill_new_blocks", "`poison`, `zero`, `none`"},
          {R"("watchdog_ticks": 0)", "/engine/watchdog_ticks", "from 1"},
          {R"("speculative": {})", "/engine/speculative", "`method` is missing"},
          {R"("speculative": {"method": "magic"})", "/engine/speculative/method", "`scripted`"},
          {R"("speculative": {"method": "scripted", "num_speculative_tokens": 0})",
           "/engine/speculative/num_speculative_tokens", "from 1 to 16"},
          {R"("speculative": {"method": "scripted", "num_speculative_tokens": 17})",
           "/engine/speculative/num_speculative_tokens", "from 1 to 16"},
          {R"("speculative": {"method": "scripted", "acceptance": "typical"})",
           "/engine/speculative/acceptance", "`rejection`, `same_draw`"},
          {R"("speculative": {"method": "scripted", "tree": [0]})", "/engine/speculative/tree/0",
           "from -1 to -1"},
          {R"("speculative": {"method": "scripted", "tree": [-1, 0]})", "/engine/speculative/tree",
           "num_speculative_tokens = 1"},
          {R"("tiers": {"tape_blocks": 1})", "/engine/tiers/tape_blocks", "unknown field"},
          {R"("kv_load_failure_policy": "ignore")", "/engine/kv_load_failure_policy", "one of"},
          {R"("stream": {"queue_bytes": 0})", "/engine/stream/queue_bytes", "from 1"},
          {R"("kv_cache_dtype": 8)", "/engine/kv_cache_dtype", "must be text"},
      },
      R"({"engine": {)", "}}");
}

TEST(ScenarioRules, Groups) {
  const std::string group = "/engine/kv_cache_groups/0";
  expect_input_errors(
      {
          {R"()", "/engine/kv_cache_groups", "at least one group"},
          {R"({"type": "mamba"})", group, "`name` is missing"},
          {R"({"name": "a"})", group, "`type` is missing"},
          {R"({"name": "a", "type": "ring"})", group + "/type", "`full_attention`"},
          {R"({"name": "a", "type": "mamba", "heads": 1})", group + "/heads", "unknown field"},
          {R"({"name": "a", "type": "mamba", "block_size": 0})", group + "/block_size", "from 1"},
          {R"({"name": "a", "type": "mamba", "kernel_block_size": 5})",
           group + "/kernel_block_size", "divide"},
          {R"({"name": "a", "type": "mamba", "conv_width": 0})", group + "/conv_width", "from 1"},
          {R"({"name": "a", "type": "full_attention", "conv_width": 4})", group + "/conv_width",
           "mamba"},
          {R"({"name": "a", "type": "full_attention", "window": 4})", group + "/window",
           "sliding_window"},
          {R"({"name": "a", "type": "sliding_window"})", group, "`window` is missing"},
          {R"({"name": "a", "type": "sliding_window", "window": 0})", group + "/window", "from 1"},
          {R"({"name": "a", "type": "full_attention", "ring_tokens": 32})", group + "/ring_tokens",
           "sliding_window"},
          {R"({"name": "a", "type": "sliding_window", "window": 4, "ring_tokens": 20})",
           group + "/ring_tokens", "multiple of block_size"},
          {R"({"name": "a", "type": "sliding_window", "window": 40, "ring_tokens": 32})",
           group + "/ring_tokens", "at least window"},
          {R"({"name": "a", "type": "full_attention", "shares": "b"})", group + "/shares",
           "an earlier group"},
          {R"({"name": "a", "type": "mamba"}, {"name": "a", "type": "mamba"})",
           "/engine/kv_cache_groups/1/name", "occurs twice"},
      },
      R"({"engine": {"kv_cache_groups": [)", "]}}");
}

TEST(ScenarioRules, Requests) {
  const std::string at = "/requests/0/";
  expect_input_errors(
      {
          {R"("prompt": [1])", "/requests/0", "`key` is missing"},
          {R"("key": "A")", "/requests/0", "`prompt` is missing"},
          {R"("key": "", "prompt": [1])", at + "key", "1 to 256 bytes"},
          {R"("key": 1, "prompt": [1])", at + "key", "must be text"},
          {R"("key": "A", "id": "", "prompt": [1])", at + "id", "1 to 256 bytes"},
          {R"("key": "A", "prompt": [1]}, {"key": "A", "prompt": [1])", "/requests/1/key",
           "occurs twice"},
          {R"("key": "A", "prompt": [])", at + "prompt", "1 to 1048576 tokens"},
          {R"("key": "A", "prompt": "")", at + "prompt", "1 to 1048576 bytes"},
          {R"("key": "A", "prompt": 3)", at + "prompt", "must be a list"},
          {R"("key": "A", "prompt": [257])", at + "prompt/0", "to 256, not 257"},
          {R"("key": "A", "prompt": [1, -1])", at + "prompt/1", "from 0"},
          {R"("key": "A", "prompt": [1, "b"])", at + "prompt/1", "token id or a run"},
          {R"("key": "A", "prompt": [{"seed": 1}])", at + "prompt/0", "`length` is missing"},
          {R"("key": "A", "prompt": [{"length": 1}])", at + "prompt/0", "`seed` is missing"},
          {R"("key": "A", "prompt": [{"seed": 1, "length": 0}])", at + "prompt/0/length", "from 1"},
          {R"("key": "A", "prompt": [{"seed": 1, "length": 1, "step": 1}])", at + "prompt/0/step",
           "unknown field"},
          {R"("key": "A", "prompt": [{"seed": 1, "length": 1048576}, 1])", at + "prompt",
           "1 to 1048576 tokens"},
          {R"("key": "A", "prompt": [1]}, 1, {"key": "B", "prompt": [1])", "/requests/1",
           "must be an object"},
      },
      R"({"requests": [{)", "}]}");
  expect_error(R"({"model": {"tokenizer_size": 100}, "requests": [{"key": "A", "prompt": "az"}]})",
               "/requests/0/prompt", "byte 122 is no token", 2);
  std::string many = R"({"requests": [)";
  for (int i = 0; i < 17; ++i) {
    many +=
        R"({"key": ")" + std::to_string(i) + R"(", "prompt": [{"seed": 1, "length": 1048576}]},)";
  }
  many.back() = ']';
  expect_error(many + "}", "/requests/16", "together have more than 16777216", 2);
}

TEST(ScenarioRules, RequestFields) {
  const std::string at = "/requests/0/";
  expect_input_errors(
      {
          {R"("temprature": 1)", at + "temprature", "unknown field"},
          {R"("tick": -1)", at + "tick", "from 0"},
          {R"("hold": 0)", at + "hold", "true or false"},
          {R"("priority": 2147483648)", at + "priority", "to 2147483647"},
          {R"("priority": -2147483649)", at + "priority", "from -2147483648"},
          {R"("priority": 0.5)", at + "priority", "integer"},
          {R"("adapter": "none")", at + "adapter", "no adapter has the key `none`"},
          {R"("cache_salt": "")", at + "cache_salt", "bytes"},
          {R"("max_tokens": 0)", at + "max_tokens", "from 1"},
          {R"("max_tokens": null)", at + "max_tokens", "integer"},
          {R"("min_tokens": 17)", at + "min_tokens", "from 0 to 16"},
          {R"("stop_token_ids": [257])", at + "stop_token_ids/0", "to 256"},
          {R"("ignore_eos": null)", at + "ignore_eos", "true or false"},
          {R"("logit_bias": [1])", at + "logit_bias", "{token id: number}"},
          {R"("logit_bias": {"01": 1})", at + "logit_bias/01", "must be a token id"},
          {R"("logit_bias": {"257": 1})", at + "logit_bias/257", "from 0 to 256"},
          {R"("logit_bias": {"a/b": 1})", at + "logit_bias/a~1b", "must be a token id"},
          {R"("logit_bias": {"1": 101})", at + "logit_bias/1", "from -100.0 to 100.0"},
          {R"("logit_bias": {"1": null})", at + "logit_bias/1", "must be a number"},
          {R"("temperature": -0.1)", at + "temperature", "from 0.0"},
          {R"("temperature": "0")", at + "temperature", "must be a number"},
          {R"("top_k": -2)", at + "top_k", "from -1"},
          {R"("top_p": 0)", at + "top_p", "above 0"},
          {R"("top_p": 1.1)", at + "top_p", "to 1.0"},
          {R"("min_p": -0.1)", at + "min_p", "from 0.0 to 1.0"},
          {R"("min_p": 1.1)", at + "min_p", "from 0.0 to 1.0"},
          {R"("seed": -1)", at + "seed", "from 0"},
          {R"("repetition_penalty": 0)", at + "repetition_penalty", "above 0"},
          {R"("repetition_penalty": -1)", at + "repetition_penalty", "from 0.0"},
          {R"("presence_penalty": 2.5)", at + "presence_penalty", "from -2.0 to 2.0"},
          {R"("frequency_penalty": -2.5)", at + "frequency_penalty", "from -2.0 to 2.0"},
          {R"("logprobs": 258)", at + "logprobs", "to 257"},
          {R"("logprobs_mode": "raw")", at + "logprobs_mode", "`raw_logprobs`"},
          {R"("script": [-1])", at + "script/0", "from 0 to 256"},
          {R"("script": ["1"])", at + "script/0", "integer"},
          {R"("script": [1, {}])", at + "script/1", "`logits` is missing"},
          {R"("script": [{"logits": {}}])", at + "script/0/logits", "at least one"},
          {R"("script": [{"logits": {"1": 1}, "p": 1}])", at + "script/0/p", "unknown field"},
          {R"("script": [{"logits": {"1": 1e7}}])", at + "script/0/logits/1", "must be a number"},
          {R"("script": 4)", at + "script", "must be a list"},
          {R"("draft": ["math"])", at + "draft/0", "`match`, `miss`, `none`"},
          {R"("draft": [257])", at + "draft/0", "to 256"},
          {R"("draft": [null])", at + "draft/0", "must be `match`"},
          {R"("draft_default": [1])", at + "draft_default", "must be `match`"},
          {R"("media": [{"offset": 0, "length": 2, "hash": "0f"}])", at + "media/0", "within"},
          {R"("media": [{"offset": 0, "length": 1}])", at + "media/0", "`hash` is missing"},
          {R"("media": [{"offset": 0, "length": 1, "hash": "xy"}])", at + "media/0/hash", "hex"},
          {R"("stop": "")", at + "stop", "bytes"},
          {R"("stop": ["a", 1])", at + "stop/1", "must be text"},
          {R"("include_stop_str_in_output": 1)", at + "include_stop_str_in_output", "true"},
          {R"("prompt_logprobs": -2)", at + "prompt_logprobs", "from -1"},
          {R"("n": 0)", at + "n", "from 1"},
          {R"("beam_width": -1)", at + "beam_width", "from 0"},
          {R"("grammar": {})", at + "grammar", "`states` is missing"},
          {R"("kv_transfer": {})", at + "kv_transfer", "`tokens` is missing"},
          {R"("kv_transfer": {"tokens": 2})", at + "kv_transfer/tokens", "from 1 to 1"},
          {R"("client": {"speed": 1})", at + "client/speed", "unknown field"},
          {R"("raw": [])", at + "raw", "must be an object"},
      },
      R"({"requests": [{"key": "A", "prompt": [1], )", "}]}");
}

const std::string kTwo =
    R"({"requests": [{"key": "A", "prompt": [1]}, {"key": "B", "prompt": [1]}], )";

TEST(ScenarioRules, Events) {
  const std::string at = "/events/0";
  expect_input_errors(
      {
          {R"("type": "cancel", "request": "A")", at, "one trigger"},
          {R"("tick": 1, "launch": 1, "type": "cancel", "request": "A")", at, "one trigger"},
          {R"("tick": 1, "request": "A")", at + "/request", "unknown field"},
          {R"("tick": 1)", at, "`type` is missing"},
          {R"("tick": 1, "type": "explode")", at + "/type", "is called \"explode\""},
          {R"("tick": 1, "type": 3)", at + "/type", "is called 3"},
          {R"("tick": 1, "type": "flip")", at + "/type", "stands in `faults`"},
          {R"("tick": -1, "type": "reset_prefix_cache")", at + "/tick", "from 0"},
          {R"("launch": 4294967295, "type": "reset_prefix_cache")", at + "/launch", "4294967294"},
          {R"("when": {"request": "A"}, "type": "reset_prefix_cache")", at + "/when", "one of"},
          {R"("when": {"request": "A", "emitted": 1, "computed": 1}, "type": "cancel",
              "request": "A")",
           at + "/when", "one of"},
          {R"("when": {"request": "C", "emitted": 1}, "type": "cancel", "request": "A")",
           at + "/when/request", "has the key `C`"},
          {R"("when": {"emitted": 1}, "type": "cancel", "request": "A")", at + "/when",
           "`request` is missing"},
          {R"("tick": 1, "type": "cancel")", at, "`request` is missing"},
          {R"("tick": 1, "type": "cancel", "request": "C")", at + "/request", "has the key `C`"},
          {R"("tick": 1, "type": "cancel", "request": "A", "delay": -1)", at + "/delay", "from 0"},
          {R"("tick": 1, "type": "admit", "request": "A", "delay": 1)", at + "/delay", "unknown"},
          {R"("tick": 1, "type": "preempt", "request": "A", "mode": "x")", at + "/mode", "one of"},
          {R"("tick": 1, "type": "schedule")", at, "`rows` is missing"},
          {R"("tick": 1, "type": "schedule", "rows": [["A"]])", at + "/rows/0", "must be ["},
          {R"("tick": 1, "type": "schedule", "rows": [["A", 0]])", at + "/rows/0/1", "from 1"},
          {R"("tick": 1, "type": "schedule", "rows": [["C", 1]])", at + "/rows/0/0", "key `C`"},
          {R"("tick": 1, "type": "schedule", "rows": [["A", 1], ["A", 1]])", at + "/rows/1",
           "two rows"},
          {R"("tick": 1, "type": "fork", "request": "A")", at, "`as` is missing"},
          {R"("tick": 1, "type": "fork", "request": "A", "as": "B")", at + "/as", "is taken"},
          {R"("tick": 1, "type": "fork", "request": "A", "as": "C", "tokens": [257])",
           at + "/tokens/0", "to 256"},
          {R"("tick": 1, "type": "fork", "request": "C", "as": "C")", at + "/request", "key `C`"},
          {R"("tick": 1, "type": "fork", "request": "A", "as": "C", "back": -1)", at + "/back",
           "from 0"},
          {R"("tick": 1, "type": "evict", "blocks": 1)", at, "`pool` is missing"},
          {R"("tick": 1, "type": "evict", "pool": "full")", at, "`blocks` is missing"},
          {R"("tick": 1, "type": "evict", "pool": "p", "blocks": 1)", at + "/pool", "name `p`"},
          {R"("tick": 1, "type": "evict", "pool": "full", "blocks": 0)", at + "/blocks", "from 1"},
          {R"("tick": 1, "type": "reset_prefix_cache", "pool": "full")", at + "/pool", "unknown"},
          {R"("tick": 1, "type": "late", "ticks": 1)", at, "`launch` is missing"},
          {R"("launch": 1, "type": "late")", at, "`ticks` is missing"},
          {R"("launch": 1, "type": "late", "ticks": 0)", at + "/ticks", "from 1"},
          {R"("launch": 1, "type": "lost", "ticks": 1)", at + "/ticks", "unknown field"},
          {R"("launch": 1, "type": "lost", "copy": 1)", at + "/copy", "instead of launch"},
          {R"("tick": 1, "type": "stall", "ticks": 1)", at, "`stream` is missing"},
          {R"("tick": 1, "type": "stall", "stream": "disk", "ticks": 1)", at + "/stream", "h2d"},
          {R"("tick": 1, "type": "stall", "stream": "compute", "ticks": 0)", at + "/ticks",
           "from 1"},
          {R"("tick": 1, "type": "swap_out", "request": "C")", at + "/request", "key `C`"},
      },
      kTwo + R"("events": [{)", "}]}");
}

TEST(ScenarioRules, Faults) {
  const std::string at = "/faults/0";
  expect_input_errors(
      {
          {R"("tick": 1, "type": "cancel", "request": "A")", at + "/type", "stands in `events`"},
          {R"("tick": 1, "type": "fail")", at, "`what` is missing"},
          {R"("tick": 1, "type": "fail", "what": "paper")", at + "/what", "`host_alloc`"},
          {R"("tick": 1, "type": "fail", "what": "launch", "nth": 0)", at + "/nth", "from 1"},
          {R"("tick": 1, "type": "fail", "what": "launch", "count": 0)", at + "/count", "from 1"},
          {R"("tick": 1, "type": "fail", "what": "launch", "pool": "full")", at + "/pool",
           "block_alloc"},
          {R"("tick": 1, "type": "fail", "what": "block_alloc", "pool": "p")", at + "/pool",
           "name `p`"},
          {R"("tick": 1, "type": "flip", "block": 1)", at, "`pool` is missing"},
          {R"("tick": 1, "type": "flip", "pool": "full")", at, "`block` is missing"},
          {R"("tick": 1, "type": "flip", "pool": "full", "block": 1024)", at + "/block", "to 1023"},
          {R"("tick": 1, "type": "flip", "pool": "full", "block": 0, "offset": 16)", at + "/offset",
           "to 15"},
          {R"("tick": 1, "type": "flip", "pool": "full", "block": 0, "bits": 0)", at + "/bits",
           "from 1"},
          {R"("tick": 1, "type": "flip", "pool": "full", "tier": "host", "block": 0)", at + "/tier",
           "instead of pool"},
          {R"("tick": 1, "type": "device_lost", "request": "A")", at + "/request", "unknown"},
      },
      kTwo + R"("faults": [{)", "}]}");
}

struct Unbuilt {
  std::string text;
  std::string where;
  std::string name;
};

void expect_unbuilt(const std::vector<Unbuilt>& fields, const std::string& before,
                    const std::string& after) {
  for (const Unbuilt& field : fields) {
    expect_error(before + field.text + after, field.where, "`" + field.name + "`", 4);
  }
}

TEST(ScenarioRules, UnbuiltFieldsOfTheEngine) {
  expect_unbuilt(
      {
          {R"("preemption_mode": "swap")", "/engine/preemption_mode", "engine.preemption_mode"},
          {R"("tiers": {})", "/engine/tiers", "engine.tiers"},
          {R"("kv_load_failure_policy": "fail")", "/engine/kv_load_failure_policy",
           "engine.kv_load_failure_policy"},
          {R"("stream": {"slow_reader": "cancel"})", "/engine/stream", "engine.stream"},
          {R"("stream": {"queue_bytes": 1})", "/engine/stream", "engine.stream"},
          {R"("kv_cache_dtype": "fp8")", "/engine/kv_cache_dtype", "engine.kv_cache_dtype"},
          {R"("speculative": {"method": "ngram"})", "/engine/speculative/method",
           "engine.speculative.method"},
          {R"("speculative": {"method": "scripted", "num_speculative_tokens": 2,
              "tree": [-1, -1]})",
           "/engine/speculative/tree", "engine.speculative.tree"},
          {R"("speculative": {"method": "scripted", "draft_seed": 1})",
           "/engine/speculative/draft_seed", "engine.speculative.draft_seed"},
          {R"("kv_cache_groups": [{"name": "a", "type": "mamba", "kernel_block_size": 8}])",
           "/engine/kv_cache_groups/0/kernel_block_size",
           "engine.kv_cache_groups[0].kernel_block_size"},
          {R"("kv_cache_groups": [{"name": "a", "type": "sliding_window", "window": 20,
              "ring_tokens": 32}])",
           "/engine/kv_cache_groups/0/ring_tokens", "engine.kv_cache_groups[0].ring_tokens"},
          {R"("kv_cache_groups": [{"name": "a", "type": "mamba"}, {"name": "b",
              "type": "full_attention", "shares": "a"}])",
           "/engine/kv_cache_groups/1/shares", "engine.kv_cache_groups[1].shares"},
      },
      R"({"engine": {)", "}}");
  expect_unbuilt({{R"({"taps": "ops"})", "/taps", "taps"}}, "", "");
}

TEST(ScenarioRules, UnbuiltFieldsOfRequests) {
  std::vector<Unbuilt> fields;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"media", R"([{"offset": 0, "length": 1, "hash": "0f"}])"},
           {"stop", R"("x")"},
           {"stop", R"(["x"])"},
           {"include_stop_str_in_output", "true"},
           {"prompt_logprobs", "0"},
           {"n", "2"},
           {"beam_width", "1"},
           {"grammar", R"({"states": [{"1": 0}], "start": 0, "accept": [0]})"},
           {"kv_transfer", R"({"tokens": 1})"},
           {"client", R"({"read_rate": 1})"},
           {"client", R"({"disconnect_after": 1})"},
           {"client", R"({"delay": 1})"},
           {"raw", R"({"n": 1})"}}) {
    fields.push_back({"\"" + name + "\": " + value, "/requests/0/" + name, "requests[0]." + name});
  }
  fields.push_back(
      {R"("draft": [{"logits": {"1": 2}}])", "/requests/0/draft/0", "requests[0].draft[0]"});
  fields.push_back({R"("draft": [["match"]])", "/requests/0/draft/0", "requests[0].draft[0]"});
  fields.push_back({R"("draft_default": {"logits": {"1": 2}})", "/requests/0/draft_default",
                    "requests[0].draft_default"});
  expect_unbuilt(fields, R"({"requests": [{"key": "A", "prompt": [1, 2], )", "}]}");
}

TEST(ScenarioRules, UnbuiltEventsAndFaults) {
  std::vector<Unbuilt> fields;
  for (const std::string text :
       {R"("pause_reading", "request": "A")", R"("resume_reading", "request": "A")",
        R"("swap_out", "request": "A")", R"("swap_in", "request": "A")",
        R"("beam_step", "request": "A", "parents": [0], "tokens": [1])",
        R"("kv_arrive", "request": "A", "start": 0, "tokens": 1)"}) {
    fields.push_back({R"("tick": 1, "type": )" + text, "/events/0/type", "events[0].type"});
  }
  fields.push_back({R"("tick": 1, "type": "preempt", "request": "A", "mode": "swap")",
                    "/events/0/mode", "events[0].mode"});
  fields.push_back({R"("tick": 1, "type": "lost", "copy": 2)", "/events/0/copy", "events[0].copy"});
  fields.push_back({R"("tick": 1, "type": "stall", "stream": "h2d", "ticks": 1)",
                    "/events/0/stream", "events[0].stream"});
  expect_unbuilt(fields, kTwo + R"("events": [{)", "}]}");
  fields.clear();
  for (const char* what : {"copy", "disk_read", "disk_write", "send"}) {
    fields.push_back({R"("tick": 1, "type": "fail", "what": ")" + std::string(what) + "\"",
                      "/faults/0/what", "faults[0].what"});
  }
  fields.push_back({R"("tick": 1, "type": "short_copy", "copy": 1, "cells": 1)", "/faults/0/type",
                    "faults[0].type"});
  fields.push_back({R"("tick": 1, "type": "kill")", "/faults/0/type", "faults[0].type"});
  fields.push_back({R"("tick": 1, "type": "flip", "tier": "host", "block": 1)", "/faults/0/tier",
                    "faults[0].tier"});
  expect_unbuilt(fields, kTwo + R"("faults": [{)", "}]}");
}

TEST(ScenarioRules, RejectionWithDraftsAboveTemperatureZeroIsNotBuilt) {
  const std::string engine =
      R"({"engine": {"speculative": {"method": "scripted"}}, "requests": [{"key": "A", )";
  expect_error(engine + R"("prompt": [1], "temperature": 1, "draft": ["none", 3]}]})",
               "/engine/speculative/acceptance", "requests[0].temperature", 4);
  EXPECT_TRUE(parse_scenario(engine + R"("prompt": [1], "temperature": 1}]})", "s.json").ok());
  EXPECT_TRUE(
      parse_scenario(engine + R"("prompt": [1], "draft_default": "miss"}]})", "s.json").ok());
}

TEST(ScenarioRules, InputErrorsComeBeforeWhatIsNotBuilt) {
  expect_error(R"({"engine": {"tiers": {}}, "requests": [{"key": "A"}]})", "/requests/0",
               "`prompt` is missing", 2);
}

TEST(ScenarioRules, FieldNamesAreThoseOfThePage) {
  EXPECT_EQ(field_name("/engine/kv_cache_groups/10/name"), "engine.kv_cache_groups[10].name");
  EXPECT_EQ(field_name("/taps"), "taps");
  EXPECT_EQ(field_name(""), "");
}

}  // namespace
}  // namespace lockstep::trace
