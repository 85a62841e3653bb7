// LedgerDriver: the tick loop of ledger_subject.h with the state that it moves.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/execute/ledger_executor.h"
#include "engine/serving_engine.h"
#include "harness/subjects/faults.h"
#include "harness/subjects/ledger_subject.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {

class LedgerDriver {
 public:
  using EventSink = std::function<void(trace::Event)>;
  LedgerDriver(const trace::Scenario& scenario, bool observe, EventSink sink, LedgerRun& run);

  void drive();

 private:
  // A life as its client knows it.
  struct Client {
    std::uint32_t request = 0;                    // index into Scenario::requests
    std::optional<trace::RequestId> life;         // once it has begun
    bool gone = false;                            // cancelled or disconnected: sees nothing more
    std::size_t read_tokens = 0, read_bytes = 0;  // of the life's output
    std::size_t inherited = 0;                    // a fork's outputs at its birth
  };
  struct Completion {
    engine::LaunchOutput output;
  };
  enum class Phase : std::uint8_t { Aborts, Others, Launched };

  void deliver();
  void forced_events(Phase phase);
  void arrivals();
  void plan();
  void run_streams();
  void read_clients();
  void read(std::size_t index);
  void snapshot();
  bool finished() const;

  bool due(const trace::ForcedEvent& event) const;
  void happen(std::size_t index);
  std::string apply(const trace::ForcedEvent& event, std::size_t index);
  std::string apply_abort(const trace::ForcedEvent& event);
  std::string apply_fork(const trace::ForcedEvent& event);
  std::string apply_schedule(const trace::ForcedEvent& event, std::size_t index);
  void begin(std::size_t client);
  void note_made(trace::LaunchIndex launch);
  void on_event(trace::Event event);
  void note_step(const trace::LaunchRan& ran);
  void finish_results();
  const trace::ForcedEvent& forced(std::size_t index) const;
  std::optional<std::size_t> client_of(const std::string& key) const;
  const engine::Life* life_of(const Client& client) const;

  const trace::Scenario& scenario_;
  bool observe_;
  EventSink sink_;
  LedgerRun& run_;
  Faults faults_;
  engine::LedgerExecutor executor_;
  engine::ServingEngine engine_;
  trace::Tick tick_ = 0;
  std::vector<Client> clients_;  // requests of the file, then forked lives; as run_.result.requests
  std::map<std::string, std::size_t> client_index_;
  std::vector<std::size_t> unborn_;          // clients that have not arrived, in order of arrival
  std::vector<std::size_t> open_events_;     // that have not happened, in file order
  std::vector<std::size_t> client_of_life_;  // by RequestId
  std::vector<trace::RequestId> changed_;    // lives that gave tokens or ended in this tick
  std::vector<std::pair<trace::Tick, trace::RequestId>> aborts_due_;
  std::multimap<std::pair<trace::Tick, trace::LaunchIndex>, engine::LaunchOutput> completions_;
  std::map<trace::LaunchIndex, std::vector<std::size_t>> launch_events_;  // late, duplicate, lost
  std::optional<std::size_t> forced_step_;                                // event: this tick's step
  engine::ServingEngine::ForcedRows forced_rows_;
  trace::Tick stalled_until_ = 0;  // compute runs nothing before this tick
  std::map<trace::LaunchIndex, std::pair<trace::Tick, std::uint32_t>> made_;  // tick, padded_to
  std::vector<trace::BlockCopy> copies_;  // since the last launch ran
};

}  // namespace lockstep::harness
