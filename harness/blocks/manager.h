// Block managers as something that can be driven: operations in, answers out. Ours (KvCache), or a
// user's process (docs/block_managers.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "trace/scenario.h"

namespace lockstep::harness {

struct BlockSetup {
  std::uint32_t block_size = 16;
  std::uint32_t num_blocks = 0;          // that may be handed out: a null block is none of them
  std::vector<trace::GroupSpec> groups;  // type and window; all share one pool and block size

  std::uint32_t blocks_for(std::uint64_t tokens) const {
    return static_cast<std::uint32_t>((tokens + block_size - 1) / block_size);
  }
};

struct BlockOperation {
  enum class Kind : std::uint8_t {
    New,      // look up `tokens`, then make room for `computed` more (at most those left)
    Step,     // one token more if `append`; make room for `computed` more positions
    Free,     // the request ends
    Preempt,  // the request gives everything back
  };
  Kind kind = Kind::New;
  std::string id;
  std::vector<trace::TokenId> tokens;
  std::optional<trace::TokenId> append;
  std::uint32_t computed = 0;
};
std::string describe(const BlockOperation& operation);  // "step r3"

struct BlockAnswer {
  bool ok = true;                // New, Step: false: refused
  std::uint32_t hit_tokens = 0;  // New
  // New, Step: the request's table of each group; kNoBlock: not held. May be empty if not ok.
  std::vector<std::vector<trace::BlockId>> blocks;
  std::uint32_t free = 0;  // blocks that could be handed out now
};

class BlockManager {
 public:
  virtual ~BlockManager() = default;
  // Empties everything.
  virtual base::Status set_up(const BlockSetup& setup) = 0;
  // An Error: no answer that can be understood.
  virtual base::Result<BlockAnswer> apply(const BlockOperation& operation) = 0;
};

}  // namespace lockstep::harness
