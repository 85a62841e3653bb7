// Third-party records under golden/ as the tests read them: JSON documents and tensors of doubles.
#pragma once

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/file.h"
#include "model/json.h"
#include "model/safetensors.h"

namespace lockstep::reference::golden {

inline std::string path(const std::string& name) {
  return std::string(LOCKSTEP_GOLDEN_DIR) + "/" + name;
}

inline nlohmann::json json(const std::string& name) {
  const auto file = model::MappedFile::open(path(name), {});
  LS_CHECK(file.ok(), file.error().message());
  const auto bytes = file.value()->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto parsed = model::parse_json(text, name, {});
  LS_CHECK(parsed.ok());
  return parsed.value();
}

// Tensors of a safetensors file.
class Tensors {
 public:
  explicit Tensors(const std::string& name) {
    auto file = model::MappedFile::open(path(name), {});
    LS_CHECK(file.ok(), file.error().message());
    file_ = file.value();
    auto read = model::read_safetensors(file_->bytes(), name);
    LS_CHECK(read.ok(), read.error().message());
    tensors_ = std::move(read.value().tensors);
  }
  bool has(const std::string& name) const { return tensors_.find(name) != nullptr; }
  // Values of an F64 tensor.
  std::vector<double> values(const std::string& name) const {
    const model::TensorInfo* tensor = tensors_.find(name);
    LS_CHECK(tensor != nullptr && tensor->dtype == model::DType::F64, name);
    std::vector<double> out(tensor->elements());
    std::memcpy(out.data(), tensor->data.data(), tensor->data.size());
    return out;
  }

 private:
  std::shared_ptr<const model::MappedFile> file_;
  model::TensorTable tensors_;
};

// Of a model that a user has in the cache, empty if it isn't there.
inline std::string cached_model(const std::string& name) {
  std::string cache;
  if (const char* own = std::getenv("LOCKSTEP_CACHE"); own != nullptr && *own != 0) {
    cache = own;
  } else if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != 0) {
    cache = std::string(xdg) + "/lockstep";
  } else if (const char* home = std::getenv("HOME"); home != nullptr) {
    cache = std::string(home) + "/.cache/lockstep";
  }
  const std::string file = cache + "/models/" + name;
  return model::MappedFile::open(file, {}).ok() ? file : std::string();
}

}  // namespace lockstep::reference::golden
