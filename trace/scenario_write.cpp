// A Scenario as text: defaults left out, one entry of a list a line, so that a finding's scenario
// is read at a glance. Fields stand in the order of docs/scenario.md.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/checked.h"
#include "trace/scenario_json.h"
#include "trace/scenario_parse.h"

namespace lockstep::trace {
namespace {

using Json = nlohmann::ordered_json;

template <class T, class U>
void put(Json& object, const char* name, const T& value, const U& absent) {
  if (value != absent) object[name] = value;
}

// An index that names nothing becomes a name that the parser refuses: a scenario that a program
// changed may be wrong, and then is to be refused as a file is.
const std::string& pool_name(const EngineSettings& engine, std::uint32_t pool) {
  static const std::string nothing;
  return pool < engine.pools.size() ? engine.pools[pool].name : nothing;
}
std::string name_of_life(const std::vector<std::string>& keys, std::uint32_t life) {
  return life < keys.size() ? keys[life] : "";
}

// Writes a prompt, with {"seed", "length"} for the runs of small seeds that it contains.
class PromptWriter {
 public:
  explicit PromptWriter(std::uint64_t modulus) : modulus_(modulus) {}

  Json write(const std::vector<TokenId>& prompt) {
    Json list = Json::array();
    for (std::size_t i = 0; i < prompt.size();) {
      const auto [seed, length] = run_at(prompt, i);
      if (length >= kShortestRun) {
        list.push_back({{"seed", seed}, {"length", length}});
        i += length;
      } else {
        list.push_back(prompt[i++]);
      }
    }
    return list;
  }

 private:
  static constexpr std::size_t kShortestRun = 12, kLooked = 8;
  static constexpr std::uint64_t kSeeds = 1024;

  // The first tokens as one number, if all are bytes.
  static std::optional<std::uint64_t> start_of(const std::vector<TokenId>& prompt, std::size_t i) {
    std::uint64_t word = 0;
    for (std::size_t j = 0; j < kLooked; ++j) {
      if (prompt[i + j] > 0xff) return std::nullopt;
      word = word << 8 | prompt[i + j];
    }
    return word;
  }

  std::pair<std::uint64_t, std::size_t> run_at(const std::vector<TokenId>& prompt, std::size_t i) {
    if (prompt.size() - i < kShortestRun) return {0, 0};
    if (seed_of_start_.empty()) {
      std::vector<TokenId> tokens(kLooked);
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        for (std::size_t j = 0; j < kLooked; ++j) tokens[j] = run_token(seed, j, modulus_);
        seed_of_start_.emplace(start_of(tokens, 0).value_or(0), seed);
      }
    }
    const auto start = start_of(prompt, i);
    const auto found = start ? seed_of_start_.find(*start) : seed_of_start_.end();
    if (found == seed_of_start_.end()) return {0, 0};
    std::size_t length = kLooked;
    while (i + length < prompt.size() &&
           prompt[i + length] == run_token(found->second, length, modulus_)) {
      ++length;
    }
    return {found->second, length};
  }

