// `requests` of a scenario file.
#include <algorithm>
#include <set>

#include "trace/scenario_json.h"
#include "trace/scenario_parse.h"

namespace lockstep::trace {
namespace {

using nlohmann::json;

constexpr double kLogitMax = 1e6;  // of a script; well inside what doubles add exactly

std::uint64_t mix_step(std::uint64_t h, std::uint64_t word) {
  std::uint64_t z = (h ^ word) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void parse_run(const Field& field, std::uint64_t modulus, std::vector<TokenId>& prompt) {
  const Object object(field, {"seed", "length"});
  object["seed"].require("a run is {\"seed\": s, \"length\": n}");
  object["length"].require("a run is {\"seed\": s, \"length\": n}");
  const std::uint64_t seed = object["seed"].integer(0, 0, kIntegerMax);
  const std::uint64_t length = object["length"].integer(1, 1, kSequenceTokensMax);
  for (std::uint64_t i = 0; i < length && prompt.size() <= kSequenceTokensMax; ++i) {
    prompt.push_back(run_token(seed, i, modulus));
  }
}

void parse_prompt_list(const Field& field, std::uint64_t limit, std::uint64_t modulus,
                       std::vector<TokenId>& prompt) {
  const auto& list = field.list(kSequenceTokensMax);
  for (std::size_t i = 0; i < list.size() && !field.problems().failed(); ++i) {
    if (list[i].is_object()) {
      parse_run(field.element(i), modulus, prompt);
    } else if (list[i].is_number_unsigned() && list[i].get<std::uint64_t>() < limit) {
      prompt.push_back(list[i].get<TokenId>());
    } else if (list[i].is_number()) {
      field.element(i).count(0, 0, limit - 1);
    } else {
      field.element(i).fail("must be a token id or a run {\"seed\", \"length\"}, not " +
                            shown(list[i]));
    }
  }
}

void parse_prompt(const Field& field, const Scenario& scenario, std::uint64_t limit,
                  RequestSpec& request) {
  if (!field.require("text, or a list of token ids and runs")) return;
  if (field.value().is_string()) {
    request.prompt_text = field.text("", 1, kSequenceTokensMax);
    if (scenario.executor == ExecutorKind::Device) return;
    for (const char c : request.prompt_text) {
      const TokenId token = static_cast<unsigned char>(c);
      if (token >= limit) {
        field.fail("byte " + std::to_string(token) + " is no token: tokenizer_size is " +
                   std::to_string(limit));
        return;
      }
      request.prompt.push_back(token);
    }
  } else {
    parse_prompt_list(field, limit, run_modulus(scenario), request.prompt);
  }
  if (request.prompt.empty() || request.prompt.size() > kSequenceTokensMax) {
    field.fail("must have 1 to " + std::to_string(kSequenceTokensMax) + " tokens");
  }
}

// {id: number}, ascending ids.
std::vector<std::pair<TokenId, double>> parse_token_map(const Field& field, std::uint64_t limit,
                                                        double magnitude) {
  std::vector<std::pair<TokenId, double>> result;
  if (!field.given()) return result;
  if (!field.value().is_object()) {
    field.fail("must be an object {token id: number}, not " + shown(field.value()));
    return result;
  }
  for (const auto& [key, value] : field.value().items()) {
    const Field entry(field.problems(), &value, field.pointer() + pointer_segment(key));
    const auto token = token_of_key(key, limit);
    if (!token) {
      entry.fail("the key must be a token id from 0 to " + std::to_string(limit - 1));
      break;
    }
    result.emplace_back(*token, entry.number(0, -magnitude, magnitude));
  }
  std::sort(result.begin(), result.end());
  return result;
}

void parse_sampling(const Object& object, std::uint64_t limit, RequestSpec& request) {
  SamplingParams& sampling = request.sampling;
  request.max_tokens = object["max_tokens"].count(16, 1, kSequenceTokensMax);
  sampling.min_tokens = object["min_tokens"].count(0, 0, request.max_tokens);
  sampling.stop_token_ids = parse_tokens(object["stop_token_ids"], limit, 1024);
  sampling.ignore_eos = object["ignore_eos"].boolean(false);
  sampling.logit_bias = parse_token_map(object["logit_bias"], limit, 100);
  sampling.temperature = object["temperature"].number(0, 0, kLogitMax);
  // -1 and 0 both mean all, as in vLLM.
  sampling.top_k = static_cast<std::uint32_t>(
      std::max<std::int64_t>(0, object["top_k"].signed_integer(0, -1, kSequenceTokensMax)));
  const Field top_p = object["top_p"];
  sampling.top_p = top_p.number(1, 0, 1);
  if (sampling.top_p == 0) top_p.fail("must be above 0 and at most 1, not 0");
  sampling.min_p = object["min_p"].number(0, 0, 1);
  const Field seed = object["seed"];
  if (seed.given()) sampling.seed = seed.integer(0, 0, kIntegerMax);
  const Field repetition = object["repetition_penalty"];
  sampling.repetition_penalty = repetition.number(1, 0, kLogitMax);
  if (sampling.repetition_penalty == 0) repetition.fail("must be above 0, not 0");
  sampling.presence_penalty = object["presence_penalty"].number(0, -2, 2);
  sampling.frequency_penalty = object["frequency_penalty"].number(0, -2, 2);
  const Field logprobs = object["logprobs"];
  if (logprobs.given()) {  // -1: of the whole vocabulary, as in vLLM
    const auto top = static_cast<std::int64_t>(limit);
    const std::int64_t count = logprobs.signed_integer(0, -1, top);
    sampling.logprobs = static_cast<std::uint32_t>(count < 0 ? top : count);
  }
  sampling.processed_logprobs = object["logprobs_mode"].choice(
      false, {{"raw_logprobs", false}, {"processed_logprobs", true}});
}

void parse_stop(const Field& field) {
  if (!field.given()) return;
  if (field.value().is_string()) {
    field.text("", 1, 4096);
    field.not_built();
    return;
  }
  const std::size_t size = field.list(256).size();
  for (std::size_t i = 0; i < size; ++i) field.element(i).text("", 1, 4096);
  if (size > 0) field.not_built();
}

void parse_media(const Field& field, std::size_t prompt_size) {
  if (!field.given()) return;
  const std::size_t size = field.list(1024).size();
  for (std::size_t i = 0; i < size; ++i) {
    const Object part(field.element(i), {"offset", "length", "hash"});
    for (const char* name : {"offset", "length", "hash"}) part[name].require("part of a medium");
    const std::uint64_t offset = part["offset"].integer(0, 0, kSequenceTokensMax);
    const std::uint64_t length = part["length"].integer(1, 1, kSequenceTokensMax);
    if (offset + length > prompt_size && prompt_size > 0) {
      field.element(i).fail("must lie within the prompt");
    }
    const std::string hash = part["hash"].text("");
    if (hash.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      part["hash"].fail("must be hex digits");
    }
  }
  if (size > 0) field.not_built();
}

void parse_client(const Field& field) {
  if (!field.given()) return;
  const Object object(field, {"read_rate", "disconnect_after", "delay"});
  const Field rate = object["read_rate"], after = object["disconnect_after"];
  if (rate.given()) rate.integer(0, 0, kIntegerMax);
  if (after.given()) after.integer(0, 0, kIntegerMax);
  const bool delayed = object["delay"].integer(0, 0, kIntegerMax) != 0;
  if (rate.given() || after.given() || delayed) field.not_built();
}

// Fields that are well formed and default, or not built.
void parse_unbuilt(const Object& object, const RequestSpec& request) {
  parse_media(object["media"], request.prompt.size());
  parse_stop(object["stop"]);
  const Field include = object["include_stop_str_in_output"];
  if (include.boolean(false)) include.not_built();
  const Field prompt_logprobs = object["prompt_logprobs"];
  if (prompt_logprobs.given()) {
    prompt_logprobs.signed_integer(0, -1, kSequenceTokensMax);
    prompt_logprobs.not_built();
  }
  const Field samples = object["n"];
  if (samples.integer(1, 1, 1 << 14) != 1) samples.not_built("above 1");
  const Field beams = object["beam_width"];
  if (beams.integer(0, 0, 1 << 10) != 0) beams.not_built();
  const Field grammar = object["grammar"];
  if (grammar.given()) {
    const Object automaton(grammar, {"states", "start", "accept"});
    automaton["states"].require("the automaton's states");
    automaton["states"].list(kSequenceTokensMax);
    automaton["accept"].list(kSequenceTokensMax);
    grammar.not_built();
  }
  const Field transfer = object["kv_transfer"];
  if (transfer.given()) {
    const Object parts(transfer, {"tokens"});
    parts["tokens"].require("how many prompt tokens come from elsewhere");
    parts["tokens"].integer(1, 1, std::max<std::size_t>(request.prompt.size(), 2) - 1);
    transfer.not_built();
  }
  parse_client(object["client"]);
  const Field raw = object["raw"];
  if (raw.given()) {
    if (!raw.value().is_object()) {
      raw.fail("must be an object, not " + shown(raw.value()));
    } else if (!raw.value().empty()) {
      raw.not_built();
    }
  }
}

ScriptEntry parse_script_entry(const Field& field, std::uint64_t limit) {
  ScriptEntry entry;
  if (field.value().is_null()) return entry;
  if (field.value().is_object()) {
    const Object object(field, {"logits"});
    if (!object["logits"].require("{token id: logit}, all others -inf")) return entry;
    entry.kind = ScriptEntry::Kind::Logits;
    entry.logits = parse_token_map(object["logits"], limit, kLogitMax);
    if (entry.logits.empty()) object["logits"].fail("must have at least one token id");
  } else {
    entry.kind = ScriptEntry::Kind::Token;
    entry.token = field.count(0, 0, limit - 1);
  }
  return entry;
}

DraftEntry parse_draft_entry(const Field& field, std::uint64_t limit, bool in_list) {
  using Kind = DraftEntry::Kind;
  DraftEntry entry;
  if (field.value().is_string()) {
    entry.kind = field.choice(Kind::None,
                              {{"match", Kind::Match}, {"miss", Kind::Miss}, {"none", Kind::None}});
  } else if (field.value().is_object()) {
    const Object object(field, {"logits"});
    parse_token_map(object["logits"], limit, kLogitMax);
    field.not_built("as logits");
  } else if (in_list && field.value().is_array()) {
    field.list(16);
    field.not_built("as a list (a tree)");
  } else if (field.value().is_number()) {
    entry.kind = Kind::Token;
    entry.token = field.count(0, 0, limit - 1);
  } else {
    field.fail("must be `match`, `miss`, `none` or a token id, not " + shown(field.value()));
  }
  return entry;
}

void parse_lists(const Object& object, std::uint64_t limit, RequestSpec& request) {
  const Field script = object["script"], draft = object["draft"];
  const std::size_t script_size = script.list(kSequenceTokensMax).size();
  for (std::size_t i = 0; i < script_size && !script.problems().failed(); ++i) {
    request.script.push_back(parse_script_entry(script.element(i), limit));
  }
  const std::size_t draft_size = draft.list(kSequenceTokensMax).size();
  for (std::size_t i = 0; i < draft_size && !draft.problems().failed(); ++i) {
    request.draft.push_back(parse_draft_entry(draft.element(i), limit, true));
  }
  const Field draft_default = object["draft_default"];
  if (draft_default.present()) {
    request.draft_default = parse_draft_entry(draft_default, limit, false);
  }
}

void parse_adapter(const Field& field, const Scenario& scenario, RequestSpec& request) {
  if (!field.given()) return;
  const std::string key = field.text("");
  for (std::size_t i = 0; i < scenario.adapters.size(); ++i) {
    if (scenario.adapters[i].key == key) request.adapter = static_cast<std::uint32_t>(i);
  }
  if (!request.adapter) field.fail("no adapter has the key `" + key + "`");
}

RequestSpec parse_request(const Field& field, std::uint64_t limit, const Scenario& scenario) {
  const Object object(field, {"key",
                              "id",
                              "tick",
                              "hold",
                              "priority",
                              "prompt",
                              "adapter",
                              "media",
                              "cache_salt",
                              "max_tokens",
                              "min_tokens",
                              "stop",
                              "stop_token_ids",
                              "ignore_eos",
                              "include_stop_str_in_output",
                              "logit_bias",
                              "temperature",
                              "top_k",
                              "top_p",
                              "min_p",
                              "seed",
                              "repetition_penalty",
                              "presence_penalty",
                              "frequency_penalty",
                              "logprobs",
                              "prompt_logprobs",
                              "logprobs_mode",
                              "n",
                              "beam_width",
                              "grammar",
                              "kv_transfer",
                              "client",
                              "script",
                              "draft",
                              "draft_default",
                              "raw"});
  RequestSpec request;
  object["key"].require("events and results name the request by it");
  request.key = object["key"].text("");
  request.id = object["id"].text(request.key);
  request.tick = object["tick"].integer(0, 0, kIntegerMax);
  request.hold = object["hold"].boolean(false);
  constexpr std::int64_t kPriorityMax = std::numeric_limits<std::int32_t>::max();
  request.priority = static_cast<std::int32_t>(
      object["priority"].signed_integer(0, -kPriorityMax - 1, kPriorityMax));
  parse_prompt(object["prompt"], scenario, limit, request);
  parse_adapter(object["adapter"], scenario, request);
  const Field salt = object["cache_salt"];
  if (salt.given()) request.cache_salt = salt.text("", 1, 4096);
  parse_sampling(object, limit, request);
  parse_lists(object, limit, request);
  parse_unbuilt(object, request);
  return request;
}

}  // namespace

TokenId run_token(std::uint64_t seed, std::uint64_t i, std::uint64_t modulus) {
  return static_cast<TokenId>(mix_step(mix_step(mix_step(0, 8), seed), i) % modulus);
}

std::uint64_t run_modulus(const Scenario& scenario) {
  constexpr std::uint64_t kBytes = 256;
  return scenario.executor == ExecutorKind::Ledger
             ? std::min<std::uint64_t>(kBytes, scenario.ledger.tokenizer_size)
             : kBytes;
}

void parse_requests(const Field& field, std::uint64_t limit, Scenario& scenario) {
  std::set<std::string> keys;
  std::uint64_t prompt_tokens = 0;
  const std::size_t size = field.list(kRequestsMax).size();
  for (std::size_t i = 0; i < size && !field.problems().failed(); ++i) {
    RequestSpec request = parse_request(field.element(i), limit, scenario);
    prompt_tokens += request.prompt.size();
    if (!keys.insert(request.key).second) {
      field.problems().fail(field.pointer() + "/" + std::to_string(i) + "/key",
                            "the request key `" + request.key + "` occurs twice");
    }
    if (prompt_tokens > kPromptTokensMax) {
      field.element(i).fail("the prompts together have more than " +
                            std::to_string(kPromptTokensMax) + " tokens");
    }
    scenario.requests.push_back(std::move(request));
  }
}

}  // namespace lockstep::trace
