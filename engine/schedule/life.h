// Life: one life of one request inside the engine, from submission to its end. A client's id may
// come again; a life's RequestId never does.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/cache/block_key.h"
#include "engine/schedule/step.h"
#include "trace/run_result.h"
#include "trace/scenario.h"

namespace lockstep::engine {

// What a client asks for.
struct Submission {
  trace::RequestSpec spec;
  KeyScope scope;
  std::uint64_t identity = 0;         // trace::LifeBegan::identity
  std::uint64_t adapter_weights = 0;  // 0: none
  std::uint64_t default_seed = 0;     // of its draws, if the client names none
};

// One launch of a life whose tokens are not yet accepted.
struct Flight {
  trace::LaunchIndex launch;
  trace::Position first = 0;
  std::uint32_t count = 0;
  bool samples = false;
  std::uint32_t draft_count = 0;
  std::uint32_t future_slot = 0;
  std::uint32_t epoch = 0;  // Life::epoch when planned
  bool delivered = false;   // its completion has come; `output` waits for earlier launches
  SequenceOutput output;
  std::string error;  // of the launch: LaunchOutput::error
};

enum class LifePhase : std::uint8_t { Waiting, Running, Ended };

struct Life {
  trace::RequestId id;
  std::shared_ptr<const Submission> submission;
  std::uint64_t arrival = 0;  // order of arrival, ascending
  LifePhase phase = LifePhase::Waiting;
  bool held = false;
  bool preempted = false;              // Waiting: at the front of the queue
  bool admitted = false;               // has been, once
  std::vector<trace::TokenId> tokens;  // known: prompt, then what was emitted
  std::uint32_t prompt_count = 0;
  // Tokens whose cells are written or planned to be; corrected by verification, 0 after preemption.
  std::uint32_t computed = 0;
  std::uint32_t pending = 0;   // tokens that launches in flight will give: placeholders
  std::uint32_t epoch = 0;     // preemptions and resets so far: cells of an earlier epoch are gone
  std::deque<Flight> flights;  // in launch order
  // A fork's: launches of the parent that were in flight at the fork and write cells it shares.
  std::vector<trace::LaunchIndex> inherited_launches;
  trace::Counts counts;
  std::string text;           // of the outputs, as far as it is certain
  std::string finish_reason;  // Ended
  std::vector<trace::TokenLogprobs> logprobs;
  std::vector<trace::DrawResult> draws;
  std::string error_code, error_message;
  std::optional<trace::TokenId> stop_token;

  const trace::RequestSpec& spec() const { return submission->spec; }
  std::uint64_t seed() const { return spec().sampling.seed.value_or(submission->default_seed); }
  std::uint32_t known() const { return static_cast<std::uint32_t>(tokens.size()); }
  std::uint32_t emitted() const { return known() - prompt_count; }
  std::uint32_t length() const { return known() + pending; }  // placeholders included
};

}  // namespace lockstep::engine
