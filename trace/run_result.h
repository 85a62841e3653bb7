// RunResult: what a scenario run came to: the `result` of `--json` (docs/scenario.md, "Result").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "trace/draw.h"
#include "trace/ids.h"

namespace lockstep::trace {

struct EventResult {  // of events, then faults, in file order
  std::string type;
  std::optional<Tick> tick;  // when it happened; null: its trigger never came
  bool applied = false;
  std::string reason;  // why not
};

enum class LifeState : std::uint8_t { Finished, Refused, Live };

struct Counts {
  std::uint64_t prompt = 0, cached = 0, external = 0, scheduled = 0, proposed = 0, accepted = 0,
                emitted = 0, preemptions = 0, aborts = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};

struct TokenLogprobs {
  std::vector<std::pair<TokenId, double>> entries;  // the token's, then the likeliest
  friend bool operator==(const TokenLogprobs&, const TokenLogprobs&) = default;
};

struct StreamChunk {
  Tick tick = 0;
  std::vector<TokenId> tokens;
  std::string text;
};

struct DrawResult {
  DrawAddress address;
  double u = 0;
};

struct RequestResult {
  std::string key, id;
  LifeState state = LifeState::Live;
  std::string finish_reason;              // stop length abort error refused; "" while live
  std::optional<TokenId> stop_token;      // stop_reason, where an id ended it
  std::string error_code, error_message;  // "" if none
  std::vector<TokenId> tokens;
  std::string text;
  Counts counts;
  std::vector<TokenLogprobs> logprobs;  // a token each, if asked for
  std::vector<StreamChunk> stream;
  std::vector<DrawResult> draws;  // of emitted tokens
};

enum class RowKind : std::uint8_t { Prefill, Decode, Verify };

struct StepRow {
  std::string request;
  RowKind kind = RowKind::Prefill;
  std::vector<TokenId> tokens;  // fed; placeholders resolved
  std::vector<Position> positions;
  // A group each: attention: slot written per token = block * block_size + offset; mamba: [block].
  std::vector<std::vector<std::int64_t>> slots;
  std::vector<TokenId> sampled, drafts;
  std::uint32_t accepted = 0;  // drafts, before any stop or cap
};

struct BlockCopy {
  std::string kind;  // "copy_on_write"
  std::uint32_t pool = 0;
  BlockId source, destination;
};

struct StepResult {
  Tick tick = 0;
  LaunchIndex launch;
  std::uint32_t padded_to = 0;
  std::vector<StepRow> rows;
  std::vector<std::int64_t> pad_slots;  // must be empty
  std::vector<BlockCopy> copies;
};

struct PoolSnapshot {
  std::uint32_t num_blocks = 0, free = 0, evictable = 0, used = 0, reserved = 0;
  std::vector<BlockId> free_queue, reserved_blocks;
  std::map<BlockId, std::uint32_t> refcount;  // of used blocks
  std::map<BlockId, std::string> cached;      // key, hex
  std::map<BlockId, base::Hash128> digest;    // of each block's cells
};

struct LifeSnapshot {
  std::string state;  // waiting running preempted
  std::uint32_t num_computed_tokens = 0;
  // A group each: block ids in order of positions, -1: given back.
  std::vector<std::vector<std::int64_t>> blocks;
  std::uint32_t in_flight = 0;
  std::uint32_t emitted = 0;
};

struct Snapshot {
  Tick tick = 0;
  std::map<std::string, PoolSnapshot> pools;
  std::map<std::string, LifeSnapshot> requests;
};

struct RunResult {
  Tick ticks = 0;
  std::uint64_t launches = 0;
  std::vector<EventResult> events;
  std::vector<RequestResult> requests;  // of the file, then forked lives
  std::vector<StepResult> steps;
  std::vector<Snapshot> snapshots;
};

}  // namespace lockstep::trace
