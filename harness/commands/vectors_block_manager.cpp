#include "harness/commands/vectors_block_manager.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/blocks/drive.h"
#include "harness/blocks/process_manager.h"
#include "harness/commands/vectors_record.h"

namespace lockstep::harness {
namespace {

struct Part {
  std::string source;  // a file, or "seeds 1 to 100"
  std::string repeat;  // of the first finding
  BlockDriveReport report;
};

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text)
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

base::Result<std::vector<Part>> drive(const BlockManagerArguments& arguments, std::uint64_t seed) {
  LS_ASSIGN(const auto manager, ProcessManager::start(arguments.command));
  std::vector<Part> parts;
  const std::string command = "lockstep vectors --block-manager " + quoted(arguments.command);
  if (arguments.files.empty()) {
    Part& part = parts.emplace_back();
    part.source =
        "seeds " + std::to_string(seed) + " to " + std::to_string(seed + arguments.cases - 1);
    LS_ASSIGN(part.report, drive_blocks(*manager, seed, arguments.cases, arguments.operations));
    if (!part.report.findings.empty()) {
      const BlockFinding& first = part.report.findings.front();
      part.repeat = command + " --cases 1 --seed " + std::to_string(first.seed) + " --operations " +
                    std::to_string(first.operation + 1);
    }
  }
  const base::Limits limits;
  for (const std::string& file : arguments.files) {
    LS_ASSIGN(const std::string text, read_vector_text(file, limits));
    const auto document = nlohmann::json::parse(text, nullptr, false);
    if (!is_block_trace(document)) {
      return base::input_error(file, "must be one JSON object with ops and null_block");
    }
    LS_ASSIGN(const BlockTrace trace, read_block_trace(file, document));
    Part& part = parts.emplace_back();
    part.source = file;
    part.repeat = command + " " + quoted(file);
    LS_TRY(drive_trace(*manager, trace, part.report));
  }
  return parts;
}

std::string where(const Part& part, const BlockFinding& finding, bool seeds) {
  return (seeds ? "seed " + std::to_string(finding.seed) + ", " : std::string()) + "operation " +
         std::to_string(finding.operation) + ", " + finding.what +
         (seeds ? "" : " of " + part.source);
}

void print_text(const std::vector<Part>& parts, bool seeds, bool quiet) {
  for (const Part& part : parts) {
    for (const BlockFinding& finding : part.report.findings) {
      if (quiet) break;
      std::printf("  %s: %s: %s\n", where(part, finding, seeds).c_str(),
                  std::string(name(finding.breach.rule)).c_str(), finding.breach.message.c_str());
    }
    const BlockDriveReport& report = part.report;
    std::printf("%s: %llu operations (%llu hits, %llu refusals), %llu checked, %zu findings\n",
                part.source.c_str(), static_cast<unsigned long long>(report.operations),
                static_cast<unsigned long long>(report.hits),
                static_cast<unsigned long long>(report.refusals),
                static_cast<unsigned long long>(report.checked), report.findings.size());
    if (quiet) continue;
    if (!seeds) std::printf("  beside the record: %s\n", report.difference_text().c_str());
    if (!report.findings.empty()) std::printf("  again: %s\n", part.repeat.c_str());
  }
}

nlohmann::json document_of(const std::vector<Part>& parts, bool seeds, std::uint64_t seed,
                           bool found) {
  nlohmann::json laws = nlohmann::json::array();
  for (const Part& part : parts) {
    nlohmann::json law = {{"law", "block_manager"},
                          {"device", nullptr},
                          {"file", part.source},
                          {"verdict", part.report.findings.empty() ? "pass" : "finding"},
                          {"checked", part.report.checked},
                          {"operations", part.report.operations},
                          {"findings", nlohmann::json::array()}};
    if (!seeds) law["note"] = part.report.difference_text();
    for (const BlockFinding& finding : part.report.findings) {
      law["findings"].push_back(
          {{"key", "block_manager." + std::string(name(finding.breach.rule))},
           {"message", where(part, finding, seeds) + ": " + finding.breach.message},
           {"got", nullptr},
           {"want", nullptr},
           {"bound", 0},
           {"ratio", nullptr},
           {"replay", part.repeat}});
    }
    laws.push_back(std::move(law));
  }
  return {{"schema", "lockstep.vectors/1"},
          {"version", LOCKSTEP_VERSION},
          {"command", "vectors"},
          {"seed", seed},
          {"verdict", found ? "finding" : "pass"},
          {"laws", laws}};
}

}  // namespace

base::Result<int> check_block_manager(const BlockManagerArguments& arguments,
                                      const CommonOptions& common) {
  LS_ASSIGN(const std::vector<Part> parts, drive(arguments, common.seed));
  const bool seeds = arguments.files.empty();
  std::uint64_t checked = 0;
  bool found = false;
  for (const Part& part : parts) {
    found |= !part.report.findings.empty();
    checked += part.report.checked;
  }
  if (common.json) {
    std::printf("%s\n", document_of(parts, seeds, common.seed, found).dump(1).c_str());
  } else {
    print_text(parts, seeds, common.quiet);
  }
  return found ? 1 : checked > 0 ? 0 : 4;
}

}  // namespace lockstep::harness
