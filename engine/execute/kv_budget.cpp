// Blocks from bytes; kv_budget.h.
#include "engine/execute/kv_budget.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/checked.h"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

// What pool and steps may take: all that is free, or less so that no more than `utilization` of the
// device is used.
std::uint64_t available_bytes(const KvBudget& budget) {
  if (budget.blocks_wanted > 0) return budget.free_bytes;
  const auto usable =
      static_cast<std::uint64_t>(static_cast<double>(budget.total_bytes) * budget.utilization);
  const std::uint64_t used = budget.total_bytes - budget.free_bytes;
  return std::min(budget.free_bytes, usable - std::min(used, usable));
}

base::Error does_not_fit(const KvBudget& budget, std::uint64_t blocks, std::uint64_t available) {
  const std::uint64_t pool = pool_bytes(budget, blocks);
  const std::uint64_t wanted = base::checked_add(pool, budget.step_bytes).value_or(kMost);
  std::string rule = std::to_string(wanted) + " bytes are wanted, " + std::to_string(pool) +
                     " for a pool of " + std::to_string(blocks) +
                     (blocks == 1 ? " block" : " blocks") + " and " +
                     std::to_string(budget.step_bytes) + " for the largest step; " +
                     std::to_string(budget.free_bytes) + " are free";
  if (available < budget.free_bytes) {
    rule += ", of which the utilization leaves " + std::to_string(available);
  }
  return base::environment_error("KV pool", rule);
}

}  // namespace

std::uint64_t pool_bytes(const KvBudget& budget, std::uint64_t blocks) {
  const auto cells = base::checked_mul(budget.block_bytes, blocks);
  const auto buffer = cells ? base::checked_add(*cells, budget.overhead_bytes) : cells;
  return (buffer ? base::checked_mul(*buffer, budget.buffers) : buffer).value_or(kMost);
}

base::Result<std::uint32_t> kv_blocks(const KvBudget& budget) {
  LS_CHECK(budget.buffers > 0 && budget.block_bytes > 0);
  LS_CHECK(budget.free_bytes <= budget.total_bytes);
  LS_CHECK(budget.utilization > 0 && budget.utilization <= 1);
  const std::uint64_t available = available_bytes(budget);
  const std::uint32_t least = std::max(1u, budget.blocks_wanted);
  const auto wanted = base::checked_add(pool_bytes(budget, least), budget.step_bytes);
  if (!wanted || *wanted > available) return does_not_fit(budget, least, available);
  if (budget.blocks_wanted > 0) return budget.blocks_wanted;
  const std::uint64_t buffer = (available - budget.step_bytes) / budget.buffers;
  const std::uint64_t fit = (buffer - budget.overhead_bytes) / budget.block_bytes;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(fit, std::max(1u, budget.blocks_needed)));
}

}  // namespace lockstep::engine
