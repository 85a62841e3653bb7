#include "harness/subjects/faults.h"

#include <algorithm>

namespace lockstep::harness {

Faults::Faults(const trace::Scenario& scenario, EventSink sink)
    : sink_(std::move(sink)),
      follows_blocks_(std::ranges::any_of(scenario.faults, [](const trace::ForcedEvent& fault) {
        return fault.type == trace::ForcedEventType::Flip;
      })) {}

void Faults::arm(const trace::ForcedEvent& fault, trace::EventResult* result) {
  armed_.push_back({fault, 0, result});
}

bool Faults::fails(trace::FailPoint what, std::uint32_t pool,
                   std::span<const trace::RequestId> who) {
  bool fails = false;
  for (Armed& armed : armed_) {
    const trace::ForcedEvent& fault = armed.fault;
    if (fault.what != what) continue;
    if (what == trace::FailPoint::BlockAlloc && !fault.any_pool && fault.pool != pool) continue;
    ++armed.calls;
    if (armed.calls < fault.nth || armed.calls - fault.nth >= fault.count) continue;
    fails = true;
    armed.result->applied = true;
    armed.result->reason.clear();
  }
  if (fails) {
    for (const trace::RequestId request : who) {
      if (failed_.insert(request).second) sink_(trace::RequestTouched{request, "fail"});
    }
  }
  return fails;
}

void Faults::touch_flipped(trace::RequestId request) {
  if (flipped_.insert(request).second) sink_(trace::RequestTouched{request, "flip"});
}

void Faults::flipped(std::uint32_t pool, trace::BlockId block) {
  sink_(trace::CellsFlipped{pool, block});
  std::set<Block> reached = {{pool, block}};
  for (const auto& [launch, copies] : uncopied_) {
    for (const auto& [source, destination] : copies) {
      if (reached.contains(source)) reached.insert(destination);
    }
  }
  for (const Block& wrong : reached) {
    tainted_.insert(wrong);
    for (const trace::RequestId request : holders_[wrong]) touch_flipped(request);
  }
  for (const auto& [launch, reads] : unread_) {
    for (const auto& [read, request] : reads) {
      if (reached.contains(read)) touch_flipped(request);
    }
  }
  // What a holder has written since its table named the block is tainted with it; so is, simply,
  // all that it holds.
  for (const auto& [held, requests] : holders_) {
    for (const trace::RequestId request : requests) {
      if (flipped_.contains(request)) tainted_.insert(held);
    }
  }
}

void Faults::hold(trace::RequestId request, std::uint32_t pool,
                  std::span<const trace::BlockId> blocks, bool handed_out) {
  for (const trace::BlockId block : blocks) {
    if (block == trace::kNoBlock) continue;
    const Block named{pool, block};
    holders_[named].insert(request);
    if (handed_out) tainted_.erase(named);
    if (tainted_.contains(named)) touch_flipped(request);
  }
  if (!flipped_.contains(request) || tainted_.empty()) return;
  for (const trace::BlockId block : blocks) {
    if (block != trace::kNoBlock) tainted_.insert({pool, block});
  }
}

void Faults::let_go(trace::RequestId request, std::uint32_t pool,
                    std::span<const trace::BlockId> blocks) {
  for (const trace::BlockId block : blocks) {
    if (block != trace::kNoBlock) holders_[{pool, block}].erase(request);
  }
}

void Faults::made(const trace::LaunchMade& event) {
  for (const auto& [block, holders] : holders_) {
    for (const trace::RequestId request : event.requests) {
      if (holders.contains(request)) unread_[event.launch].insert({block, request});
    }
  }
}

void Faults::on_event(const trace::Event& event) {
  if (!follows_blocks_) return;
  if (const auto* taken = std::get_if<trace::BlocksTaken>(&event)) {
    hold(taken->request, taken->pool, taken->blocks, true);
  } else if (const auto* hit = std::get_if<trace::BlocksHit>(&event)) {
    hold(hit->request, hit->pool, hit->blocks, false);
  } else if (const auto* shared = std::get_if<trace::BlocksShared>(&event)) {
    hold(shared->request, shared->pool, shared->blocks, false);
  } else if (const auto* released = std::get_if<trace::BlocksReleased>(&event)) {
    let_go(released->request, released->pool, released->blocks);
  } else if (const auto* launched = std::get_if<trace::LaunchMade>(&event)) {
    made(*launched);
  } else if (const auto* ran = std::get_if<trace::LaunchRan>(&event)) {
    unread_.erase(ran->launch);
    uncopied_.erase(ran->launch);
  } else if (std::holds_alternative<trace::DeviceReset>(event)) {
    unread_.clear();
    uncopied_.clear();
  } else if (const auto* replaced = std::get_if<trace::BlockReplaced>(&event)) {
    const Block source{replaced->pool, replaced->source};
    const Block destination{replaced->pool, replaced->destination};
    const bool tainted = tainted_.contains(source);
    uncopied_[replaced->launch].emplace_back(source, destination);
    hold(replaced->request, replaced->pool, std::span(&replaced->destination, 1), true);
    let_go(replaced->request, replaced->pool, std::span(&replaced->source, 1));
    if (tainted) tainted_.insert(destination);
  }
}

}  // namespace lockstep::harness
