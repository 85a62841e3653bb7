// lockstep: the command line (docs/cli.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "harness/commands/commands.h"

namespace lockstep::harness {
namespace {

// Commands of docs/cli.md that are not built yet: asking for one is exit status 4, not bad usage.
constexpr std::array<std::string_view, 6> kNotBuilt = {"op",     "drift",        "gate",
                                                       "mutate", "check-server", "estimate"};

bool has_command(const CLI::App& program, const std::string& name) {
  const auto commands = program.get_subcommands([](const CLI::App*) { return true; });
  return std::ranges::any_of(commands,
                             [&](const CLI::App* command) { return command->get_name() == name; });
}

int main_program(int argc, char** argv) {
  if (argc > 1) {
    for (const std::string_view name : kNotBuilt) {
      if (name == argv[1]) {
        return report_error(base::unsupported_error("", "command " + std::string(name),
                                                    "is not built in this version"));
      }
    }
  }
  CLI::App program(
      "a correctness harness for LLM inference: an engine beside a double-precision "
      "reference",
      "lockstep");
  program.set_version_flag("--version", std::string("lockstep ") + LOCKSTEP_VERSION);
  program.require_subcommand(1);
  int status = 0;
  add_run(program, status);
  add_logits(program, status);
  add_vectors(program, status);
  add_doctor(program, status);
  add_campaign(program, status);
  add_replay(program, status);
  add_minimize(program, status);
  add_diff(program, status);
  add_merge(program, status);
  if (argc > 1 && argv[1][0] != '-' && !has_command(program, argv[1])) {
    return report_error(base::input_error("", "no such command: " + std::string(argv[1])));
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  return status;
}

}  // namespace
}  // namespace lockstep::harness

int main(int argc, char** argv) {
  try {
    return lockstep::harness::main_program(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("lockstep: out of memory\n", stderr);
    return 4;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep: bug: %s\n", error.what());
    return 3;
  }
}
