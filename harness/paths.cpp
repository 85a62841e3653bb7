#include "harness/paths.h"

#include <cstdlib>
#include <filesystem>

namespace lockstep::harness {

std::string cache_folder() {
  if (const char* own = std::getenv("LOCKSTEP_CACHE"); own && *own) return own;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) {
    return std::string(xdg) + "/lockstep";
  }
  const char* home = std::getenv("HOME");
  return std::string(home ? home : ".") + "/.cache/lockstep";
}

base::Result<std::string> model_path(const std::string& model) {
  if (!model.empty()) return model;
  const std::string path = cache_folder() + "/models/" + kDemoModel;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return base::environment_error(
        path, "the demo model is not in the cache: ./lockstep run gets it where pip works");
  }
  return path;
}

}  // namespace lockstep::harness
