// `engine` of a scenario file: groups, pools, limits and policies of the engine.
#include <algorithm>
#include <set>

#include "trace/scenario_json.h"
#include "trace/scenario_parse.h"

namespace lockstep::trace {
namespace {

constexpr std::uint64_t kBlockSizeMax = 4096;
constexpr std::uint64_t kGroupsMax = 64;
constexpr std::uint64_t kTicksMax = std::uint64_t{1} << 31;

// A group and its pool's name: pools are read after the groups.
struct NamedGroup {
  GroupSpec spec;
  std::string pool;
};

void parse_unbuilt_group_fields(const Object& object, const std::vector<NamedGroup>& earlier,
                                const GroupSpec& group) {
  const Field kernel = object["kernel_block_size"];
  const std::uint32_t kernel_size = kernel.count(group.block_size, 1, group.block_size);
  if (group.block_size % kernel_size != 0) {
    kernel.fail("must divide the block size " + std::to_string(group.block_size));
  } else if (kernel_size != group.block_size) {
    kernel.not_built("other than block_size");
  }
  const Field ring = object["ring_tokens"];
  const std::uint32_t tokens = ring.count(0, 0, kSequenceTokensMax);
  if (tokens != 0) {
    if (group.type != GroupType::SlidingWindow) {
      ring.fail("is for groups of type sliding_window");
    } else if (tokens % group.block_size != 0 || tokens < group.window) {
      ring.fail("must be a multiple of block_size and at least window");
    } else {
      ring.not_built();
    }
  }
  const Field shares = object["shares"];
  if (shares.given()) {
    const std::string name = shares.text("");
    const bool known = std::any_of(earlier.begin(), earlier.end(), [&](const NamedGroup& other) {
      return other.spec.name == name;
    });
    if (known) {
      shares.not_built();
    } else {
      shares.fail("must name an earlier group, not `" + name + "`");
    }
  }
}

NamedGroup parse_group(const Field& field, std::uint32_t block_size,
                       const std::vector<NamedGroup>& earlier) {
  const Object object(field, {"name", "type", "block_size", "kernel_block_size", "pool", "window",
                              "ring_tokens", "conv_width", "shares"});
  NamedGroup group;
  GroupSpec& spec = group.spec;
  object["name"].require("results name the group by it");
  object["type"].require("full_attention, sliding_window or mamba");
  spec.name = object["name"].text("");
  spec.type =
      object["type"].choice(GroupType::FullAttention, {{"full_attention", GroupType::FullAttention},
                                                       {"sliding_window", GroupType::SlidingWindow},
                                                       {"mamba", GroupType::Mamba}});
  spec.block_size = object["block_size"].count(block_size, 1, kBlockSizeMax);
  group.pool = object["pool"].text(spec.name);
  const Field window = object["window"];
  if (spec.type == GroupType::SlidingWindow) {
    window.require("how many positions a query sees, itself included");
    spec.window = window.count(1, 1, kSequenceTokensMax);
  } else if (window.present()) {
    window.fail("is for groups of type sliding_window");
  }
  const Field conv_width = object["conv_width"];
  if (conv_width.present() && spec.type != GroupType::Mamba) {
    conv_width.fail("is for groups of type mamba");
  }
  spec.conv_width = conv_width.count(4, 1, 64);
  parse_unbuilt_group_fields(object, earlier, spec);
  for (const NamedGroup& other : earlier) {
    if (other.spec.name == spec.name) {
      object["name"].fail("the group name `" + spec.name + "` occurs twice");
    }
  }
  return group;
}

void parse_pools(const Field& field, EngineSettings& engine) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < field.list(kGroupsMax).size(); ++i) {
    const Object object(field.element(i), {"name", "num_blocks"});
    PoolSpec pool;
    object["name"].require("groups name the pool by it");
    object["num_blocks"].require("how many blocks the pool has");
    pool.name = object["name"].text("");
    pool.num_blocks = object["num_blocks"].count(pool.num_blocks, 1, kBlocksMax);
    if (!names.insert(pool.name).second) {
      object["name"].fail("the pool name `" + pool.name + "` occurs twice");
    }
    engine.pools.push_back(std::move(pool));
  }
}

