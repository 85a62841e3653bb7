#include "harness/alone/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "harness/alone/parts.h"
#include "harness/alone/replay.h"
#include "harness/report/format.h"

namespace lockstep::harness {
namespace {

using trace::Op;
using trace::RowId;

class Shrinker {
 public:
  Shrinker(RecordedOperation operation, const oracles::Finding& finding, const ShrinkLimits& limits,
           const OperationRunner& runner)
      : finding_(finding), limits_(limits), runner_(runner) {
    shrunk_.operation = std::move(operation);
  }

  Shrunk run() {
    const RecordedOperation whole = shrunk_.operation;
    if (!shows(whole)) return shrunk_;
    fewer_rows();
    fewer_heads();
    fewer_outputs();
    fewer_keys();
    // What is announced has its bits twice.
    shrunk_.repeats = true;
    for (int i = 0; i < 2; ++i) {
      const auto again = replay_on(operation(), operation().device, runner_);
      if (again && again->same == again->values && finding_of(again->outcome, finding_.key))
        continue;
      shrunk_.repeats = false;
      shrunk_.reason = "not the same bits each time";
      shrunk_.operation = whole;
    }
    return shrunk_;
  }

 private:
  const RecordedOperation& operation() const { return shrunk_.operation; }

  // Whether the finding is there; then it is the operation from now on, with the bits of this run.
  bool shows(const RecordedOperation& candidate) {
    if (shrunk_.tries >= limits_.tries || instructions_ >= limits_.warp_instructions) return false;
    const bool whole = shrunk_.tries++ == 0;
    if (!check_operation(candidate, "a part").ok()) return false;
    const auto replay = replay_on(candidate, candidate.device, runner_);
    if (!replay) {
      if (whole) shrunk_.reason = replay.error().message();
      return false;
    }
    instructions_ += replay->outcome.warp_instructions;
    const bool found = finding_of(replay->outcome, finding_.key) != nullptr;
    if (whole) {
      shrunk_.values = replay->values;
      shrunk_.other_bits = replay->values - replay->same;
      if (!found) {
        shrunk_.reason = fmt::format("there all {} values hold", format_count(replay->values));
      }
    }
    if (!found) return false;
    shrunk_.operation = candidate;
    shrunk_.operation.call.writes = replay->call.writes;
    shrunk_.operation.call.contract.kernel = replay->call.contract.kernel;
    return true;
  }

  const std::vector<RowId>& rows() const { return operation().call.writes.front().rows; }

  template <class Keep>
  bool keep_where(const Keep& keep) {
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < rows().size(); ++i) {
      if (keep(i, rows()[i])) kept.push_back(i);
    }
    if (kept.empty() || kept.size() == rows().size()) return false;
    return shows(keep_rows(operation(), kept));
  }

  // The row of the finding alone; else its request; else without each half, quarter, ...
  void fewer_rows() {
    const RowId wrong{{finding_.where.request.value_or(0)}, finding_.where.position.value_or(0)};
    if (keep_where([&](std::size_t, RowId row) { return row == wrong; })) return;
    keep_where([&](std::size_t, RowId row) { return row.request == wrong.request; });
    for (std::size_t chunk = rows().size() / 2; chunk > 0; chunk /= 2) {
      for (std::size_t end = rows().size(); end > 0;) {
        const std::size_t from = end > chunk ? end - chunk : 0;
        keep_where([&](std::size_t i, RowId) { return i < from || i >= end; });
        end = from;
      }
    }
  }

  // Of the heads that the wrong element can belong to, the fewest that show it.
  void fewer_heads() {
    if (!trace::has_heads(operation().call.contract.op)) return;
    const model::ModelConfig& config = operation().config;
    const std::uint32_t group = config.head_count / config.kv_head_count;
    const auto head = static_cast<std::uint32_t>(finding_.where.index.value_or(0)) /
                      config.head_size % config.head_count;
    std::vector<Heads> candidates;
    for (std::uint32_t kv_count = 1; kv_count <= config.kv_head_count; ++kv_count) {
      for (const std::uint32_t own : {head / group, head % config.kv_head_count}) {
        const std::uint32_t first = std::min(own, config.kv_head_count - kv_count);
        candidates.push_back({first, kv_count, head % group, 1});
        candidates.push_back({first, kv_count, 0, 1});
        candidates.push_back({first, kv_count, 0, group});
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Heads& a, const Heads& b) {
      return a.kv_count * a.members < b.kv_count * b.members;
    });
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>> tried;
    for (const Heads& each : candidates) {
      if (each.kv_count * each.members == config.head_count) return;
      if (!tried.insert({each.first_kv, each.kv_count, each.first_member, each.members}).second) {
        continue;
      }
      if (shows(keep_heads(operation(), each))) return;
    }
  }

  // The smallest aligned window around the wrong element that shows it.
  void fewer_outputs() {
    if (!has_outputs(operation().call.contract.op)) return;
    const std::uint32_t width = operation().call.writes.front().width;
    const std::uint64_t place = finding_.where.index.value_or(0);
    const std::uint64_t index = place - std::min<std::uint64_t>(place, operation().first_output);
    for (std::uint32_t count = 1; count < width; count *= 2) {
      const auto first =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(index, width - 1) / count * count);
      if (shows(keep_outputs(operation(), first, std::min(count, width - first)))) return;
    }
  }

  // Of each request, keys before its first query: without each half, quarter, ...
  void fewer_keys() {
    if (!trace::is_attention(operation().call.contract.op)) return;
    std::set<trace::RequestId> requests;
    for (const RowId& row : rows()) requests.insert(row.request);
    for (const trace::RequestId request : requests) {
      const auto first_query = [&] {
        trace::Position first = ~trace::Position{0};
        for (const RowId& row : rows()) {
          if (row.request == request) first = std::min(first, row.position);
        }
        return first;
      };
      for (std::uint32_t chunk = first_query(); chunk > 0; chunk /= 2) {
        for (trace::Position from = 0; from + chunk <= first_query();) {
          if (!shows(drop_keys(operation(), request, from, chunk))) from += chunk;
        }
      }
    }
  }

  Shrunk shrunk_;
  const oracles::Finding& finding_;
  const ShrinkLimits limits_;
  const OperationRunner& runner_;
  std::uint64_t instructions_ = 0;
};

}  // namespace

base::Result<Shrunk> shrink(const RecordedOperation& operation, const oracles::Finding& finding,
                            const ShrinkLimits& limits, const OperationRunner& runner) {
  LS_TRY(check_operation(operation, "the operation"));
  return Shrinker(operation, finding, limits, runner).run();
}

}  // namespace lockstep::harness
