// A model by name: a path, "tiny:ARCH:SEED[:DTYPE]", or empty for the demo model.
#pragma once

#include <string>

#include "base/error.h"
#include "model/model.h"

namespace lockstep::harness {

base::Result<model::Model> open_model(const std::string& name);

}  // namespace lockstep::harness
