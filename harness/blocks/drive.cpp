#include "harness/blocks/drive.h"

#include <set>

#include "harness/blocks/workload.h"

namespace lockstep::harness {
namespace {

// One operation, judged. Nothing: it ended in a finding (`alive`: the manager can be set up anew).
std::optional<BlockAnswer> judged(BlockManager& manager, const BlockOperation& operation,
                                  BlockJudge& judge, BlockFinding finding, bool& alive,
                                  BlockDriveReport& report) {
  finding.what = describe(operation);
  base::Result<BlockAnswer> answer = manager.apply(operation);
  ++report.operations;
  if (!answer) {
    finding.breach = {BlockRule::Answer, answer.error().message()};
    alive = answer.error().kind == base::ErrorKind::Input;
    report.findings.push_back(std::move(finding));
    return std::nullopt;
  }
  report.refusals += !answer->ok;
  report.hits += answer->hit_tokens > 0;
  const std::vector<BlockBreach> breaches = judge.judge(operation, *answer);
  if (breaches.empty()) return std::move(*answer);
  finding.breach = breaches.front();
  report.findings.push_back(std::move(finding));
  return std::nullopt;
}

}  // namespace

base::Result<BlockDriveReport> drive_blocks(BlockManager& manager, std::uint64_t seed,
                                            std::uint64_t count, std::uint64_t operations) {
  BlockDriveReport report;
  bool alive = true;
  for (std::uint64_t i = seed; alive && i < seed + count; ++i) {
    BlockWorkload workload(i);
    LS_TRY(manager.set_up(workload.setup()));
    BlockJudge judge(workload.setup());
    for (std::uint64_t j = 0; j < operations; ++j) {
      const BlockOperation operation = workload.next();
      const auto answer = judged(manager, operation, judge, {i, j, {}, {}}, alive, report);
      if (!answer) break;
      workload.answered(operation, *answer);
    }
    report.checked += judge.checked();
  }
  return report;
}

base::Status drive_trace(BlockManager& manager, const BlockTrace& trace, BlockDriveReport& report) {
  LS_TRY(manager.set_up(trace.setup));
  BlockJudge judge(trace.setup);
  BlockDifferences& differences = report.differences;
  std::set<std::string> live;
  bool alive = true;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const auto& [operation, want] = trace.operations[i];
    const bool is_new = operation.kind == BlockOperation::Kind::New;
    const bool grows = is_new || operation.kind == BlockOperation::Kind::Step;
    if (!is_new && !live.contains(operation.id)) {
      ++differences.left_out;
      continue;
    }
    if (is_new && live.contains(operation.id)) {
      ++differences.left_out;
      continue;
    }
    const auto answer = judged(manager, operation, judge, {0, i, {}, {}}, alive, report);
    if (!answer) break;
    const bool hit = is_new && answer->hit_tokens != want.hit_tokens;
    const bool refusal = grows && answer->ok != want.ok, free = answer->free != want.free;
    ++differences.compared;
    differences.look_ups += is_new;
    differences.hits += hit;
    differences.refusals += refusal;
    differences.free += free;
    if ((hit || refusal || free) && !differences.first) differences.first = i;
    if (is_new && answer->ok) live.insert(operation.id);
    if (!grows) live.erase(operation.id);
  }
  report.checked += judge.checked();
  return base::Ok{};
}

std::string BlockDriveReport::difference_text() const {
  const BlockDifferences& d = differences;
  if (!d.first) return "the recorded hits, refusals and free counts";
  return "other hits in " + std::to_string(d.hits) + " of " + std::to_string(d.look_ups) +
         " look-ups, other refusals in " + std::to_string(d.refusals) +
         " and other free counts after " + std::to_string(d.free) + " of " +
         std::to_string(d.compared) + " operations (the first is operation " +
         std::to_string(*d.first) + "); " + std::to_string(d.left_out) +
         " of requests that were not live here";
}

}  // namespace lockstep::harness
