// BlockWorkload: operations for a block manager from a seed: texts that share prefixes, prompts in
// chunks, output one token at a time, frees, and preemption of what was refused.
#pragma once

#include <map>

#include "base/prng.h"
#include "harness/blocks/manager.h"

namespace lockstep::harness {

class BlockWorkload {
 public:
  explicit BlockWorkload(std::uint64_t seed);

  const BlockSetup& setup() const { return setup_; }
  BlockOperation next();
  // What the manager made of it: the next operation depends on it.
  void answered(const BlockOperation& operation, const BlockAnswer& answer);

 private:
  struct Request {
    std::uint32_t known = 0, computed = 0;
  };
  std::vector<trace::TokenId> text();

  base::Prng prng_;
  BlockSetup setup_;
  std::vector<std::vector<trace::TokenId>> prefixes_;
  std::map<std::string, Request> live_;
  std::string refused_;  // a live request that has to go
  std::uint32_t next_id_ = 0;
};

}  // namespace lockstep::harness
