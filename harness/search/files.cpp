#include "harness/search/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/limits.h"
#include "model/file.h"
#include "trace/scenario_json.h"

namespace lockstep::harness {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNoteStart = "finding ";

bool is_trace(const std::string& path) { return path.ends_with(".lstrace"); }

std::string key_of_note(const std::string& note) {
  if (!note.starts_with(kNoteStart)) return "";
  const std::string rest = note.substr(kNoteStart.size());
  return rest.substr(0, rest.find_first_of(" ;"));
}

// A key names a file: what else could be in it (a check's file name) becomes a dash.
std::string file_stem(const std::string& key, const trace::Scenario& scenario) {
  const std::string text = trace::write_scenario(scenario);
  const std::string hash = base::hash_bytes(std::as_bytes(std::span(text))).hex();
  std::string stem;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    stem += plain ? c : '-';
  }
  return stem.substr(0, 100) + "-" + hash.substr(0, 4);
}

}  // namespace

base::Result<ScenarioFile> open_scenario(const std::string& path) {
  ScenarioFile file;
  file.path = path;
  if (is_trace(path)) {
    LS_ASSIGN(file.trace, trace::read_trace(path));
    if (file.trace->scenario_text.empty()) {
      return base::unsupported_error(path, "", "a trace without a scenario is not built");
    }
    LS_ASSIGN(file.scenario, trace::parse_scenario(file.trace->scenario_text, path));
    file.finding_key = file.trace->finding_key;
    return file;
  }
  base::Limits limits;
  limits.file_bytes = limits.json_bytes;
  LS_ASSIGN(const auto mapped, model::MappedFile::open(path, limits));
  const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()),
                              mapped->bytes().size());
  LS_ASSIGN(file.scenario, trace::parse_scenario(text, path));
  file.finding_key = key_of_note(file.scenario.note);
  return file;
}

base::Result<std::vector<std::string>> scenario_paths(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& path : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      paths.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
         at.increment(error)) {
      const std::string extension = at->path().extension().string();
      std::error_code ignored;
      if (at->path().filename() == "report.json") continue;  // of a campaign, beside its findings
      if ((extension == ".json" || extension == ".lstrace") && at->is_regular_file(ignored)) {
        found.push_back(at->path().string());
      }
    }
    if (error) return base::environment_error(path, "cannot be read: " + error.message());
    if (found.empty()) return base::input_error(path, "has no .json and no .lstrace file");
    std::ranges::sort(found);
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

base::Status write_text(const std::string& path, const std::string& text) {
  const std::string partial = path + ".part";
  {
    std::ofstream stream(partial, std::ios::trunc | std::ios::binary);
    stream << text;
    stream.flush();
    if (!stream) return base::environment_error(path, "cannot be written");
  }
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) return base::environment_error(path, "cannot be written: " + error.message());
  return base::Ok{};
}

std::string finding_note(const std::string& key, const std::string& origin) {
  return fmt::format("{}{}; {}", kNoteStart, key, origin);
}

base::Result<FindingFiles> write_finding(const std::string& folder, trace::Scenario scenario,
                                         const Recording& recording,
                                         const oracles::Finding& finding,
                                         const std::string& origin) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return base::environment_error(folder, "cannot be made: " + error.message());
  scenario.note.clear();
  const fs::path stem = fs::path(folder) / file_stem(finding.key, scenario);
  scenario.note = finding_note(finding.key, origin);
  FindingFiles files{stem.string() + ".json", stem.string() + ".lstrace"};
  trace::Trace recorded;
  recorded.program_version = LOCKSTEP_VERSION;
  recorded.scenario_text = trace::write_scenario(scenario);
  recorded.finding_key = finding.key;
  recorded.finding_message = finding.message;
  recorded.events = recording.events;
  LS_TRY(write_text(files.scenario, recorded.scenario_text));
  LS_TRY(trace::write_trace(files.trace, recorded));
  return files;
}

}  // namespace lockstep::harness
