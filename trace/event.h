// Event: what happened in a run, in order. Oracles are folds over this stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "trace/ids.h"
#include "trace/op_call.h"
#include "trace/run_result.h"

namespace lockstep::trace {

struct RequestAdmitted {
  RequestId request;
  std::vector<TokenId> prompt;
};
struct RequestRefused {
  RequestId request;
  std::string reason;
};
struct RequestFinished {
  RequestId request;
  std::string reason;  // "length", "stop", "abort"
};
struct PagesTaken {
  RequestId request;
  std::vector<PageId> pages;
};
struct PagesReturned {
  RequestId request;
  std::vector<PageId> pages;
};
// State of the pool after a step: free + used = total.
struct PoolBalance {
  std::uint32_t total = 0, free = 0, used = 0;
};
// The cell that the engine's slot mapping gives to a row (the same in every layer).
struct CellWritten {
  LaunchIndex launch;
  RowId row;
  PageId page;
  std::uint32_t offset = 0;  // in the page
};
// The cells that a request's block table names for positions [0, cells.size()), as attention of
// this launch reads them.
struct CellsRead {
  LaunchIndex launch;
  RequestId request;
  std::vector<PageId> pages;
  std::uint32_t page_size = 0;
  std::uint32_t position_count = 0;
};
// An operation with its judgement's other side. The OpCall is dropped after the oracles saw it.
struct OpCompleted {
  OpCall call;
  OpReference reference;
};
// Hash of one written row: what remains of an operation, to compare whole runs bit by bit.
struct RowHashed {
  RowId row;
  LayerIndex layer;
  TapPoint point = TapPoint::Embed;
  base::Hash128 hash;
};
struct TokenSampled {
  RequestId request;
  Position position = 0;  // of the new token
  TokenId argmax = 0;     // the engine's choice
  TokenId fed = 0;        // what goes on (differs under teacher forcing)
};
// The chained double reference at the row that gave a token.
struct TokenReferenced {
  RequestId request;
  Position position = 0;  // of the new token
  TokenId argmax = 0;     // the reference's choice
  double margin = 0;      // reference's logit of its argmax less its logit of the engine's token
  double sigma = 0;  // yardstick: rms logit distance of the declared roundings (docs/bounds.md)
};
struct DeviceReported {
  std::string checker, kind, kernel, message, source, source_second;
  std::uint64_t count = 1;
};
struct DeviceCounted {
  std::uint64_t launches = 0, warp_instructions = 0, checked_accesses = 0;
};
// An LS_CHECK of the subject's own failed: the subject ended there.
struct SubjectFailed {
  std::string file, function, message;
};

// --- Serving (docs/scenario.md). Times are ticks; `group` and `pool` index EngineSettings. ---

// What the content of a request's cells depends on, tokens aside: equal identities and equal
// prefixes give equal cells. A life begins: a request of the file, or a fork's child.
struct LifeBegan {
  RequestId request;
  std::string key, client_id;
  Tick tick = 0;
  std::uint64_t identity = 0;   // of adapter, salt and media; distinct ones differ
  std::vector<TokenId> tokens;  // prompt; of a child: its parent's tokens as forked
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;
  std::optional<RequestId> parent;
};
// The engine has learned of a cancel or disconnect: no step is planned for it from now on.
struct LifeAborted {
  RequestId request;
  Tick tick = 0;
};
struct LifeEnded {
  RequestId request;
  Tick tick = 0;
  std::string reason;  // stop length abort error refused
  Counts counts;
};
// Blocks of one request and group, in order of positions from `first_index` on (block i holds
// positions [i * block_size, (i + 1) * block_size)).
struct BlocksTaken {  // handed out from the free queue; their keys are gone
  RequestId request;
  std::uint32_t group = 0, pool = 0, first_index = 0;
  std::vector<BlockId> blocks;
};
struct BlocksHit {  // pinned from the prefix cache; kNoBlock: not held (before a window)
  RequestId request;
  std::uint32_t group = 0, pool = 0;
  std::uint32_t tokens = 0;  // of the hit
  std::vector<BlockId> blocks;
};
struct BlocksShared {  // a fork's child holds its parent's
  RequestId request;
  std::uint32_t group = 0, pool = 0;
  std::vector<BlockId> blocks;  // kNoBlock: not held
};
struct BlocksReleased {  // one holder fewer each, in this order
  RequestId request;
  std::uint32_t group = 0, pool = 0;
  std::vector<BlockId> blocks;
};
struct BlockReplaced {  // copy-on-write: `index` of the table is now `destination`
  RequestId request;
  std::uint32_t group = 0, pool = 0, index = 0;
  BlockId source, destination;
  LaunchIndex launch;  // that copies and then writes
};
struct BlockPublished {  // may be hit from now on
  RequestId request;
  std::uint32_t group = 0, pool = 0, index = 0;
  BlockId block;
  std::string key;  // hex
};
struct KeyDropped {
  std::uint32_t pool = 0;
  BlockId block;
};
// The engine's own counters at the end of a step or of a tick's completions.
struct PoolCounted {
  std::uint32_t pool = 0;
  std::uint32_t free = 0, evictable = 0, used = 0, reserved = 0;
};
// A refused admission or growth: the pool must be as the last PoolCounted said, order included.
struct AllocationRefused {
  RequestId request;
  base::Hash128 pool_before, pool_after;  // digest of queue, counts and keys
};
struct LaunchMade {
  LaunchIndex launch;
  Tick tick = 0;
  std::uint32_t padded_to = 0;
  std::vector<RequestId> requests;
};
// A planned launch could not be made: it has no ordinal, and the next one gets this.
struct LaunchFailed {
  LaunchIndex launch;
  Tick tick = 0;
};
// One request's rows of a launch as the executor ran them, from the buffers it read.
struct RanRows {
  RequestId request;
  Position first_position = 0;
  std::vector<TokenId> tokens;
  // Tokens that the last row may see, itself included: row i of n reads the cells of positions
  // [0, sequence_length - n + i) that its group's mask leaves. Right: first_position + n.
  std::uint32_t sequence_length = 0;
  // A group each.
  std::vector<std::vector<BlockId>> tables;      // as read: kNoBlock where given back
  std::vector<std::vector<std::int64_t>> slots;  // written per token; mamba: [block]
};
struct LaunchRan {
  LaunchIndex launch;
  Tick tick = 0;
  std::vector<RanRows> rows;
  std::vector<std::int64_t> pad_slots;  // slots that pad rows wrote, any group
};
struct CopyRan {  // a block copy or a fill, in the order of the compute stream
  std::uint32_t pool = 0;
  BlockId source, destination;  // source kNoBlock: a fill
};
struct LaunchCompleted {  // the engine has processed it
  LaunchIndex launch;
  Tick tick = 0;
};
struct TokensAccepted {
  RequestId request;
  LaunchIndex launch;
  Tick tick = 0;
  std::vector<TokenId> tokens;
  std::uint32_t proposed = 0, accepted = 0;  // drafts verified; drafts among `tokens`
};
struct RequestPreempted {
  RequestId request;
  Tick tick = 0;
};
// In-flight work was given up (watchdog, device lost): its launches will write no more.
struct DeviceReset {
  Tick tick = 0;
  bool memory_lost = false;
};
struct CellsFlipped {  // a fault changed bits of a block's cells
  std::uint32_t pool = 0;
  BlockId block;
};
// A fault may cost this request (last column of docs/scenario.md, events).
struct RequestTouched {
  RequestId request;
  std::string fault;
};
// The reference beside a life that has ended (or, live at max_ticks, as far as it came): the
// request alone, cold.
struct LifeReferenced {
  RequestId request;
  std::vector<TokenId> tokens;
  std::string text, finish_reason;
  std::vector<TokenLogprobs> logprobs;
  // Beside what the subject gave the client.
  std::vector<TokenId> got_tokens;
  std::string got_text, got_finish_reason;
  std::vector<TokenLogprobs> got_logprobs;
};
struct RunEnded {
  Tick tick = 0;
  std::vector<RequestId> live;  // at max_ticks
};

using AnyEvent =
    std::variant<RequestAdmitted, RequestRefused, RequestFinished, PagesTaken, PagesReturned,
                 PoolBalance, CellWritten, CellsRead, OpCompleted, RowHashed, TokenSampled,
                 TokenReferenced, DeviceReported, DeviceCounted, SubjectFailed, LifeBegan,
                 LifeAborted, LifeEnded, BlocksTaken, BlocksHit, BlocksShared, BlocksReleased,
                 BlockReplaced, BlockPublished, KeyDropped, PoolCounted, AllocationRefused,
                 LaunchMade, LaunchFailed, LaunchRan, CopyRan, LaunchCompleted, TokensAccepted,
                 RequestPreempted, DeviceReset, CellsFlipped, RequestTouched, LifeReferenced,
                 RunEnded>;

// One event. Copies, moves and ends are compiled once (event.cpp): of so many kinds they cost each
// file that has a list of events two seconds.
struct Event : AnyEvent {
  using AnyEvent::AnyEvent;
  Event();
  ~Event();
  Event(const Event&);
  Event(Event&&) noexcept;
  Event& operator=(const Event&);
  Event& operator=(Event&&) noexcept;
};

}  // namespace lockstep::trace
