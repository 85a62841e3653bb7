// The simplest thing that a KV cache can be, and a memory to see its mistakes in: what
// kv_cache_state_test.cpp compares KvCache with.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/cache/pool_model_test.h"

namespace lockstep::engine {

using trace::RequestId;
using trace::TokenId;
using PoolBlock = std::pair<std::uint32_t, BlockId>;
using Tokens = std::vector<TokenId>;

struct ModelRequest {
  std::uint64_t scope = 0;
  Tokens tokens;
  std::uint32_t planned = 0, committed = 0;  // positions
  std::uint32_t life = 0;                    // of its blocks: grows when they are released
  std::vector<Blocks> tables;                // of each group
  std::vector<std::uint32_t> offered;        // blocks that were offered for publication

  bool holds_nothing() const {
    for (const Blocks& table : tables) {
      if (!table.empty()) return false;
    }
    return true;
  }
};

struct ModelLaunch {
  RequestId request;
  std::uint32_t life = 0, end = 0;
  std::vector<PoolBlock> blocks;
};

// What a reserve() needs in one table entry: a new block, or a copy.
struct Need {
  std::uint32_t group, index;
  bool copy;
};

struct KvModel {
  trace::EngineSettings settings;
  std::vector<PoolModel> pools;
  std::map<RequestId, ModelRequest> requests;
  std::deque<ModelLaunch> launches;
  std::uint32_t next_request = 0;
  // Contents that have been named: scope, group and tokens from the start. Numbers are their keys.
  std::map<std::tuple<std::uint64_t, std::uint32_t, Tokens>, std::uint64_t> contents;

  explicit KvModel(const trace::EngineSettings& settings_in);

  std::uint64_t key(const ModelRequest& request, std::uint32_t group, std::uint32_t index);
  // By brute force: every length from the limit down, every group, every block.
  std::uint32_t longest_hit(const ModelRequest& request, std::uint32_t limit);
  // First block that a hit (or a position after `length` tokens) needs of the group.
  std::uint32_t first_of_hit(std::uint32_t group, std::uint32_t length) const;
  void pin_hit(ModelRequest& request, std::uint32_t length);
  std::vector<Need> needs(const ModelRequest& request, std::uint32_t end) const;
  // Planned positions go on to `end`; false: too few blocks, nothing changed.
  bool grow(RequestId id, std::uint32_t end);
  void complete();  // the oldest launch
  void release(ModelRequest& request);
  bool can_fork(const ModelRequest& parent, std::uint32_t token_count) const;
  void fork(RequestId parent, RequestId child, std::uint32_t token_count, const Tokens& more);
  bool is_mamba(std::uint32_t group) const {
    return settings.groups[group].type == trace::GroupType::Mamba;
  }
};

// What the cells of a device would hold, one word a cell: a hash of all that the cell stands for.
class CellMemory {
 public:
  explicit CellMemory(const trace::EngineSettings& settings);
  void run(const CacheOps& ops);
  // Writes positions [first, end) of the request, and reads for each what its mask lets it see.
  // False: a cell read was not the request's own.
  bool launch(const KvCache& cache, RequestId id, const ModelRequest& request, std::uint32_t first,
              std::uint32_t end);

 private:
  static std::uint64_t content(const ModelRequest& request, std::uint32_t group,
                               std::uint32_t token_count);
  std::uint64_t& cell(std::uint32_t group, BlockId block, std::uint32_t offset);
  trace::EngineSettings settings_;
  std::vector<std::vector<std::vector<std::uint64_t>>> cells_;  // pool, block, offset
};

// What a reader of the events believes.
struct EventShadow {
  struct Pool {
    std::map<BlockId, std::uint32_t> counts;
    std::map<BlockId, std::string> keys;
  };
  std::map<std::uint32_t, Pool> pools;
  std::map<std::pair<RequestId, std::uint32_t>, Blocks> tables;
  std::vector<std::string> broken;  // laws that an event broke
  std::size_t keys_dropped_in_use = 0;

  void on_event(const trace::Event& event);

 private:
  void hold(std::uint32_t pool, BlockId block, int change);
  void on(const trace::BlocksTaken& event);
  void on(const trace::BlocksHit& event);
  void on(const trace::BlocksShared& event);
  void on(const trace::BlocksReleased& event);
  void on(const trace::BlockReplaced& event);
  void on(const trace::BlockPublished& event);
  void on(const trace::KeyDropped& event);
  template <class Other>
  void on(const Other&) {}
};

}  // namespace lockstep::engine
