// liveness: every request ends (before max_ticks), whatever was late, lost or refused on the way,
// and at the end every block is free again. Not judged where the scenario itself stops the machine
// for as long as the run lasts.
#include <algorithm>

#include "oracles/serving_law.h"

namespace lockstep::oracles {
namespace {

class Liveness : public ServingLaw<Liveness> {
 public:
  explicit Liveness(ScenarioPointer pointer)
      : ServingLaw<Liveness>(std::move(pointer)), counted_(scenario().engine.pools.size()) {
    for (const auto* list : {&scenario().events, &scenario().faults}) {
      for (const trace::ForcedEvent& event : *list) unending_ |= is_unending(event);
    }
  }

  std::string_view law() const override { return "liveness"; }

  Verdict finish(const std::vector<Verdict>&) override {
    return verdict(checked_, "lives",
                   unending_ ? "the scenario stops the machine for good" : "the run did not end");
  }

  void on(const trace::LifeBegan&) { ++lives_; }

  void on(const trace::PoolCounted& event) {
    if (event.pool >= counted_.size()) return;
    counted_[event.pool] = event;
    stale_ = false;
  }

  void on(const trace::BlocksTaken& event) { hold(event.pool, event.blocks, 1); }
  void on(const trace::BlocksHit& event) { hold(event.pool, event.blocks, 1); }
  void on(const trace::BlocksShared& event) { hold(event.pool, event.blocks, 1); }
  void on(const trace::BlocksReleased& event) { hold(event.pool, event.blocks, -1); }

  void on(const trace::RunEnded& event) {
    if (unending_ || failed_) return;
    checked_ += lives_;
    for (const trace::RequestId request : event.live) {
      fail("live", request, {}, [&] {
        return fmt::format("request {} is still live after {} ticks", name(request), event.tick);
      });
    }
    if (!event.live.empty()) return;
    for (std::uint32_t pool = 0; pool < counted_.size(); ++pool) judge_pool(pool);
  }

  void on(const trace::SubjectFailed&) { failed_ = true; }

 private:
  void hold(std::uint32_t pool, const std::vector<trace::BlockId>& blocks, int sign) {
    stale_ = true;
    if (pool >= held_.size()) held_.resize(pool + std::size_t{1});
    for (const trace::BlockId block : blocks) held_[pool] += block == trace::kNoBlock ? 0 : sign;
  }

  void judge_pool(std::uint32_t pool) {
    const trace::PoolCounted& engine = counted_[pool];
    const std::string& pool_name = scenario().engine.pools[pool].name;
    const std::int64_t held = pool < held_.size() ? held_[pool] : 0;
    if (held > 0 || (!stale_ && engine.used > 0)) {
      fail("used_at_end", {}, {}, [&] {
        return fmt::format(
            "pool {}: at the end {} blocks are still held; the engine counts {} used", pool_name,
            held, engine.used);
      });
    }
    if (!stale_ && engine.reserved > 0) {
      fail("reserved_at_end", {}, {}, [&] {
        return fmt::format("pool {}: at the end {} blocks are still reserved", pool_name,
                           engine.reserved);
      });
    }
  }

  // For as long as the run lasts.
  bool is_unending(const trace::ForcedEvent& event) const {
    switch (event.type) {
      case trace::ForcedEventType::Stall:
        return event.ticks >= scenario().max_ticks;
      case trace::ForcedEventType::Fail:
        return event.count >= scenario().max_ticks;
      case trace::ForcedEventType::Cancel:
      case trace::ForcedEventType::Disconnect:
      case trace::ForcedEventType::Admit:
      case trace::ForcedEventType::Schedule:
      case trace::ForcedEventType::Preempt:
      case trace::ForcedEventType::Fork:
      case trace::ForcedEventType::Evict:
      case trace::ForcedEventType::ResetPrefixCache:
      case trace::ForcedEventType::Late:
      case trace::ForcedEventType::Duplicate:
      case trace::ForcedEventType::Lost:
      case trace::ForcedEventType::Flip:
      case trace::ForcedEventType::DeviceLost:
        return false;
    }
    return false;
  }

  std::vector<trace::PoolCounted> counted_;
  std::vector<std::int64_t> held_;  // by pool, holders of all blocks
  std::uint64_t checked_ = 0, lives_ = 0;
  bool stale_ = true;  // blocks moved since the engine counted
  bool unending_ = false, failed_ = false;
};

}  // namespace

std::unique_ptr<Oracle> liveness(ScenarioPointer scenario) {
  return std::make_unique<Liveness>(std::move(scenario));
}

}  // namespace lockstep::oracles