  std::uint64_t modulus_;
  std::unordered_map<std::uint64_t, std::uint64_t> seed_of_start_;  // never iterated
};

bool is_bytes(const std::string& text, const std::vector<TokenId>& tokens) {
  return text.size() == tokens.size() &&
         std::equal(text.begin(), text.end(), tokens.begin(),
                    [](char c, TokenId token) { return static_cast<unsigned char>(c) == token; });
}

const char* word(GroupType type) {
  switch (type) {
    case GroupType::FullAttention:
      return "full_attention";
    case GroupType::SlidingWindow:
      return "sliding_window";
    case GroupType::Mamba:
      return "mamba";
  }
  return "";
}

const char* word(PadFill fill) {
  switch (fill) {
    case PadFill::Zero:
      return "zero";
    case PadFill::Stale:
      return "stale";
    case PadFill::Nan:
      return "nan";
    case PadFill::Huge:
      return "huge";
  }
  return "";
}

const char* word(BlockFill fill) {
  switch (fill) {
    case BlockFill::Poison:
      return "poison";
    case BlockFill::Zero:
      return "zero";
    case BlockFill::None:
      return "none";
  }
  return "";
}

const char* word(FailPoint point) {
  switch (point) {
    case FailPoint::HostAlloc:
      return "host_alloc";
    case FailPoint::DeviceAlloc:
      return "device_alloc";
    case FailPoint::BlockAlloc:
      return "block_alloc";
    case FailPoint::Launch:
      return "launch";
  }
  return "";
}

Json model_json(const LedgerModel& model) {
  Json object = Json::object();
  put(object, "seed", model.seed, 0u);
  put(object, "tokenizer_size", model.tokenizer_size, 257u);
  put(object, "vocab_size", model.vocab_size,
      base::checked_align_up(model.tokenizer_size, 32).value_or(0));
  const std::vector<TokenId> absent =
      model.tokenizer_size > 256 ? std::vector<TokenId>{256} : std::vector<TokenId>{};
  put(object, "eos_token_ids", model.eos_token_ids, absent);
  return object;
}

Json adapter_json(const AdapterSpec& adapter) {
  Json object = {{"key", adapter.key}};
  put(object, "name", adapter.name, adapter.key);
  put(object, "id", adapter.id, 0u);
  object["weights"] = adapter.weights;
  return object;
}

Json groups_json(const EngineSettings& engine) {
  Json list = Json::array();
  for (const GroupSpec& group : engine.groups) {
    Json object = {{"name", group.name}, {"type", word(group.type)}};
    put(object, "block_size", group.block_size, engine.block_size);
    put(object, "pool", pool_name(engine, group.pool), group.name);
    if (group.type == GroupType::SlidingWindow) object["window"] = group.window;
    if (group.type == GroupType::Mamba) put(object, "conv_width", group.conv_width, 4u);
    list.push_back(std::move(object));
  }
  const Json absent = Json::array({Json{{"name", "full"}, {"type", "full_attention"}}});
  return list == absent ? Json::array() : list;
}

// The shortest list from which the parser makes the same pools: those that groups name come by
// themselves, with 1024 blocks, in order.
Json pools_json(const EngineSettings& engine) {
  const auto completed = [&](std::size_t kept) {
    std::vector<PoolSpec> pools(engine.pools.begin(),
                                engine.pools.begin() + static_cast<std::ptrdiff_t>(kept));
    for (const GroupSpec& group : engine.groups) {
      const std::string& name = pool_name(engine, group.pool);
      const auto named = [&](const PoolSpec& pool) { return pool.name == name; };
      if (std::none_of(pools.begin(), pools.end(), named)) pools.push_back({name});
    }
    return pools;
  };
  std::size_t kept = 0;
  while (kept < engine.pools.size() && completed(kept) != engine.pools) ++kept;
  Json list = Json::array();
  for (std::size_t i = 0; i < kept; ++i) {
    list.push_back({{"name", engine.pools[i].name}, {"num_blocks", engine.pools[i].num_blocks}});
  }
  return list;
}

Json speculative_json(const SpeculativeSpec& speculative) {
  Json object = {{"method", "scripted"},
                 {"num_speculative_tokens", speculative.num_speculative_tokens}};
  if (speculative.acceptance == Acceptance::SameDraw) object["acceptance"] = "same_draw";
  return object;
}

Json engine_json(const EngineSettings& engine) {
  const EngineSettings absent;
  Json object = Json::object();
  put(object, "block_size", engine.block_size, absent.block_size);
  put(object, "kv_cache_groups", groups_json(engine), Json::array());
  put(object, "pools", pools_json(engine), Json::array());
  put(object, "enable_prefix_caching", engine.enable_prefix_caching, true);
  put(object, "prefix_hash_bits", engine.prefix_hash_bits, absent.prefix_hash_bits);
  put(object, "max_num_seqs", engine.max_num_seqs, absent.max_num_seqs);
  put(object, "max_num_batched_tokens", engine.max_num_batched_tokens,
      absent.max_num_batched_tokens);
  put(object, "enable_chunked_prefill", engine.enable_chunked_prefill, true);
  put(object, "chunked_prefill_size", engine.chunked_prefill_size, 0u);
  put(object, "max_model_len", engine.max_model_len, absent.max_model_len);
  put(object, "max_waiting", engine.max_waiting, 0u);
  if (engine.scheduling_policy == SchedulingPolicy::Priority) {
    object["scheduling_policy"] = "priority";
  }
  put(object, "async_depth", engine.async_depth, absent.async_depth);
  put(object, "cudagraph_capture_sizes", engine.cudagraph_capture_sizes,
      absent.cudagraph_capture_sizes);
  if (engine.pad_fill != absent.pad_fill) object["pad_fill"] = word(engine.pad_fill);
  if (engine.fill_new_blocks != absent.fill_new_blocks) {
    object["fill_new_blocks"] = word(engine.fill_new_blocks);
  }
  if (engine.speculative) object["speculative"] = speculative_json(*engine.speculative);
  put(object, "watchdog_ticks", engine.watchdog_ticks, absent.watchdog_ticks);
  return object;
}

Json token_map_json(const std::vector<std::pair<TokenId, double>>& map) {
  Json object = Json::object();
  for (const auto& [token, value] : map) object[std::to_string(token)] = value;
  return object;
}

void put_sampling(Json& object, const RequestSpec& request) {
  const SamplingParams& sampling = request.sampling;
  const SamplingParams absent;
  put(object, "max_tokens", request.max_tokens, RequestSpec{}.max_tokens);
  put(object, "min_tokens", sampling.min_tokens, 0u);
  put(object, "stop_token_ids", sampling.stop_token_ids, absent.stop_token_ids);
  put(object, "ignore_eos", sampling.ignore_eos, false);
  put(object, "logit_bias", token_map_json(sampling.logit_bias), Json::object());
  put(object, "temperature", sampling.temperature, absent.temperature);
  put(object, "top_k", sampling.top_k, 0u);
  put(object, "top_p", sampling.top_p, absent.top_p);
  put(object, "min_p", sampling.min_p, absent.min_p);
  if (sampling.seed) object["seed"] = *sampling.seed;
  put(object, "repetition_penalty", sampling.repetition_penalty, absent.repetition_penalty);
  put(object, "presence_penalty", sampling.presence_penalty, absent.presence_penalty);
  put(object, "frequency_penalty", sampling.frequency_penalty, absent.frequency_penalty);
  if (sampling.logprobs) object["logprobs"] = *sampling.logprobs;
  if (sampling.processed_logprobs) object["logprobs_mode"] = "processed_logprobs";
}

Json draft_json(const DraftEntry& entry) {
  switch (entry.kind) {
    case DraftEntry::Kind::None:
      return "none";
    case DraftEntry::Kind::Match:
      return "match";
    case DraftEntry::Kind::Miss:
      return "miss";
    case DraftEntry::Kind::Token:
      return entry.token;
  }
  return "";
}

Json script_json(const ScriptEntry& entry) {
  switch (entry.kind) {
    case ScriptEntry::Kind::Own:
      return nullptr;
    case ScriptEntry::Kind::Token:
      return entry.token;
    case ScriptEntry::Kind::Logits:
      return {{"logits", token_map_json(entry.logits)}};
  }
  return nullptr;
}

Json request_json(const RequestSpec& request, const Scenario& scenario, PromptWriter& prompts) {
  Json object = {{"key", request.key}};
  put(object, "id", request.id, request.key);
  put(object, "tick", request.tick, 0u);
  put(object, "hold", request.hold, false);
  put(object, "priority", request.priority, 0);
  // Text that is not what the prompt's tokens say (any more) would be another prompt.
  const bool text =
      !request.prompt_text.empty() &&
      (scenario.executor == ExecutorKind::Ledger ? is_bytes(request.prompt_text, request.prompt)
                                                 : request.prompt.empty());
  if (text) {
    object["prompt"] = request.prompt_text;
  } else {
    object["prompt"] = prompts.write(request.prompt);
  }
  if (request.adapter) {
    const bool known = *request.adapter < scenario.adapters.size();
    object["adapter"] = known ? scenario.adapters[*request.adapter].key : "";
  }
  if (request.cache_salt) object["cache_salt"] = *request.cache_salt;
  put_sampling(object, request);
  Json script = Json::array(), draft = Json::array();
  for (const ScriptEntry& entry : request.script) script.push_back(script_json(entry));
  for (const DraftEntry& entry : request.draft) draft.push_back(draft_json(entry));
  put(object, "script", script, Json::array());
  put(object, "draft", draft, Json::array());
  if (request.draft_default != DraftEntry{}) {
    object["draft_default"] = draft_json(request.draft_default);
  }
  return object;
}

// Keys of lives by index: requests, then forks in file order.
std::vector<std::string> life_keys(const Scenario& scenario) {
  std::vector<std::string> keys;
  for (const RequestSpec& request : scenario.requests) keys.push_back(request.key);
  for (const ForcedEvent& event : scenario.events) {
    if (event.type == ForcedEventType::Fork) keys.push_back(event.as);
  }
  return keys;
}

void put_trigger(Json& object, const ForcedEvent& event, const std::vector<std::string>& keys) {
  const Trigger& trigger = event.trigger;
  switch (trigger.kind) {
    case Trigger::Kind::AtTick:
      object["tick"] = trigger.value;
      break;
    case Trigger::Kind::Emitted:
      object["when"] = {{"request", name_of_life(keys, trigger.request)},
                        {"emitted", trigger.value}};
      break;
    case Trigger::Kind::Computed:
      object["when"] = {{"request", name_of_life(keys, trigger.request)},
                        {"computed", trigger.value}};
      break;
    case Trigger::Kind::Launch:
      object["launch"] = trigger.value;
      break;
  }
}

void put_fail(Json& object, const ForcedEvent& event, const std::string& pool) {
  object["what"] = word(event.what);
  put(object, "nth", event.nth, 1u);
  put(object, "count", event.count, 1u);
  if (!event.any_pool) object["pool"] = pool;
}

void put_fields(Json& object, const ForcedEvent& event, const EngineSettings& engine) {
  using Type = ForcedEventType;
  const std::string& pool = pool_name(engine, event.pool);
  switch (event.type) {
    case Type::Cancel:
    case Type::Disconnect:
      object["request"] = event.request;
      put(object, "delay", event.delay, 0u);
      break;
    case Type::Admit:
    case Type::Preempt:
      object["request"] = event.request;
      break;
    case Type::Schedule:
      object["rows"] = Json::array();
      for (const auto& [key, count] : event.rows) {
        object["rows"].push_back(Json::array({key, count}));
      }
      break;
    case Type::Fork:
      object["request"] = event.request;
      object["as"] = event.as;
      put(object, "tokens", event.tokens, std::vector<TokenId>{});
      put(object, "back", event.back, 0u);
      break;
    case Type::Evict:
      object["pool"] = pool;
      object["blocks"] = event.blocks;
      break;
    case Type::Late:
    case Type::Duplicate:
      object["launch"] = event.launch;
      object["ticks"] = event.ticks;
      break;
    case Type::Lost:
      object["launch"] = event.launch;
      break;
    case Type::Stall:
      object["stream"] = "compute";
      object["ticks"] = event.ticks;
      break;
    case Type::Fail:
      put_fail(object, event, pool);
      break;
    case Type::Flip:
      object["pool"] = pool;
      object["block"] = event.block;
      put(object, "offset", event.offset, 0u);
      put(object, "bits", event.bits, 1u);
      break;
    case Type::ResetPrefixCache:
    case Type::DeviceLost:
      break;
  }
}

Json event_json(const ForcedEvent& event, const Scenario& scenario,
                const std::vector<std::string>& keys) {
  Json object = Json::object();
  put_trigger(object, event, keys);
  object["type"] = name(event.type);
  put_fields(object, event, scenario.engine);
  return object;
}

std::string dump(const Json& value) {
  // ", " and ": " as in hand-written files; nlohmann's compact form has neither.
  const std::string compact = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < compact.size(); ++i) {
    const char c = compact[i];
    text += c;
    if (c == '\\') {
      text += compact[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ',' || c == ':')) {
      text += ' ';
    }
  }
  return text;
}

