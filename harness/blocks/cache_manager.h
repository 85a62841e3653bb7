// Our own KvCache as a BlockManager, under the engine's policy or another one.
#pragma once

#include <map>
#include <memory>

#include "engine/cache/kv_cache.h"
#include "harness/blocks/manager.h"

namespace lockstep::harness {

// vLLM since 0.24.
inline constexpr engine::PoolPolicy kVllmPolicy{.unkeyed_to_head = true, .equal_contents = true};

class CacheManager : public BlockManager {
 public:
  explicit CacheManager(engine::PoolPolicy policy = {}) : policy_(policy) {}
  base::Status set_up(const BlockSetup& setup) override;
  base::Result<BlockAnswer> apply(const BlockOperation& operation) override;

 private:
  struct Request {
    trace::RequestId id;
    std::vector<trace::TokenId> tokens;
    std::uint32_t computed = 0;
  };
  BlockAnswer begin(const BlockOperation& operation);
  BlockAnswer step(Request& request, const BlockOperation& operation);
  // Room for positions [request.computed, end), and all that they make full is published.
  bool grow(Request& request, std::uint32_t end);
  BlockAnswer answer(const Request& request, bool ok) const;

  engine::PoolPolicy policy_;
  std::unique_ptr<engine::KvCache> cache_;
  std::map<std::string, Request> live_;
  std::uint32_t next_id_ = 0;
};

}  // namespace lockstep::harness
