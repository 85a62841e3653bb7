// lockstep vectors: our number formats, block decoders and tensor-core models against vector files.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/commands/commands.h"
#include "harness/commands/vectors_block_manager.h"
#include "harness/commands/vectors_check.h"

namespace lockstep::harness {
namespace {

struct VectorsArguments {
  CommonOptions common;
  std::vector<std::string> files;
  BlockManagerArguments manager;
};

void print_text(const VectorReport& report, bool quiet) {
  if (!quiet) {
    for (const VectorMismatch& mismatch : report.first) {
      std::printf("  %s%s: want %s, got %s\n",
                  mismatch.line ? ("line " + std::to_string(mismatch.line) + ": ").c_str() : "",
                  mismatch.where.c_str(), mismatch.want.c_str(), mismatch.got.c_str());
    }
  }
  std::printf("%s (%s): %llu checked, %llu mismatches", report.path.c_str(), report.format.c_str(),
              static_cast<unsigned long long>(report.checked),
              static_cast<unsigned long long>(report.mismatches));
  if (report.skipped) {
    std::printf(", %llu of formats that are not built",
                static_cast<unsigned long long>(report.skipped));
  }
  std::printf("\n");
  if (!report.note.empty() && !quiet) std::printf("  %s\n", report.note.c_str());
}

nlohmann::json law_of(const VectorReport& report) {
  nlohmann::json law = {{"law", "vectors"},
                        {"device", nullptr},
                        {"file", report.path},
                        {"format", report.format},
                        {"verdict", report.mismatches ? "finding"
                                    : report.checked  ? "pass"
                                                      : "not_applicable"},
                        {"checked", report.checked},
                        {"mismatches", report.mismatches},
                        {"skipped", report.skipped},
                        {"findings", nlohmann::json::array()}};
  if (!report.note.empty()) law["note"] = report.note;
  for (const VectorMismatch& mismatch : report.first) {
    law["findings"].push_back({{"key", "vectors." + report.format},
                               {"message", mismatch.where},
                               {"line", mismatch.line},
                               {"got", mismatch.got},
                               {"want", mismatch.want},
                               {"bound", 0},
                               {"ratio", nullptr}});
  }
  return law;
}

base::Result<int> execute(const VectorsArguments& arguments) {
  std::uint64_t checked = 0, mismatches = 0;
  nlohmann::json laws = nlohmann::json::array();
  for (const std::string& file : arguments.files) {
    if (arguments.files.size() > 1 && file.ends_with(".md")) continue;  // a data set's README
    LS_ASSIGN(const VectorReport report, check_vectors(file));
    checked += report.checked;
    mismatches += report.mismatches;
    if (arguments.common.json) {
      laws.push_back(law_of(report));
    } else {
      print_text(report, arguments.common.quiet);
    }
  }
  if (arguments.common.json) {
    const nlohmann::json document = {{"schema", "lockstep.vectors/1"},
                                     {"version", LOCKSTEP_VERSION},
                                     {"verdict", mismatches ? "finding"
                                                 : checked  ? "pass"
                                                            : "not_applicable"},
                                     {"laws", laws}};
    std::printf("%s\n", document.dump(1).c_str());
  } else if (arguments.files.size() > 1) {
    std::printf("%llu checked, %llu mismatches\n", static_cast<unsigned long long>(checked),
                static_cast<unsigned long long>(mismatches));
  }
  return mismatches ? 1 : checked ? 0 : 4;
}

base::Result<int> run(VectorsArguments& arguments) {
  if (!arguments.manager.command.empty()) {
    arguments.manager.files = arguments.files;
    std::erase_if(arguments.manager.files,
                  [](const std::string& file) { return file.ends_with(".md"); });
    return check_block_manager(arguments.manager, arguments.common);
  }
  if (arguments.files.empty()) {
    return base::input_error("files", "is required, or --block-manager");
  }
  return execute(arguments);
}

}  // namespace

void add_vectors(CommandLine& program) {
  auto arguments = std::make_shared<VectorsArguments>();
  const Command command = program.command(
      "vectors", "number formats, block decoders and tensor-core models against vector files");
  command.option("files", arguments->files,
                 "vector files (tcv1, sfv1, gguf_dequant, vllm_block_traces)");
  BlockManagerArguments& manager = arguments->manager;
  command.option("--block-manager", manager.command,
                 "a command that answers as docs/block_managers.md says: it is driven from "
                 "seeds, or through the recorded operations of the files, and judged");
  command.option("--cases", manager.cases, "block manager: workloads, one a seed")
      .in_range(1, 1000000)
      .shows_default();
  command.option("--operations", manager.operations, "block manager: of a workload")
      .in_range(1, 1000000)
      .shows_default();
  add_common(command, arguments->common);
  command.body([arguments] { return run(*arguments); });
}

}  // namespace lockstep::harness
