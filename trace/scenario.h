// Scenario: all that a run depends on. One JSON file (docs/scenario.md) is one Scenario; field
// names and defaults are the file's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/dtype.h"
#include "trace/ids.h"

namespace lockstep::trace {

enum class ExecutorKind : std::uint8_t { Ledger, Device };

// The ledger's model: tokens below 256 are bytes, ids from tokenizer_size on are padding columns.
struct LedgerModel {
  std::uint64_t seed = 0;
  std::uint32_t tokenizer_size = 257;  // 2..2^20
  std::uint32_t vocab_size = 288;      // at least tokenizer_size; default: its next multiple of 32
  std::vector<TokenId> eos_token_ids = {256};
  friend bool operator==(const LedgerModel&, const LedgerModel&) = default;
};

// `name` and `id` are what a client says; `weights` (> 0) stands for the tensors.
struct AdapterSpec {
  std::string key, name;
  std::uint64_t id = 0, weights = 1;
  friend bool operator==(const AdapterSpec&, const AdapterSpec&) = default;
};

enum class GroupType : std::uint8_t { FullAttention, SlidingWindow, Mamba };

// Layers with one kind of cache.
struct GroupSpec {
  std::string name = "full";
  GroupType type = GroupType::FullAttention;
  std::uint32_t block_size = 16;  // tokens, 1..4096
  std::uint32_t pool = 0;         // index into EngineSettings::pools
  std::uint32_t window = 0;       // SlidingWindow: a query sees itself and window - 1 before
  std::uint32_t conv_width = 4;   // Mamba
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

struct PoolSpec {
  std::string name = "full";
  std::uint32_t num_blocks = 1024;
  friend bool operator==(const PoolSpec&, const PoolSpec&) = default;
};

enum class SchedulingPolicy : std::uint8_t { Fcfs, Priority };
enum class PadFill : std::uint8_t { Zero, Stale, Nan, Huge };
enum class BlockFill : std::uint8_t { Poison, Zero, None };
enum class Acceptance : std::uint8_t { Rejection, SameDraw };

struct SpeculativeSpec {                     // method `scripted`
  std::uint32_t num_speculative_tokens = 1;  // k, 1..16
  Acceptance acceptance = Acceptance::Rejection;
  friend bool operator==(const SpeculativeSpec&, const SpeculativeSpec&) = default;
};

struct EngineSettings {
  std::uint32_t block_size = 16;  // tokens in a KV block
  // Blocks of the one pool of a numeric run, 0: from the device's memory; `pools` says it where
  // groups are named.
  std::uint32_t num_blocks = 0;
  // Numeric run, blocks from memory: the part of the device's memory that the engine may use.
  double gpu_memory_utilization = 0.9;
  std::vector<GroupSpec> groups = {GroupSpec{}};
  std::vector<PoolSpec> pools = {PoolSpec{}};
  bool enable_prefix_caching = true;
  std::uint32_t prefix_hash_bits = 128;  // bits of a block's key that are kept, 8..256
  std::uint32_t max_num_seqs = 8;
  std::uint32_t max_num_batched_tokens = 2048;  // tokens of a step, drafts included
  bool enable_chunked_prefill = true;
  std::uint32_t chunked_prefill_size = 0;  // most prompt tokens of a request in a step; 0: budget
  std::uint32_t max_model_len = 4096;      // tokens of prompt and output
  std::uint32_t max_waiting = 0;           // 0: no limit
  SchedulingPolicy scheduling_policy = SchedulingPolicy::Fcfs;
  std::uint32_t async_depth = 1;                       // launches in flight, 1..3
  std::vector<std::uint32_t> cudagraph_capture_sizes;  // ascending
  PadFill pad_fill = PadFill::Stale;
  BlockFill fill_new_blocks = BlockFill::Poison;
  std::optional<SpeculativeSpec> speculative;
  std::uint32_t watchdog_ticks = 64;
  // Device executor: operands of tensor cores, KV cells and P: F16 or BF16.
  model::DType operand_format = model::DType::F16;
  friend bool operator==(const EngineSettings&, const EngineSettings&) = default;
};

// What the model prefers at an output index: nothing (its own logits), a token (its logit becomes
// 64), or these logits, all others -inf.
struct ScriptEntry {
  enum class Kind : std::uint8_t { Own, Token, Logits };
  Kind kind = Kind::Own;
  TokenId token = 0;
  std::vector<std::pair<TokenId, double>> logits;  // ascending ids
  friend bool operator==(const ScriptEntry&, const ScriptEntry&) = default;
};

// What a drafter proposes for an output index, before its own choice. Match: the token of the
// request alone, greedy; Miss: that + 1 mod min(256, tokenizer_size); None: the proposal ends.
// The harness resolves Match and Miss to Token before the run.
struct DraftEntry {
  enum class Kind : std::uint8_t { None, Match, Miss, Token };
  Kind kind = Kind::None;
  TokenId token = 0;
  friend bool operator==(const DraftEntry&, const DraftEntry&) = default;
};

// As in vLLM, but temperature 0. Order: script, min_tokens, logit_bias, penalties, temperature,
// min_p, top_k, top_p; ties keep the lowest id; a draw takes the first id, ascending, whose
// cumulative probability exceeds its one uniform.
struct SamplingParams {
  double temperature = 0;   // 0: greedy
  std::uint32_t top_k = 0;  // 0: all
  double top_p = 1, min_p = 0;
  std::optional<std::uint64_t> seed;  // null: a distinct one from the scenario's seed
  double repetition_penalty = 1;      // prompt and output
  double presence_penalty = 0, frequency_penalty = 0;  // output
  std::vector<std::pair<TokenId, double>> logit_bias;  // ascending ids
  std::uint32_t min_tokens = 0;  // EOS and stop ids are masked before so many outputs
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  std::optional<std::uint32_t> logprobs;  // likeliest tokens listed beside the drawn one
  bool processed_logprobs = false;        // logprobs_mode

