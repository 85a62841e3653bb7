// The top level of a scenario file.
#include <algorithm>
#include <set>

#include "base/checked.h"
#include "model/json.h"
#include "trace/scenario_json.h"
#include "trace/scenario_parse.h"

namespace lockstep::trace {
namespace {

constexpr std::uint64_t kTokenizerMax = 1 << 20;
constexpr std::uint64_t kVocabularyMax = 1 << 21;
constexpr std::uint64_t kAdaptersMax = 1 << 12;
constexpr std::uint64_t kObservedTicksMax = 1 << 16;

void parse_ledger_model(const Field& field, LedgerModel& model) {
  const Object object(field, {"seed", "tokenizer_size", "vocab_size", "eos_token_ids"});
  model.seed = object["seed"].integer(0, 0, kIntegerMax);
  model.tokenizer_size = object["tokenizer_size"].count(257, 2, kTokenizerMax);
  const auto padded = base::checked_align_up(model.tokenizer_size, 32);
  model.vocab_size = object["vocab_size"].count(static_cast<std::uint32_t>(padded.value_or(0)),
                                                model.tokenizer_size, kVocabularyMax);
  const Field eos = object["eos_token_ids"];
  if (eos.present()) {
    model.eos_token_ids = parse_tokens(eos, model.tokenizer_size, 256);
  } else if (model.tokenizer_size <= 256) {
    model.eos_token_ids.clear();  // the default id does not exist
  }
}

void parse_model(const Object& root, Scenario& scenario) {
  const Field model = root["model"];
  if (scenario.executor == ExecutorKind::Ledger) {
    parse_ledger_model(model, scenario.ledger);
  } else {
    scenario.model = model.text("", 1, 4096);
  }
}

void parse_adapters(const Field& field, Scenario& scenario) {
  std::set<std::string> keys;
  for (std::size_t i = 0; i < field.list(kAdaptersMax).size(); ++i) {
    const Object object(field.element(i), {"key", "name", "id", "weights"});
    AdapterSpec adapter;
    if (!object["key"].require("requests name the adapter by it")) return;
    if (!object["weights"].require("it stands for the tensors")) return;
    adapter.key = object["key"].text("");
    adapter.name = object["name"].text(adapter.key);
    adapter.id = object["id"].integer(0, 0, kIntegerMax);
    adapter.weights = object["weights"].integer(1, 1, kIntegerMax);
    if (!keys.insert(adapter.key).second) {
      object["key"].fail("the adapter key `" + adapter.key + "` occurs twice");
    }
    scenario.adapters.push_back(std::move(adapter));
  }
}

void parse_observe(const Field& field, Observe& observe) {
  const Object object(field, {"ticks", "steps"});
  const Field ticks = object["ticks"];
  std::set<Tick> sorted;
  for (std::size_t i = 0; i < ticks.list(kObservedTicksMax).size(); ++i) {
    sorted.insert(ticks.element(i).integer(0, 0, kIntegerMax));
  }
  observe.ticks.assign(sorted.begin(), sorted.end());
  observe.steps = object["steps"].boolean(true);
}

// rejection, drafts and temperature > 0 together need accept and residual draws.
void check_acceptance(const Scenario& scenario, Problems& problems) {
  const auto& speculative = scenario.engine.speculative;
  if (!speculative || speculative->acceptance != Acceptance::Rejection) return;
  for (std::size_t i = 0; i < scenario.requests.size(); ++i) {
    const RequestSpec& request = scenario.requests[i];
    if (request.sampling.temperature == 0) continue;
    const auto proposes = [](const DraftEntry& entry) {
      return entry.kind != DraftEntry::Kind::None;
    };
    if (proposes(request.draft_default) ||
        std::any_of(request.draft.begin(), request.draft.end(), proposes)) {
      problems.not_built(
          "/engine/speculative/acceptance",
          "= rejection with drafts at requests[" + std::to_string(i) + "].temperature > 0");
    }
  }
}

void parse_top(const Field& root_field, const base::Limits& limits, Scenario& scenario) {
  const Object root(root_field,
                    {"schema", "note", "seed", "executor", "device", "model", "adapters", "engine",
                     "requests", "events", "faults", "observe", "taps", "max_ticks"});
  root["schema"].choice(0, {{"lockstep.scenario/1", 0}});
  scenario.note = root["note"].text("", 0, 1 << 16);
  scenario.seed = root["seed"].integer(0, 0, kIntegerMax);
  scenario.executor = root["executor"].choice(
      ExecutorKind::Ledger, {{"ledger", ExecutorKind::Ledger}, {"device", ExecutorKind::Device}});
  scenario.device = root["device"].text(scenario.device);
  parse_model(root, scenario);
  parse_adapters(root["adapters"], scenario);
  parse_engine(root["engine"], scenario);
  const std::uint64_t limit = token_limit(scenario, limits.vocabulary_size);
  parse_requests(root["requests"], limit, scenario);
  parse_events(root["events"], root["faults"], limit, scenario);
  parse_observe(root["observe"], scenario.observe);
  const Field taps = root["taps"];
  if (taps.choice(0, {{"none", 0}, {"logits", 1}, {"ops", 2}}) != 0) taps.not_built();
  scenario.max_ticks = root["max_ticks"].integer(scenario.max_ticks, 1, kIntegerMax);
  check_acceptance(scenario, root_field.problems());
}

}  // namespace

std::uint64_t token_limit(const Scenario& scenario, std::uint64_t vocabulary_size_limit) {
  return scenario.executor == ExecutorKind::Ledger ? scenario.ledger.tokenizer_size
                                                   : vocabulary_size_limit;
}

std::vector<TokenId> parse_tokens(const Field& field, std::uint64_t limit,
                                  std::uint64_t count_max) {
  std::vector<TokenId> tokens;
  const auto& list = field.list(count_max);
  tokens.reserve(list.size());
  for (std::size_t i = 0; i < list.size() && !field.problems().failed(); ++i) {
    if (list[i].is_number_unsigned() && list[i].get<std::uint64_t>() < limit) {
      tokens.push_back(list[i].get<TokenId>());
    } else {
      tokens.push_back(field.element(i).count(0, 0, limit - 1));
    }
  }
  return tokens;
}

base::Result<Scenario> parse_scenario(std::string_view text, const std::string& file_name,
                                      const base::Limits& limits) {
  const auto document = model::parse_json(text, file_name, limits);
  if (!document) {
    base::Error error = document.error();
    if (error.where != "JSON") error.offset.reset();  // a pointer says more than where the file is
    return error;
  }
  Problems problems(file_name);
  Scenario scenario;
  parse_top(Field(problems, &*document, ""), limits, scenario);
  if (auto error = problems.first()) return *std::move(error);
  return scenario;
}

}  // namespace lockstep::trace
