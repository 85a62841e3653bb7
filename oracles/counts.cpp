// counts: the counts that a life ends with are those of its own events (docs/scenario.md, rule 9).
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class CountsLaw : public ServingLaw<CountsLaw> {
 public:
  using ServingLaw<CountsLaw>::ServingLaw;
  std::string_view law() const override { return "counts"; }

  Verdict finish(const std::vector<Verdict>&) override {
    for (std::uint32_t id = 0; id < lives_.size(); ++id) {
      if (lives_[id].ended) judge({id}, lives_[id]);
    }
    return verdict(checked_, "counts", "no life ended");
  }

  void on(const trace::LifeBegan& event) {
    life(event.request).prompt = event.prompt_tokens;
    life(event.request).inherited = event.tokens.size() - event.prompt_tokens;
    life(event.request).forked = event.parent.has_value();
  }

  void on(const trace::BlocksHit& event) {
    Life& mine = life(event.request);  // a fork is admitted with its parent's blocks, by no hit
    if (mine.launches == 0 && !mine.forked) mine.hit = event.tokens;
  }

  void on(const trace::BlocksReleased& event) {
    if (life(event.request).launches == 0) life(event.request).hit = 0;
  }

  void on(const trace::LaunchMade& event) {
    for (const trace::RequestId request : event.requests) ++life(request).launches;
  }

  void on(const trace::LaunchRan& event) {
    for (const trace::RanRows& row : event.rows) {
      life(row.request).scheduled += row.tokens.size();
      ++life(row.request).ran;
    }
  }

  void on(const trace::TokensAccepted& event) {
    Life& mine = life(event.request);
    mine.proposed += event.proposed;
    mine.accepted += event.accepted;
    mine.emitted += event.tokens.size();
    if (event.accepted <= event.proposed && event.accepted <= event.tokens.size()) return;
    fail("accepted_more", event.request, {}, [&] {
      return fmt::format("tick {}: request {} accepts {} drafts of {} in {} tokens", tick(),
                         name(event.request), event.accepted, event.proposed, event.tokens.size());
    });
  }

  void on(const trace::RequestPreempted& event) { ++life(event.request).preemptions; }
  void on(const trace::LifeAborted& event) { life(event.request).aborted = true; }
  void on(const trace::RequestTouched& event) { life(event.request).touched = true; }

  void on(const trace::LifeReferenced& event) {
    // A client that has gone keeps what it had seen; the engine may have emitted more by then.
    if (event.got_finish_reason != "abort") life(event.request).given = event.got_tokens.size();
  }

  void on(const trace::LifeEnded& event) {
    Life& mine = life(event.request);
    if (mine.ended) {
      fail("ended_twice", event.request, {}, [&] {
        return fmt::format("tick {}: request {} ends again, as {}", tick(), name(event.request),
                           event.reason);
      });
    }
    mine.ended = true;
    mine.counts = event.counts;
  }

 private:
  struct Life {
    std::uint64_t prompt = 0, inherited = 0;
    std::uint64_t hit = 0;  // of the admission at hand, until the first launch
    std::uint64_t scheduled = 0, launches = 0, ran = 0;
    std::uint64_t proposed = 0, accepted = 0, emitted = 0, preemptions = 0;
    std::optional<std::uint64_t> given;  // tokens that the client has
    bool forked = false, ended = false, aborted = false, touched = false;
    trace::Counts counts;
  };

  Life& life(trace::RequestId request) { return grown(lives_, request.value); }

  void compare(const char* kind, trace::RequestId request, std::uint64_t got, std::uint64_t want) {
    ++checked_;
    if (got == want) return;
    fail(kind, request, {}, [&] {
      return fmt::format("request {} ends with {} {}; its events come to {}", name(request), kind,
                         got, want);
    });
  }

  void judge(trace::RequestId request, const Life& mine) {
    const trace::Counts& counts = mine.counts;
    compare("prompt", request, counts.prompt, mine.prompt);
    if (mine.launches > 0) compare("cached", request, counts.cached, mine.hit);
    // What a launch that never ran would have fed, nobody knows.
    if (mine.launches == mine.ran) {
      compare("scheduled", request, counts.scheduled, mine.scheduled);
    } else if (counts.scheduled < mine.scheduled) {
      compare("scheduled", request, counts.scheduled, mine.scheduled);
    }
    compare("accepted", request, counts.accepted, mine.accepted);
    compare("preemptions", request, counts.preemptions, mine.preemptions);
    compare("emitted", request, counts.emitted, mine.emitted + mine.inherited);
    if (mine.given) compare("given", request, *mine.given, counts.emitted);
    // Drafts of a launch that was given up, or came back to a life that had ended, are in no event.
    if (!mine.touched && !mine.aborted && mine.preemptions == 0 && mine.launches == mine.ran) {
      compare("proposed", request, counts.proposed, mine.proposed);
    }
    ++checked_;
    if (counts.accepted > counts.proposed) {
      fail("accepted_more", request, {}, [&] {
        return fmt::format("request {} ends with {} drafts accepted of {}", name(request),
                           counts.accepted, counts.proposed);
      });
    }
  }

  std::vector<Life> lives_;
  std::uint64_t checked_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> counts(ScenarioPointer scenario) {
  return std::make_unique<CountsLaw>(std::move(scenario));
}

}  // namespace lockstep::oracles