// Short fields share the first line; each list starts a line, and has an entry a line.
class Layout {
 public:
  void field(const std::string& name, const Json& value) {
    text_ += (text_.size() > 1 ? ", " : "") + dump(name) + ": " + dump(value);
  }
  void list(const std::string& name, const std::vector<Json>& entries) {
    if (entries.empty()) return;
    text_ += text_.size() > 1 ? ",\n " : "";
    const std::string head = dump(name) + ": [";
    text_ += head;
    const std::string indent(head.size() + 1, ' ');
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) text_ += ",\n" + indent;
      text_ += dump(entries[i]);
    }
    text_ += "]";
  }
  std::string finish() && { return std::move(text_) + "}\n"; }

 private:
  std::string text_ = "{";
};

}  // namespace

std::string_view name(ForcedEventType type) {
  switch (type) {
    case ForcedEventType::Cancel:
      return "cancel";
    case ForcedEventType::Disconnect:
      return "disconnect";
    case ForcedEventType::Admit:
      return "admit";
    case ForcedEventType::Schedule:
      return "schedule";
    case ForcedEventType::Preempt:
      return "preempt";
    case ForcedEventType::Fork:
      return "fork";
    case ForcedEventType::Evict:
      return "evict";
    case ForcedEventType::ResetPrefixCache:
      return "reset_prefix_cache";
    case ForcedEventType::Late:
      return "late";
    case ForcedEventType::Duplicate:
      return "duplicate";
    case ForcedEventType::Lost:
      return "lost";
    case ForcedEventType::Stall:
      return "stall";
    case ForcedEventType::Fail:
      return "fail";
    case ForcedEventType::Flip:
      return "flip";
    case ForcedEventType::DeviceLost:
      return "device_lost";
  }
  return "";
}

