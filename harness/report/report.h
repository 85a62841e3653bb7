// What the reports of `run` print, for one or several devices.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/run.h"

namespace lockstep::harness {

// What became of the operation of one finding. Lines that say nothing are empty.
struct KeptOperation {
  std::string file;      // .lstrace, empty: none
  std::string from;      // the place and the call that it was cut out of
  std::string needle;    // what a probe of its kernel shows
  std::string smallest;  // how small it is, or why it is not
};

struct DeviceReport {
  std::string device;
  RunOutcome outcome;
  // One for each finding of all verdicts, in their order; empty: none was kept.
  std::vector<KeptOperation> kept;

  KeptOperation kept_of(std::size_t finding) const {
    return finding < kept.size() ? kept[finding] : KeptOperation{};
  }
};

struct RunReport {
  std::string command = "run";
  std::string model_name;               // "gemma-3-270m Q4_K_M"
  const model::Model* model = nullptr;  // for text of tokens
  trace::Scenario scenario;
  std::vector<DeviceReport> devices;
  double seconds = 0;
  std::string repeat;  // the command that repeats it

  // Finding, else pass if anything was checked and no request was cut, else not applicable.
  oracles::VerdictKind verdict() const;
  // Requests that ended with `error`: the device's memory did not hold a step of theirs.
  std::size_t requests_cut() const;
  int exit_status() const;  // 0, 1 or 4 (nothing was checked, or a request was cut)
};

struct TextStyle {
  bool colour = false;
  bool verbose = false;  // laws without data too
  bool quiet = false;    // the last line only
};

std::string text_report(const RunReport& report, const TextStyle& style);
nlohmann::json json_report(const RunReport& report);

}  // namespace lockstep::harness
