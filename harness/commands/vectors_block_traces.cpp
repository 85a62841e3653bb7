#include "harness/commands/vectors_block_traces.h"

#include "harness/blocks/cache_manager.h"
#include "harness/blocks/drive.h"

namespace lockstep::harness {
namespace {

std::string text_of(const std::vector<std::vector<trace::BlockId>>& tables) {
  std::string text;
  for (const auto& table : tables) {
    text += "[";
    for (const trace::BlockId block : table) {
      if (text.back() != '[') text += " ";
      text += block == trace::kNoBlock ? "-" : std::to_string(block.value);
    }
    text += "]";
  }
  return text;
}

class Comparison {
 public:
  Comparison(const VectorOptions& options, VectorReport& report)
      : options_(options), report_(report) {}

  void at(std::size_t index, const BlockOperation& operation) {
    where_ = "operation " + std::to_string(index) + ", " + describe(operation);
  }
  void expect(const char* what, const std::string& want, const std::string& got) {
    ++report_.checked;
    if (want == got) return;
    ++report_.mismatches;
    if (report_.first.size() < options_.first_count) {
      report_.first.push_back({0, where_ + ", " + what, want, got});
    }
  }

 private:
  const VectorOptions& options_;
  VectorReport& report_;
  std::string where_;
};

base::Status replay_exactly(const BlockTrace& trace, Comparison& comparison) {
  CacheManager manager(kVllmPolicy);
  LS_TRY(manager.set_up(trace.setup));
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const auto& [operation, want] = trace.operations[i];
    comparison.at(i, operation);
    const base::Result<BlockAnswer> got = manager.apply(operation);
    if (!got) {  // it was refused here and not there, or the other way round
      comparison.expect("live", "an answer", got.error().message());
      continue;
    }
    comparison.expect("free", std::to_string(want.free), std::to_string(got->free));
    const bool is_new = operation.kind == BlockOperation::Kind::New;
    if (!is_new && operation.kind != BlockOperation::Kind::Step) continue;
    comparison.expect("ok", want.ok ? "true" : "false", got->ok ? "true" : "false");
    comparison.expect("blocks", text_of(want.blocks), text_of(got->blocks));
    if (is_new) {
      comparison.expect("hit_tokens", std::to_string(want.hit_tokens),
                        std::to_string(got->hit_tokens));
    }
  }
  return base::Ok{};
}

}  // namespace

base::Status check_block_trace(const nlohmann::json& document, const VectorOptions& options,
                               VectorReport& report) {
  report.format = "vllm_block_traces";
  LS_ASSIGN(const BlockTrace trace, read_block_trace(report.path, document));
  Comparison comparison(options, report);
  LS_TRY(replay_exactly(trace, comparison));
  CacheManager manager;
  BlockDriveReport driven;
  LS_TRY(drive_trace(manager, trace, driven));
  for (const BlockFinding& finding : driven.findings) {
    comparison.at(finding.operation, trace.operations[finding.operation].operation);
    comparison.expect(std::string(name(finding.breach.rule)).c_str(), "kept",
                      finding.breach.message);
  }
  report.checked += driven.checked;
  report.note = "by the engine's own queue and keys: " + driven.difference_text();
  return base::Ok{};
}

}  // namespace lockstep::harness
