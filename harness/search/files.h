// Scenarios and findings as files: what `replay`, `minimize`, `diff` and `campaign` read and write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/search/streams.h"
#include "trace/scenario.h"
#include "trace/trace_file.h"

namespace lockstep::harness {

// A scenario (.json), or a trace (.lstrace) with the scenario that it recorded.
struct ScenarioFile {
  std::string path;
  trace::Scenario scenario;
  std::optional<trace::Trace> trace;
  // The finding that was recorded: of a trace, or of a scenario's note; empty: none.
  std::string finding_key;
};
base::Result<ScenarioFile> open_scenario(const std::string& path);

// Files, and all .json and .lstrace files below folders (but report.json), sorted by path.
base::Result<std::vector<std::string>> scenario_paths(const std::vector<std::string>& given);

// Text into a file that is then renamed: `path` is the old file or the whole new one.
base::Status write_text(const std::string& path, const std::string& text);

// The note by which a scenario's file says what was found with it.
std::string finding_note(const std::string& key, const std::string& origin);

struct FindingFiles {
  std::string scenario, trace;  // paths
};
// KEY-HASH.json and KEY-HASH.lstrace in `folder`, which is made if need be.
base::Result<FindingFiles> write_finding(const std::string& folder, trace::Scenario scenario,
                                         const Recording& recording,
                                         const oracles::Finding& finding,
                                         const std::string& origin);

}  // namespace lockstep::harness
