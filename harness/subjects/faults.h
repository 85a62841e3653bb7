// Faults of a scenario: which call fails, and which requests a fault may cost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "trace/event.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::harness {

class Faults {
 public:
  using EventSink = std::function<void(trace::Event)>;
  Faults(const trace::Scenario& scenario, EventSink sink);

  // The n-th such call from now on fails; `result` becomes applied when it does.
  void arm(const trace::ForcedEvent& fault, trace::EventResult* result);
  // Asked before each call; `who` are the requests in it, touched if it fails.
  bool fails(trace::FailPoint what, std::uint32_t pool, std::span<const trace::RequestId> who);

  // Bits of a block changed: whoever holds it, until it is handed out again, and whoever holds what
  // those wrote since, is touched. Corruption spreads through published blocks.
  void flipped(std::uint32_t pool, trace::BlockId block);
  // Follows who holds which block.
  void on_event(const trace::Event& event);

 private:
  using Block = std::pair<std::uint32_t, trace::BlockId>;  // pool, block
  struct Armed {
    trace::ForcedEvent fault;
    std::uint32_t calls = 0;
    trace::EventResult* result = nullptr;
  };
  void hold(trace::RequestId request, std::uint32_t pool, std::span<const trace::BlockId> blocks,
            bool handed_out);
  void let_go(trace::RequestId request, std::uint32_t pool, std::span<const trace::BlockId> blocks);
  void made(const trace::LaunchMade& event);
  void touch_flipped(trace::RequestId request);

  EventSink sink_;
  bool follows_blocks_;  // only where a block may be flipped
  std::vector<Armed> armed_;
  std::map<Block, std::set<trace::RequestId>> holders_;
  std::set<Block> tainted_;
  // Launches made and not yet run: who reads which block, also when it has let go of it since.
  std::map<trace::LaunchIndex, std::set<std::pair<Block, trace::RequestId>>> unread_;
  // The same launches' copies, source and destination, in their order: a flip before they run is
  // copied along.
  std::map<trace::LaunchIndex, std::vector<std::pair<Block, Block>>> uncopied_;
  std::set<trace::RequestId> failed_, flipped_;  // touched by a failed call; by flipped bits
};

}  // namespace lockstep::harness
