// The operands of a failing operation as a file: safetensors with every tapped operand and result,
// what the reference wanted, and the contract and place as metadata. Small, needs no model.
#pragma once

#include <string>

#include "base/error.h"
#include "oracles/verdict.h"

namespace lockstep::harness {

// Writes FOLDER/KEY-HASH.safetensors and returns its path. `finding.operation` is set. The folder
// is made where needed; an Error (Environment) if it cannot be written.
base::Result<std::string> write_operands(const oracles::Finding& finding, const std::string& device,
                                         const std::string& folder);

}  // namespace lockstep::harness
