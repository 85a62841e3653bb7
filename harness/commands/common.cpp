// Options and error output that every command shares.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "harness/commands/commands.h"

namespace lockstep::harness {

void add_common(const Command& command, CommonOptions& options) {
  command.option("--seed", options.seed, "seed of everything random").shows_default();
  command.flag("--json", options.json, "one JSON document on standard output");
  command.flag("-v,--verbose", options.verbose, "laws without data too, with the reason");
  command.flag("-q,--quiet", options.quiet, "the last line only");
  command.flag("--offline", options.offline, "set-up fetches nothing");
  command.option("--color", options.color, "auto, always or never")
      .one_of({"auto", "always", "never"})
      .shows_default();
}

bool wants_colour(const CommonOptions& options) {
  if (options.color != "auto") return options.color == "always";
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

int report_error(const base::Error& error) {
  std::fprintf(stderr, "lockstep: %s\n", error.message().c_str());
  return error.exit_status();
}

}  // namespace lockstep::harness
