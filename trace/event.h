// Event: what happened in a run, in order. Oracles are folds over this stream.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "trace/ids.h"
#include "trace/op_call.h"

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

using Event =
    std::variant<RequestAdmitted, RequestRefused, RequestFinished, PagesTaken, PagesReturned,
                 PoolBalance, CellWritten, CellsRead, OpCompleted, RowHashed, TokenSampled,
                 TokenReferenced, DeviceReported, DeviceCounted, SubjectFailed>;

}  // namespace lockstep::trace