std::string write_scenario(const Scenario& scenario) {
  Layout layout;
  const auto put_field = [&](const char* name, const Json& value, const Json& absent) {
    if (value != absent) layout.field(name, value);
  };
  const bool ledger = scenario.executor == ExecutorKind::Ledger;
  put_field("note", scenario.note, "");
  put_field("seed", scenario.seed, 0u);
  put_field("executor", ledger ? "ledger" : "device", "ledger");
  put_field("device", scenario.device, Scenario{}.device);
  if (ledger) {
    put_field("model", model_json(scenario.ledger), Json::object());
  } else {
    put_field("model", scenario.model, "");
  }
  put_field("engine", engine_json(scenario.engine), Json::object());
  Json observe = Json::object();
  put(observe, "ticks", scenario.observe.ticks, std::vector<Tick>{});
  put(observe, "steps", scenario.observe.steps, true);
  put_field("observe", observe, Json::object());
  put_field("max_ticks", scenario.max_ticks, Scenario{}.max_ticks);

  std::vector<Json> adapters, requests, events, faults;
  const std::vector<std::string> keys = life_keys(scenario);
  PromptWriter prompts(run_modulus(scenario));
  for (const AdapterSpec& adapter : scenario.adapters) adapters.push_back(adapter_json(adapter));
  for (const RequestSpec& request : scenario.requests) {
    requests.push_back(request_json(request, scenario, prompts));
  }
  for (const ForcedEvent& event : scenario.events) {
    events.push_back(event_json(event, scenario, keys));
  }
  for (const ForcedEvent& event : scenario.faults) {
    faults.push_back(event_json(event, scenario, keys));
  }
  layout.list("adapters", adapters);
  layout.list("requests", requests);
  layout.list("events", events);
  layout.list("faults", faults);
  return std::move(layout).finish();
}

}  // namespace lockstep::trace
