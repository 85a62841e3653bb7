// `lockstep vectors --block-manager CMD [FILE...]`: drives a user's block manager and judges its
// answers (docs/block_managers.md).
#pragma once

#include <string>
#include <vector>

#include "harness/commands/commands.h"

namespace lockstep::harness {

struct BlockManagerArguments {
  std::string command;
  std::vector<std::string> files;  // recorded operations; none: operations from seeds
  std::uint64_t cases = 100, operations = 300;
};

// Prints the report and returns the exit status: 0 all rules held, 1 a finding.
base::Result<int> check_block_manager(const BlockManagerArguments& arguments,
                                      const CommonOptions& common);

}  // namespace lockstep::harness
