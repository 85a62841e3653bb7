// Where the program keeps and finds things: the cache (LOCKSTEP_CACHE, else
// XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep) and the models in it.
#pragma once

#include <string>

#include "base/error.h"

namespace lockstep::harness {

inline constexpr const char* kDemoModel = "gemma-3-270m-q4_k_m.gguf";

std::string cache_folder();
// `model` as given, or the demo model's path if empty. An Error (Environment) if the demo model is
// not in the cache.
base::Result<std::string> model_path(const std::string& model);

}  // namespace lockstep::harness
