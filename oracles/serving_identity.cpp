// token_identity, of the serving core: every life gets exactly the tokens, text, finish reason and
// log-probabilities of its request alone, cold. A life that was cancelled, or that a fault may have
// cost, gets a prefix of the tokens (a flipped cell may change them); a refused one gets none.
#include <algorithm>
#include <cmath>

#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class ServingIdentity : public ServingLaw<ServingIdentity> {
 public:
  using ServingLaw<ServingIdentity>::ServingLaw;
  std::string_view law() const override { return "token_identity"; }

  Verdict finish(const std::vector<Verdict>&) override {
    Verdict result = verdict(tokens_, "tokens", "no life was compared");
    result.where =
        fmt::format("{} lives whole, {} in part, {} touched by a flip", whole_, part_, free_);
    if (result.kind == VerdictKind::NotApplicable && whole_ + part_ > 0) {
      result.kind = VerdictKind::Pass;  // lives that had no token to get
    }
    return result;
  }

  void on(const trace::LifeBegan& event) {
    grown(lives_, event.request.value).prompt_tokens = event.prompt_tokens;
  }
  void on(const trace::LifeAborted& event) { grown(lives_, event.request.value).aborted = true; }
  void on(const trace::RequestTouched& event) {
    Life& life = grown(lives_, event.request.value);
    life.touched = true;
    life.flipped |= event.fault == "flip";
  }
  void on(const trace::LifeReferenced& event) { judge(event, grown(lives_, event.request.value)); }

 private:
  struct Life {
    std::uint32_t prompt_tokens = 0;
    bool aborted = false, touched = false, flipped = false;
  };

  bool client_left(trace::RequestId request, const Life& life) const {
    if (life.aborted) return true;
    const std::string key = name(request);
    return std::any_of(scenario().events.begin(), scenario().events.end(), [&](const auto& event) {
      return (event.type == trace::ForcedEventType::Cancel ||
              event.type == trace::ForcedEventType::Disconnect) &&
             event.request == key;
    });
  }

  void judge(const trace::LifeReferenced& event, const Life& life) {
    tokens_ += event.got_tokens.size();
    const std::string& reason = event.got_finish_reason;
    if (reason == "refused") {
      ++whole_;
      if (!event.got_tokens.empty() || !event.got_text.empty()) {
        fail("refused_gets_tokens", event.request, 0, [&] {
          return fmt::format("request {} was refused, and gets {} tokens", name(event.request),
                             event.got_tokens.size());
        });
      }
      return;
    }
    if (life.flipped) {
      ++free_;
      return;
    }
    const bool in_part =
        life.touched || reason.empty() || (reason == "abort" && client_left(event.request, life));
    ++(in_part ? part_ : whole_);
    if (!judge_tokens(event, in_part)) return;
    judge_logprobs(event);
    if (in_part) return;
    if (event.got_finish_reason != event.finish_reason) {
      differ("finish_reason", event, event.tokens.size(), event.got_finish_reason,
             event.finish_reason);
    } else if (event.got_text != event.text) {
      differ("text", event, {}, fmt::format("{:?}", event.got_text),
             fmt::format("{:?}", event.text));
    }
  }

  bool judge_tokens(const trace::LifeReferenced& event, bool in_part) {
    const std::size_t count = std::min(event.got_tokens.size(), event.tokens.size());
    for (std::size_t i = 0; i < count; ++i) {
      if (event.got_tokens[i] == event.tokens[i]) continue;
      differ("tokens", event, i, fmt::format("token {}", event.got_tokens[i]),
             fmt::format("token {}", event.tokens[i]));
      return false;
    }
    if (event.got_tokens.size() > event.tokens.size()) {
      differ("too_many", event, count, fmt::format("{} tokens", event.got_tokens.size()),
             fmt::format("{} ({})", event.tokens.size(), event.finish_reason));
      return false;
    }
    if (!in_part && event.got_tokens.size() < event.tokens.size()) {
      differ("too_few", event, count,
             fmt::format("{} tokens ({})", event.got_tokens.size(), event.got_finish_reason),
             fmt::format("{} ({})", event.tokens.size(), event.finish_reason));
      return false;
    }
    return true;
  }

  // The reference's value is rounded once; an engine that computes (l - m) - log(sum of n
  // exponentials) in double is at most this far from it (derived in reference/sampling.h).
  double logprob_bound(double value) const {
    return (scenario().ledger.tokenizer_size + 80 + 4 * std::abs(value)) * 0x1p-53;
  }

  bool same_logprobs(const trace::TokenLogprobs& got, const trace::TokenLogprobs& want,
                     std::size_t& first_wrong) const {
    first_wrong = 0;
    const std::size_t count = std::min(got.entries.size(), want.entries.size());
    for (; first_wrong < count; ++first_wrong) {
      const auto& [id, value] = got.entries[first_wrong];
      const auto& [want_id, want_value] = want.entries[first_wrong];
      if (id != want_id || !(std::abs(value - want_value) <= logprob_bound(want_value))) {
        return false;
      }
    }
    return got.entries.size() == want.entries.size();
  }

  // Of the tokens that were given: the same ids in the same order, values within their bound.
  void judge_logprobs(const trace::LifeReferenced& event) {
    // A fork's own ones only: those of the outputs that it began with are its parent's.
    const std::size_t inherited = event.tokens.size() - event.logprobs.size();
    const std::size_t given =
        event.got_tokens.size() - std::min(event.got_tokens.size(), inherited);
    if (event.got_logprobs.size() != given) {
      differ("logprobs", event, {}, fmt::format("{} of them", event.got_logprobs.size()),
             fmt::format("{}", given));
      return;
    }
    for (std::size_t i = 0; i < given && i < event.logprobs.size(); ++i) {
      const auto &got = event.got_logprobs[i].entries, &want = event.logprobs[i].entries;
      std::size_t j = 0;
      if (same_logprobs(event.got_logprobs[i], event.logprobs[i], j)) continue;
      const auto entry = [j](const auto& list) {
        return j < list.size() ? fmt::format("[{}, {}]", list[j].first, list[j].second)
                               : std::string("no entry");
      };
      differ("logprobs", event, i, fmt::format("{} at {}", entry(got), j), entry(want));
      return;
    }
  }

  void differ(const char* kind, const trace::LifeReferenced& event,
              std::optional<std::size_t> output, const std::string& got, const std::string& want) {
    std::optional<std::uint32_t> position;
    if (output) {
      position = lives_[event.request.value].prompt_tokens + static_cast<std::uint32_t>(*output);
    }
    fail(kind, event.request, position, [&] {
      return fmt::format("request {}{}: {} {}; alone, {}", name(event.request),
                         output ? fmt::format(", output {}", *output) : "", kind, got, want);
    });
  }

  std::vector<Life> lives_;
  std::uint64_t tokens_ = 0, whole_ = 0, part_ = 0, free_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> serving_identity(ScenarioPointer scenario) {
  return std::make_unique<ServingIdentity>(std::move(scenario));
}

}  // namespace lockstep::oracles