std::uint32_t pool_index(const std::string& name, EngineSettings& engine) {
  for (std::size_t i = 0; i < engine.pools.size(); ++i) {
    if (engine.pools[i].name == name) return static_cast<std::uint32_t>(i);
  }
  engine.pools.push_back({name, PoolSpec{}.num_blocks});
  return static_cast<std::uint32_t>(engine.pools.size() - 1);
}

void check_cell_count(const Field& field, const EngineSettings& engine) {
  std::uint64_t cells = 0;
  for (std::size_t i = 0; i < engine.pools.size(); ++i) {
    std::uint64_t block_size = 1;
    for (const GroupSpec& group : engine.groups) {
      if (group.pool == i) block_size = std::max<std::uint64_t>(block_size, group.block_size);
    }
    cells += block_size * engine.pools[i].num_blocks;
  }
  if (cells > kCellsMax) {
    field.fail("the pools have " + std::to_string(cells) + " cells (blocks x block_size), limit " +
               std::to_string(kCellsMax));
  }
}

void parse_cache(const Field& field, const Object& object, EngineSettings& engine) {
  engine.block_size = object["block_size"].count(16, 1, kBlockSizeMax);
  std::vector<NamedGroup> groups;
  const Field list = object["kv_cache_groups"];
  if (list.present()) {
    const std::size_t size = list.list(kGroupsMax).size();
    if (size == 0) list.fail("must have at least one group");
    for (std::size_t i = 0; i < size; ++i) {
      groups.push_back(parse_group(list.element(i), engine.block_size, groups));
    }
  } else {
    groups.push_back({GroupSpec{}, "full"});
    groups[0].spec.block_size = engine.block_size;
  }
  engine.pools.clear();
  engine.groups.clear();
  parse_pools(object["pools"], engine);
  for (NamedGroup& group : groups) {
    group.spec.pool = pool_index(group.pool, engine);
    engine.groups.push_back(std::move(group.spec));
  }
  check_cell_count(field, engine);
  engine.enable_prefix_caching = object["enable_prefix_caching"].boolean(true);
  engine.prefix_hash_bits = object["prefix_hash_bits"].count(128, 8, 256);
  engine.fill_new_blocks = object["fill_new_blocks"].choice(
      BlockFill::Poison,
      {{"poison", BlockFill::Poison}, {"zero", BlockFill::Zero}, {"none", BlockFill::None}});
}

void parse_scheduling(const Object& object, EngineSettings& engine) {
  engine.max_num_seqs = object["max_num_seqs"].count(8, 1, 1 << 16);
  engine.max_num_batched_tokens =
      object["max_num_batched_tokens"].count(2048, 1, kSequenceTokensMax);
  engine.enable_chunked_prefill = object["enable_chunked_prefill"].boolean(true);
  engine.chunked_prefill_size = object["chunked_prefill_size"].count(0, 0, kSequenceTokensMax);
  engine.max_model_len = object["max_model_len"].count(4096, 1, kSequenceTokensMax);
  engine.max_waiting = object["max_waiting"].count(0, 0, kSequenceTokensMax);
  engine.scheduling_policy = object["scheduling_policy"].choice(
      SchedulingPolicy::Fcfs,
      {{"fcfs", SchedulingPolicy::Fcfs}, {"priority", SchedulingPolicy::Priority}});
  const Field preemption = object["preemption_mode"];
  if (preemption.choice(0, {{"recompute", 0}, {"swap", 1}}) != 0) preemption.not_built("= swap");
  engine.async_depth = object["async_depth"].count(1, 1, 3);
  const Field sizes = object["cudagraph_capture_sizes"];
  std::set<std::uint32_t> sorted;
  for (std::size_t i = 0; i < sizes.list(1024).size(); ++i) {
    sorted.insert(sizes.element(i).count(1, 1, kSequenceTokensMax));
  }
  engine.cudagraph_capture_sizes.assign(sorted.begin(), sorted.end());
  engine.pad_fill = object["pad_fill"].choice(PadFill::Stale, {{"zero", PadFill::Zero},
                                                               {"stale", PadFill::Stale},
                                                               {"nan", PadFill::Nan},
                                                               {"huge", PadFill::Huge}});
  engine.watchdog_ticks = object["watchdog_ticks"].count(64, 1, kTicksMax);
}