  bool has_penalties() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

struct RequestSpec {
  std::string key;              // names this life in events, results and reports
  std::string id;               // what the client calls it; may come again
  std::string prompt_text;      // as given; empty if tokens were given
  std::vector<TokenId> prompt;  // resolved; of a device model, BOS included where it wants one
  Tick tick = 0;                // arrival
  bool hold = false;            // not scheduled before an `admit` event
  std::int32_t priority = 0;    // lower first, under SchedulingPolicy::Priority
  std::optional<std::uint32_t> adapter;  // index into Scenario::adapters
  std::optional<std::string> cache_salt;
  std::uint32_t max_tokens = 16;
  SamplingParams sampling;
  std::vector<ScriptEntry> script;
  std::vector<DraftEntry> draft;
  DraftEntry draft_default;
  // Numeric runs: teacher forcing: output token i is fed as forced[i]; the engine's own choice is
  // still recorded. Empty: its own is fed.
  std::vector<TokenId> forced;
  friend bool operator==(const RequestSpec&, const RequestSpec&) = default;
};

// When an event happens: exactly one of the three.
struct Trigger {
  enum class Kind : std::uint8_t { AtTick, Emitted, Computed, Launch };
  Kind kind = Kind::AtTick;
  std::uint64_t value = 0;    // tick, launch ordinal, or at least so many tokens
  std::uint32_t request = 0;  // Emitted, Computed: index into requests or forked lives
  friend bool operator==(const Trigger&, const Trigger&) = default;
};

enum class ForcedEventType : std::uint8_t {
  Cancel,
  Disconnect,
  Admit,
  Schedule,
  Preempt,
  Fork,
  Evict,
  ResetPrefixCache,
  Late,
  Duplicate,
  Lost,
  Stall,
  Fail,
  Flip,
  DeviceLost,
};

enum class FailPoint : std::uint8_t { HostAlloc, DeviceAlloc, BlockAlloc, Launch };

// One entry of `events` (Cancel .. Stall) or `faults` (Fail .. DeviceLost); a type uses only the
// fields named after it. Lives are named by key: those of `requests`, then those that forks made.
struct ForcedEvent {
  ForcedEventType type = ForcedEventType::Cancel;
  Trigger trigger;
  std::string request;      // Cancel Disconnect Admit Preempt Fork
  std::uint64_t delay = 0;  // Cancel Disconnect: the engine learns it so much later
  std::vector<std::pair<std::string, std::uint32_t>> rows;  // Schedule
  std::string as;                                           // Fork: key of the child
  std::vector<TokenId> tokens;                              // Fork
  std::uint32_t back = 0;                                   // Fork
  std::uint32_t pool = 0;                                   // Evict Flip Fail: index
  bool any_pool = true;                                     // Fail: `pool` was not given
  std::uint32_t blocks = 0;                                 // Evict: how many
  std::uint64_t ticks = 0;                                  // Late Duplicate Stall
  std::uint64_t launch = 0;                                 // Late Duplicate Lost: ordinal
  FailPoint what = FailPoint::BlockAlloc;                   // Fail
  std::uint32_t nth = 1, count = 1;                         // Fail
  std::uint32_t block = 0, offset = 0;                      // Flip
  std::uint64_t bits = 1;                                   // Flip: xor of a cell's value
  friend bool operator==(const ForcedEvent&, const ForcedEvent&) = default;
};

struct Observe {
  std::vector<Tick> ticks;
  bool steps = true;
  friend bool operator==(const Observe&, const Observe&) = default;
};

struct Scenario {
  std::string note;
  std::uint64_t seed = 1;                        // of a file: default 0
  ExecutorKind executor = ExecutorKind::Device;  // of a file: default Ledger
  std::string model;                             // device: path, or tiny:ARCH:SEED
  LedgerModel ledger;
  std::string device = "vgpu:sm_90";
  std::vector<AdapterSpec> adapters;
  EngineSettings engine;
  std::vector<RequestSpec> requests;
  std::vector<ForcedEvent> events, faults;
  Observe observe;
  Tick max_ticks = 100000;

  // What `minimize` shrinks.
  std::size_t size() const { return requests.size() + events.size() + faults.size(); }
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

}  // namespace lockstep::trace
