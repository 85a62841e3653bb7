// StreamMachine: writes right streams of serving events, for the tests of the laws: a small machine
// of its own with pools, prefix hits, chunks, drafts, forks, aborts, preemptions and several
// launches in flight. It takes the shortest way to the rules of docs/scenario.md and shares nothing
// with the engine or with the laws' shadows.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/event.h"
#include "trace/scenario.h"

namespace lockstep::oracles {

using trace::BlockId;
using trace::kNoBlock;
using trace::RequestId;

class StreamMachine {
 public:
  struct Work {
    RequestId request;
    std::uint32_t tokens = 1;
    std::vector<bool> drafts;  // each: does it match?
  };

  explicit StreamMachine(trace::Scenario scenario);

  std::vector<trace::Event> events;
  trace::Tick tick = 0;
  RequestId begin(const std::string& key, std::vector<trace::TokenId> prompt,
                  std::uint32_t max_tokens, std::uint64_t identity = 0);

  // The child goes on from the parent's computed tokens, sharing its blocks.
  RequestId fork(RequestId from, const std::string& key);
  bool ended(RequestId id) { return life(id).ended; }
  bool waiting(RequestId id) { return !life(id).ended && !life(id).running; }
  bool busy(RequestId id) { return life(id).in_flight > 0; }
  std::uint32_t computed(RequestId id) { return life(id).computed; }
  // Tokens that may be planned: the rest of what is known, and one placeholder a launch in flight.
  std::uint32_t wanted(RequestId id);
  std::size_t in_flight() const { return flights_.size(); }
  std::size_t lives() const { return lives_.size(); }

  // Looks for a hit and starts the life; then plan it.
  void admit(RequestId id);

  // Plans one launch of these; what doesn't fit is refused.
  void launch(const std::vector<Work>& work);

  // The oldest launch that has not run runs.
  void run();

  // The oldest launch completes.
  void complete();
  void preempt(RequestId id);
  void abort(RequestId id);
  void finish();

 private:
  struct Pool {
    std::deque<std::uint32_t> queue;
    std::vector<std::uint32_t> reserved;
    std::map<std::uint32_t, std::uint32_t> count;
    std::map<std::string, std::uint32_t> keys;
    std::map<std::uint32_t, std::string> key_of;
  };
  struct Part {
    RequestId request;
    std::vector<bool> drafts;
    bool samples = false;
    trace::RanRows row;
  };
  struct Flight {
    std::uint32_t launch = 0;
    std::vector<Part> parts;
    std::vector<trace::CopyRan> copies;
    std::set<std::pair<std::uint32_t, std::uint32_t>> uses;
    bool ran = false;
  };
  struct Life {
    std::uint64_t identity = 0, salt = 0;
    std::uint32_t prompt = 0, most = 0, computed = 0, in_flight = 0, in_flight_samples = 0;
    std::vector<trace::TokenId> tokens;
    std::vector<std::vector<BlockId>> tables;
    trace::Counts counts;
    std::string reason;
    bool running = false, ended = false, forked = false;
  };

  const std::vector<trace::GroupSpec>& groups() const { return scenario_.engine.groups; }
  Life& life(RequestId id) { return lives_[id.value]; }
  Pool& pool(std::uint32_t group) { return pools_[groups()[group].pool]; }

  static trace::TokenId truth(const Life& life, std::uint32_t position);
  std::uint32_t first_needed(std::uint32_t group, std::uint32_t next) const;
  std::string key(const Life& mine, std::uint32_t group, std::uint32_t index) const;
  std::uint32_t longest_hit(const Life& mine);
  void pin(std::uint32_t group, std::uint32_t block);
  std::uint32_t take(std::uint32_t group);
  void drop_key(std::uint32_t index, std::uint32_t block, bool say);
  bool reserve(RequestId id, std::uint32_t first, std::uint32_t end, Flight& flight);
  void replace(RequestId id, std::uint32_t g, std::uint32_t index, Flight& flight);
  void add_slot(trace::RanRows& row, std::uint32_t g, std::uint32_t i, std::uint32_t count);
  bool in_use(std::uint32_t index, std::uint32_t block) const;
  void unpin(std::uint32_t group, BlockId block);
  void settle();
  void release(RequestId id);
  void accept(const Part& part, std::uint32_t launch);
  void publish(const Part& part, Life& mine, std::uint32_t rejected);
  void trim(RequestId id);
  void end(RequestId id, const std::string& reason);
  void reference(RequestId id);
  void count_pools();

  trace::Scenario scenario_;
  std::vector<Pool> pools_;
  std::vector<Life> lives_;
  std::deque<Flight> flights_;
  std::uint32_t made_ = 0;
};

}  // namespace lockstep::oracles
