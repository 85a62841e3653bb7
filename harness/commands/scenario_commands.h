// What the commands about scenarios share.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "harness/commands/commands.h"
#include "harness/report/scenario_report.h"
#include "harness/search/files.h"
#include "harness/search/minimize.h"

namespace lockstep::harness {

// One line on a terminal's standard error that erases itself.
class ProgressLine {
 public:
  explicit ProgressLine(const CommonOptions& options)
      : on_(!options.quiet && !options.json && isatty(STDERR_FILENO)) {}
  ~ProgressLine() { show(""); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& text) const {
    if (on_) std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  }

 private:
  bool on_;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string shell_quoted(const std::string& text);
TextStyle text_style(const CommonOptions& options);
// To standard output; an Error if it cannot be written.
base::Status print(const std::string& text);
// "0.2 s", "59 s"
std::string seconds_text(double seconds);
// A finding of a run with its tick by request timeline. `scenario` in full if it is to be shown.
ShownFinding shown_finding(const oracles::Finding& finding, const trace::Scenario& scenario,
                           const std::vector<trace::Event>& events, bool with_scenario);
// run_scenario() as the search knows it.
ScenarioRunner ledger_runner();

// `run --scenario FILE`.
base::Result<int> run_scenario_command(const std::string& path, const CommonOptions& options,
                                       bool report_wanted);

}  // namespace lockstep::harness
