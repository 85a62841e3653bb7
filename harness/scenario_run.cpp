#include "harness/scenario_run.h"

#include <algorithm>

#include "harness/subjects/ledger_subject.h"
#include "oracles/oracle.h"
#include "reference/ledger.h"

namespace lockstep::harness {
namespace {

// What is well formed, and not built.
base::Status check_built(const trace::Scenario& scenario) {
  const auto unbuilt = [](const char* field, const char* rule) {
    return base::unsupported_error("", field, rule);
  };
  if (scenario.executor != trace::ExecutorKind::Ledger) {
    return unbuilt("executor", "`device` is not built: only `ledger` runs scenarios");
  }
  if (!scenario.engine.speculative) return base::Ok{};
  const bool recurrent = std::ranges::any_of(scenario.engine.groups, [](const auto& group) {
    return group.type == trace::GroupType::Mamba;
  });
  if (recurrent) return unbuilt("engine.speculative", "with a mamba group is not built");
  const bool warm = std::ranges::any_of(
      scenario.requests, [](const auto& request) { return request.sampling.temperature > 0; });
  if (warm && scenario.engine.speculative->acceptance == trace::Acceptance::Rejection) {
    return unbuilt("engine.speculative.acceptance",
                   "`rejection` at a temperature above 0 is not built; `same_draw` is");
  }
  return base::Ok{};
}

// `match` and `miss` become the tokens that they mean; every proposal is a token or none.
void resolve_drafts(trace::Scenario& scenario) {
  using Kind = trace::DraftEntry::Kind;
  if (!scenario.engine.speculative) return;
  const std::uint32_t modulus = std::min<std::uint32_t>(256, scenario.ledger.tokenizer_size);
  for (trace::RequestSpec& spec : scenario.requests) {
    const std::size_t count =
        std::size_t{spec.max_tokens} + scenario.engine.speculative->num_speculative_tokens;
    const auto by_reference = [](const trace::DraftEntry& entry) {
      return entry.kind == Kind::Match || entry.kind == Kind::Miss;
    };
    std::vector<trace::TokenId> alone;
    if (by_reference(spec.draft_default) || std::ranges::any_of(spec.draft, by_reference)) {
      alone = reference::greedy_continuation(scenario, spec, static_cast<std::uint32_t>(count));
    }
    spec.draft.resize(std::max(count, spec.draft.size()), spec.draft_default);
    spec.draft_default = {};
    for (std::size_t i = 0; i < spec.draft.size(); ++i) {
      trace::DraftEntry& entry = spec.draft[i];
      if (!by_reference(entry)) continue;
      if (i >= alone.size()) {
        entry = {};
        continue;
      }
      entry.token = entry.kind == Kind::Match ? alone[i] : (alone[i] + 1) % modulus;
      entry.kind = Kind::Token;
    }
  }
}

// The laws of a run, fed as it goes.
class Judges {
 public:
  Judges(const trace::Scenario& scenario, std::vector<trace::Event>* record)
      : laws_(oracles::serving_laws(scenario)), record_(record) {}

  void on_event(trace::Event event) {
    for (const auto& law : laws_) law->on_event(event);
    if (record_ != nullptr) record_->push_back(std::move(event));
  }
  std::vector<oracles::Verdict> finish() {
    std::vector<oracles::Verdict> verdicts;
    for (const auto& law : laws_) verdicts.push_back(law->finish(verdicts));
    return verdicts;
  }

 private:
  std::vector<std::unique_ptr<oracles::Oracle>> laws_;
  std::vector<trace::Event>* record_;
};

// The reference beside each life: the request alone, cold.
void refer(const trace::Scenario& scenario, const LedgerRun& run, Judges& judges) {
  for (const LedgerLife& life : run.lives) {
    const trace::RequestResult& got = run.result.requests[life.result];
    reference::LedgerAnswer answer =
        reference::answer(scenario, scenario.requests[life.request], life.inherited, life.seed);
    judges.on_event(trace::LifeReferenced{
        life.id, std::move(answer.tokens), std::move(answer.text), std::move(answer.finish_reason),
        std::move(answer.logprobs), got.tokens, got.text, got.finish_reason, got.logprobs});
  }
}

}  // namespace

const oracles::Finding* ScenarioOutcome::finding() const {
  const oracles::Finding* first = nullptr;
  for (const oracles::Verdict& verdict : verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      if (first == nullptr || finding.event_index < first->event_index) first = &finding;
    }
  }
  return first;
}

base::Result<ScenarioOutcome> run_scenario(const trace::Scenario& given,
                                           const ScenarioRunOptions& options) {
  LS_TRY(check_built(given));
  trace::Scenario scenario = given;
  resolve_drafts(scenario);
  Judges judges(scenario, options.record);
  LedgerRun run = run_ledger(scenario, options.snapshots_and_steps,
                             [&judges](trace::Event event) { judges.on_event(std::move(event)); });
  refer(scenario, run, judges);
  ScenarioOutcome outcome;
  outcome.verdicts = judges.finish();
  outcome.steps = run.result.launches;
  outcome.result = std::move(run.result);
  return outcome;
}

}  // namespace lockstep::harness