// A tree of drafts: the parent of each node, -1 the root. Only a chain is built.
void parse_tree(const Field& field, std::uint32_t count) {
  if (!field.given()) return;
  const std::size_t size = field.list(16).size();
  bool chain = true;
  for (std::size_t i = 0; i < size; ++i) {
    const auto node = static_cast<std::int64_t>(i);
    chain = field.element(i).signed_integer(-1, -1, node - 1) == node - 1 && chain;
  }
  if (size != count) {
    field.fail("must have num_speculative_tokens = " + std::to_string(count) + " entries, not " +
               std::to_string(size));
  }
  if (!chain) field.not_built("other than a chain");
}

void parse_speculative(const Field& field, Scenario& scenario) {
  if (!field.given()) return;
  const Object object(field,
                      {"method", "num_speculative_tokens", "tree", "acceptance", "draft_seed"});
  const Field method = object["method"];
  if (!method.require("scripted, ngram, draft_model, mtp, medusa or eagle3")) return;
  const bool scripted = method.choice(true, {{"scripted", true},
                                             {"ngram", false},
                                             {"draft_model", false},
                                             {"mtp", false},
                                             {"medusa", false},
                                             {"eagle3", false}});
  if (!scripted) method.not_built("= " + shown(method.value()));
  SpeculativeSpec speculative;
  speculative.num_speculative_tokens = object["num_speculative_tokens"].count(1, 1, 16);
  parse_tree(object["tree"], speculative.num_speculative_tokens);
  speculative.acceptance = object["acceptance"].choice(
      Acceptance::Rejection,
      {{"rejection", Acceptance::Rejection}, {"same_draw", Acceptance::SameDraw}});
  const Field draft_seed = object["draft_seed"];
  if (draft_seed.integer(scenario.ledger.seed, 0, kIntegerMax) != scenario.ledger.seed) {
    draft_seed.not_built();
  }
  scenario.engine.speculative = speculative;
}

// Well formed and default, or not built.
void parse_unbuilt(const Object& object) {
  const Field tiers = object["tiers"];
  if (tiers.given()) {
    const Object parts(tiers, {"host_blocks", "disk_blocks", "write", "staging_buffers"});
    parts["host_blocks"].integer(0, 0, kBlocksMax);
    parts["disk_blocks"].integer(0, 0, kBlocksMax);
    parts["write"].choice(0, {{"evict", 0}, {"through", 1}});
    parts["staging_buffers"].integer(0, 0, kBlocksMax);
    tiers.not_built();
  }
  const Field policy = object["kv_load_failure_policy"];
  if (policy.choice(0, {{"recompute", 0}, {"fail", 1}}) != 0) policy.not_built("= fail");
  const Field stream = object["stream"];
  if (stream.given()) {
    const Object parts(stream, {"queue_bytes", "slow_reader"});
    const bool queue = parts["queue_bytes"].integer(65536, 1, kIntegerMax) != 65536;
    const bool reader = parts["slow_reader"].choice(0, {{"pause", 0}, {"cancel", 1}}) != 0;
    if (queue || reader) stream.not_built();
  }
  const Field dtype = object["kv_cache_dtype"];
  if (dtype.text("auto") != "auto") dtype.not_built("other than auto");
}

}  // namespace

void parse_engine(const Field& field, Scenario& scenario) {
  const Object object(field, {"block_size",
                              "kv_cache_groups",
                              "pools",
                              "enable_prefix_caching",
                              "prefix_hash_bits",
                              "max_num_seqs",
                              "max_num_batched_tokens",
                              "enable_chunked_prefill",
                              "chunked_prefill_size",
                              "max_model_len",
                              "max_waiting",
                              "scheduling_policy",
                              "preemption_mode",
                              "async_depth",
                              "cudagraph_capture_sizes",
                              "pad_fill",
                              "fill_new_blocks",
                              "speculative",
                              "tiers",
                              "kv_load_failure_policy",
                              "stream",
                              "kv_cache_dtype",
                              "watchdog_ticks"});
  parse_cache(field, object, scenario.engine);
  parse_scheduling(object, scenario.engine);
  parse_speculative(object["speculative"], scenario);
  parse_unbuilt(object);
  if (scenario.executor == ExecutorKind::Device) {
    scenario.engine.num_blocks = scenario.engine.pools.front().num_blocks;
  }
}

}  // namespace lockstep::trace
