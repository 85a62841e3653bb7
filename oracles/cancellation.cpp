// cancellation: once the engine has learned that a client is gone, no step is planned for that
// life, it gets no block and no token, and all its blocks come back.
#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class Cancellation : public ServingLaw<Cancellation> {
 public:
  using ServingLaw<Cancellation>::ServingLaw;
  std::string_view law() const override { return "cancellation"; }

  Verdict finish(const std::vector<Verdict>&) override {
    for (std::uint32_t id = 0; id < lives_.size(); ++id) {
      const Life& life = lives_[id];
      if (!life.aborted || life.held <= 0) continue;
      fail("kept_blocks", {id}, {}, [&] {
        return fmt::format("request {}, aborted in tick {}, still holds {} blocks at the end",
                           name({id}), life.since, life.held);
      });
    }
    return verdict(aborted_, "lives", "no request was cancelled");
  }

  void on(const trace::LifeAborted& event) {
    Life& life = grown(lives_, event.request.value);
    life.aborted = true;
    life.since = event.tick;
    ++aborted_;
  }

  void on(const trace::LaunchMade& event) {
    if (aborted_ == 0) return;
    for (const trace::RequestId request : event.requests) {
      refuse("launched", request, fmt::format("launch {} is planned for it", event.launch.value));
    }
  }

  void on(const trace::TokensAccepted& event) {
    if (aborted_ == 0 || event.tokens.empty()) return;
    refuse(
        "accepted", event.request,
        fmt::format("it accepts {} tokens of launch {}", event.tokens.size(), event.launch.value));
  }

  void on(const trace::BlocksTaken& event) { hold(event.request, event.blocks); }
  void on(const trace::BlocksHit& event) { hold(event.request, event.blocks); }
  void on(const trace::BlocksShared& event) { hold(event.request, event.blocks); }

  void on(const trace::BlocksReleased& event) {
    grown(lives_, event.request.value).held -= held(event.blocks);
  }

 private:
  struct Life {
    bool aborted = false;
    trace::Tick since = 0;
    std::int64_t held = 0;  // blocks of all groups
  };

  static std::int64_t held(const std::vector<trace::BlockId>& blocks) {
    std::int64_t count = 0;
    for (const trace::BlockId block : blocks) count += block != trace::kNoBlock;
    return count;
  }
  void hold(trace::RequestId request, const std::vector<trace::BlockId>& blocks) {
    grown(lives_, request.value).held += held(blocks);
    if (aborted_ > 0) refuse("took_blocks", request, "it gets blocks");
  }

  void refuse(const char* kind, trace::RequestId request, const std::string& what) {
    const Life& life = grown(lives_, request.value);
    if (!life.aborted) return;
    fail(kind, request, {}, [&] {
      return fmt::format("tick {}: request {} was aborted in tick {}, and {}", tick(),
                         name(request), life.since, what);
    });
  }

  std::vector<Life> lives_;
  std::uint64_t aborted_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> cancellation(ScenarioPointer scenario) {
  return std::make_unique<Cancellation>(std::move(scenario));
}

}  // namespace lockstep::oracles
