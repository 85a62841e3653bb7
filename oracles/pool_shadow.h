// PoolFold: a shadow of every pool: who holds which block, the one queue from which blocks are
// handed out, reserved blocks and keys, followed from the engine's events alone and by the rules of
// docs/scenario.md (rules 2, 3, 4, 6). An event that breaks a rule is reported, and then taken as
// done, so that the shadow can go on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::oracles {

enum class BlockState : std::uint8_t { Free, Evictable, Used, Reserved };

struct PoolViolation {
  const char* kind;  // "freed_twice"
  trace::RequestId request;
  std::uint32_t pool = 0;
  trace::BlockId block;
  std::string text;  // what is wrong with the block
};

class PoolFold {
 public:
  using Report = std::function<void(const PoolViolation&)>;

  // One that holds a block in a table of a group since that many launches were made.
  struct Holder {
    trace::RequestId request;
    std::uint32_t group = 0, since = 0;
  };
  struct Balance {
    std::uint32_t free = 0, evictable = 0, used = 0, reserved = 0;
    std::uint32_t total() const { return free + evictable + used + reserved; }
    friend bool operator==(const Balance&, const Balance&) = default;
  };

  // Without a report no violation is looked for in keys: only whether a block has one.
  PoolFold(const trace::Scenario& scenario, Report report);

  void taken(const trace::BlocksTaken& event);
  void hit(const trace::BlocksHit& event);
  void shared(const trace::BlocksShared& event);
  void released(const trace::BlocksReleased& event);
  void replaced(const trace::BlockReplaced& event);
  void published(const trace::BlockPublished& event);
  void key_dropped(const trace::KeyDropped& event);
  void made(const trace::LaunchMade& event);
  void failed(const trace::LaunchFailed& event);  // its ordinal comes again
  void completed(const trace::LaunchCompleted& event);
  void reset();

  bool contains(std::uint32_t pool, trace::BlockId block) const;
  BlockState state(std::uint32_t pool, trace::BlockId block) const {
    const std::vector<BlockState>& states = pools_[pool].states;
    return block.value < states.size() ? states[block.value] : BlockState::Free;
  }
  const std::vector<Holder>& holders(std::uint32_t pool, trace::BlockId block) const;
  // Somebody who gave the block back held it when the launch was made.
  bool named_by(trace::LaunchIndex launch, std::uint32_t pool, trace::BlockId block) const;
  bool has_key(std::uint32_t pool, trace::BlockId block) const;
  Balance balance(std::uint32_t pool) const;
  std::uint32_t pool_count() const { return static_cast<std::uint32_t>(pools_.size()); }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Block {
    std::uint32_t previous = kNone, next = kNone;  // in the queue
    std::vector<Holder> holders;
    std::vector<std::uint32_t> uses;  // launches that a former holder's table named it in
    trace::RequestId last_holder;
    std::optional<base::Hash128> key;  // hash of its key
  };
  struct KeyHash {
    std::size_t operator()(const base::Hash128& key) const { return key.low; }
  };
  // The queue is the blocks that no event has named yet, ascending, then a list.
  struct Pool {
    std::uint32_t block_count = 0;
    std::uint32_t fresh = 0;  // first that was never handed out
    std::vector<Block> blocks;
    std::vector<BlockState> states;  // as many
    std::uint32_t head = kNone, tail = kNone;
    std::vector<std::uint32_t> reserved;  // in the order of release
    std::unordered_map<base::Hash128, std::uint32_t, KeyHash> keys;
    Balance counts;
  };
  struct Flight {
    std::uint32_t launch = 0;
    std::vector<trace::RequestId> requests;
  };

  // Null, and reported, where the event names what isn't there.
  Block* find(const char* kind, trace::RequestId request, std::uint32_t pool, trace::BlockId block);
  void report(const char* kind, trace::RequestId request, std::uint32_t pool, trace::BlockId block,
              std::string text);
  std::string describe(std::uint32_t pool, trace::BlockId block) const;
  static std::uint32_t head_of(const Pool& pool);
  static void name_all(Pool& pool);  // no block is fresh any more
  static void link_after(Pool& pool, std::uint32_t block, std::uint32_t previous);
  static void unlink(Pool& pool, std::uint32_t block);
  static std::uint32_t& count_of(Pool& pool, BlockState state);
  static void move(Pool& pool, std::uint32_t block, BlockState state);
  void leave(Pool& pool, std::uint32_t block);  // whatever it is in: queue or reserved
  void enqueue(Pool& pool, std::uint32_t block);
  void drop_key(Pool& pool, std::uint32_t block);
  static Block& touch(Pool& pool, std::uint32_t block);
  void take(trace::RequestId request, std::uint32_t group, std::uint32_t pool,
            trace::BlockId block);
  void hold(trace::RequestId request, std::uint32_t group, std::uint32_t pool,
            trace::BlockId block);
  void release(trace::RequestId request, std::uint32_t group, std::uint32_t pool,
               trace::BlockId block, std::optional<std::uint32_t> extra_use);
  bool live_use(std::uint32_t launch) const;
  void settle();  // reserved blocks of no launch in flight join the queue

  Report report_;
  std::vector<Pool> pools_;
  std::vector<Flight> flights_;
  std::uint32_t made_ = 0;
};

}  // namespace lockstep::oracles
