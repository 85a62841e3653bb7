// One function a command of docs/cli.md: adds it, its options and its body to the command line.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "harness/commands/command_line.h"

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
void add_common(const Command& command, CommonOptions& options);
// Whether standard output gets colour.
bool wants_colour(const CommonOptions& options);
// Prints the error to standard error and returns its exit status.
int report_error(const base::Error& error);

void add_run(CommandLine& program);
void add_logits(CommandLine& program);
void add_vectors(CommandLine& program);
void add_doctor(CommandLine& program);
void add_campaign(CommandLine& program);
void add_replay(CommandLine& program);
void add_minimize(CommandLine& program);
void add_diff(CommandLine& program);
void add_merge(CommandLine& program);

}  // namespace lockstep::harness
