// One function a command of docs/cli.md: adds its options to the program; its callback runs it and
// leaves the exit status.
#pragma once

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace lockstep::harness {

// Options that every command has.
struct CommonOptions {
  std::uint64_t seed = 1;
  bool json = false, verbose = false, quiet = false, offline = false;
  std::string color = "auto";
  std::string report_folder = "lockstep-report";
  std::string device;
  std::string planted;
};
void add_common(CLI::App& command, CommonOptions& options);
// Whether standard output gets colour.
bool wants_colour(const CommonOptions& options);
// Prints the error to standard error and returns its exit status.
int report_error(const base::Error& error);

void add_run(CLI::App& program, int& status);
void add_logits(CLI::App& program, int& status);
void add_vectors(CLI::App& program, int& status);
void add_doctor(CLI::App& program, int& status);
void add_campaign(CLI::App& program, int& status);
void add_replay(CLI::App& program, int& status);
void add_minimize(CLI::App& program, int& status);
void add_diff(CLI::App& program, int& status);
void add_merge(CLI::App& program, int& status);

}  // namespace lockstep::harness
