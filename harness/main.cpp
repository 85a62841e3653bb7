// lockstep: the command line (docs/cli.md).
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

int main_program(int argc, char** argv) {
  if (argc > 1) {
    for (const std::string_view name : kNotBuilt) {
      if (name == argv[1]) {
        return report_error(base::unsupported_error("", "command " + std::string(name),
                                                    "is not built in this version"));
      }
    }
  }
  CommandLine program(
      "lockstep",
      "a correctness harness for LLM inference: an engine beside a double-precision "
      "reference",
      std::string("lockstep ") + LOCKSTEP_VERSION);
  add_run(program);
  add_logits(program);
  add_vectors(program);
  add_doctor(program);
  add_campaign(program);
  add_replay(program);
  add_minimize(program);
  add_diff(program);
  add_merge(program);
  if (argc > 1 && argv[1][0] != '-' && !program.has(argv[1])) {
    return report_error(base::input_error("", "no such command: " + std::string(argv[1])));
  }
  return program.run(argc, argv);
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
