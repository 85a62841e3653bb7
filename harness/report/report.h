// What the reports of `run` print, for one or several devices.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/run.h"

namespace lockstep::harness {

struct DeviceReport {
  std::string device;
  RunOutcome outcome;
  // Files of findings: same order as all findings of all verdicts; empty: none written.
  std::vector<std::string> files;
};

struct RunReport {
  std::string command = "run";
  std::string model_name;               // "gemma-3-270m Q4_K_M"
  const model::Model* model = nullptr;  // for text of tokens
  trace::Scenario scenario;
  std::vector<DeviceReport> devices;
  double seconds = 0;
  std::string repeat;  // the command that repeats it

  // Finding, else pass if anything was checked, else not applicable.
  oracles::VerdictKind verdict() const;
  int exit_status() const;  // 0, 1 or 4 (nothing was checked)
};

struct TextStyle {
  bool colour = false;
  bool verbose = false;  // laws without data too
  bool quiet = false;    // the last line only
};

std::string text_report(const RunReport& report, const TextStyle& style);
nlohmann::json json_report(const RunReport& report);

}  // namespace lockstep::harness
