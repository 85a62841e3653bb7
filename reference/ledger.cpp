// One loop: logits of the last row, script, choice, end or the next row. A greedy token that
// nothing but masks bears on is found among integers; sampling.h has the rest.
#include "reference/ledger.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "reference/ledger_logits.h"
#include "reference/ledger_sequence.h"
#include "reference/output_text.h"
#include "reference/sampling.h"

namespace lockstep::reference {
namespace {

using trace::TokenId;

constexpr double kEosLogit = -16;
constexpr double kScriptedLogit = 64;
constexpr double kMasked = -std::numeric_limits<double>::infinity();

bool contains(const std::vector<TokenId>& ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::vector<TokenId> sorted_union(std::vector<TokenId> ids, const std::vector<TokenId>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// A request that goes on token by token, without an end.
class Continuation {
 public:
  Continuation(const trace::Scenario& scenario, const trace::RequestSpec& spec,
               const trace::SamplingParams& params, std::uint64_t seed)
      : model_(scenario.ledger),
        spec_(spec),
        params_(params),
        seed_(seed),
        sequence_(scenario, spec),
        eos_(sorted_union(model_.eos_token_ids, {})),
        eos_and_stops_(sorted_union(eos_, params.stop_token_ids)) {
    LS_CHECK(!spec.prompt.empty());
    if (params.has_penalties()) history_.emplace(model_.tokenizer_size, spec.prompt);
    for (const TokenId token : spec.prompt) row_ = sequence_.feed(token);
  }

  void append(TokenId token) {
    if (history_) history_->add_output(token);
    row_ = sequence_.feed(token);
    ++output_count_;
  }

  // The token after what was fed. It isn't fed yet.
  Choice next() {
    const bool masks_stops = output_count_ < params_.min_tokens;
    if (params_.temperature == 0 && !history_ && params_.logit_bias.empty() && !params_.logprobs &&
        script().kind != trace::ScriptEntry::Kind::Logits) {
      if (const auto token = plain_greedy(masks_stops)) return {*token, {}, {}};
    }
    fill();
    return choose({.params = &params_,
                   .eos = eos_,
                   .history = history_ ? &*history_ : nullptr,
                   .output_count = output_count_,
                   .address = {seed_, sequence_.position(), trace::DrawPurpose::Sample, 0}},
                  logits_);
  }

 private:
  const trace::ScriptEntry& script() const {
    static const trace::ScriptEntry kOwn;
    return output_count_ < spec_.script.size() ? spec_.script[output_count_] : kOwn;
  }

  // Null: only EOS and masked ids are left, so all of the rules have to be looked at.
  std::optional<TokenId> plain_greedy(bool masks_stops) const {
    const trace::ScriptEntry& entry = script();
    if (entry.kind == trace::ScriptEntry::Kind::Token && entry.token < model_.tokenizer_size &&
        !(masks_stops && contains(eos_and_stops_, entry.token))) {
      return entry.token;
    }
    // EOS has -16, all others at least 0.
    return largest_logit(row_, model_.tokenizer_size, masks_stops ? eos_and_stops_ : eos_);
  }

  void fill() {
    logits_.resize(model_.tokenizer_size);
    fill_logits(row_, logits_);
    for (const TokenId id : eos_) {
      if (id < logits_.size()) logits_[id] = kEosLogit;
    }
    const trace::ScriptEntry& entry = script();
    switch (entry.kind) {
      case trace::ScriptEntry::Kind::Own:
        break;
      case trace::ScriptEntry::Kind::Token:
        if (entry.token < logits_.size()) logits_[entry.token] = kScriptedLogit;
        break;
      case trace::ScriptEntry::Kind::Logits:
        std::fill(logits_.begin(), logits_.end(), kMasked);
        for (const auto& [id, logit] : entry.logits) {
          if (id < logits_.size()) logits_[id] = logit;
        }
        break;
    }
  }

  const trace::LedgerModel& model_;
  const trace::RequestSpec& spec_;
  const trace::SamplingParams& params_;
  std::uint64_t seed_;
  LedgerSequence sequence_;
  std::vector<TokenId> eos_, eos_and_stops_;  // ascending
  std::optional<TokenHistory> history_;
  std::vector<double> logits_;
  std::uint64_t row_ = 0;  // hash of the last row
  std::uint64_t output_count_ = 0;
};

bool at_cap(const trace::Scenario& scenario, const trace::RequestSpec& spec,
            std::size_t output_count) {
  return output_count >= spec.max_tokens ||
         spec.prompt.size() + output_count >= scenario.engine.max_model_len;
}

// Whether the last token ends the request (docs/scenario.md, rule 8); if so, says how.
bool ends(const trace::Scenario& scenario, const trace::RequestSpec& spec, LedgerAnswer& answer) {
  const trace::SamplingParams& params = spec.sampling;
  const TokenId token = answer.tokens.back();
  if (answer.tokens.size() > params.min_tokens) {
    const bool is_eos = !params.ignore_eos && contains(scenario.ledger.eos_token_ids, token);
    if (is_eos || contains(params.stop_token_ids, token)) {
      answer.finish_reason = "stop";
      if (!is_eos) answer.stop_token = token;
      return true;
    }
  }
  if (!at_cap(scenario, spec, answer.tokens.size())) return false;
  answer.finish_reason = "length";
  return true;
}

}  // namespace

LedgerAnswer answer(const trace::Scenario& scenario, const trace::RequestSpec& spec,
                    const std::vector<TokenId>& inherited, std::uint64_t seed) {
  LedgerAnswer answer;
  answer.tokens = inherited;
  if (at_cap(scenario, spec, inherited.size())) {
    answer.finish_reason = "length";
    answer.text = output_text(answer.tokens);
    return answer;
  }
  Continuation continuation(scenario, spec, spec.sampling, seed);
  for (const TokenId token : inherited) continuation.append(token);
  while (true) {
    Choice choice = continuation.next();
    answer.tokens.push_back(choice.token);
    if (choice.draw) answer.draws.push_back(*choice.draw);
    if (spec.sampling.logprobs) answer.logprobs.push_back(std::move(choice.logprobs));
    if (ends(scenario, spec, answer)) break;
    continuation.append(choice.token);
  }
  answer.text = output_text(answer.tokens);
  return answer;
}

std::vector<TokenId> greedy_continuation(const trace::Scenario& scenario,
                                         const trace::RequestSpec& spec,
                                         const std::vector<TokenId>& inherited,
                                         std::uint32_t count) {
  trace::SamplingParams params = spec.sampling;
  params.temperature = 0;
  params.logprobs.reset();
  std::vector<TokenId> tokens = inherited;
  tokens.resize(std::min<std::size_t>(tokens.size(), count));
  if (tokens.size() == count) return tokens;
  Continuation continuation(scenario, spec, params, 0);
  for (const TokenId token : inherited) continuation.append(token);
  while (true) {
    tokens.push_back(continuation.next().token);
    if (tokens.size() == count) return tokens;
    continuation.append(tokens.back());
  }
}

std::vector<TokenId> greedy_continuation(const trace::Scenario& scenario,
                                         const trace::RequestSpec& spec, std::uint32_t count) {
  return greedy_continuation(scenario, spec, {}, count);
}

}  // namespace lockstep::reference
