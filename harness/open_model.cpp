#include "harness/open_model.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/paths.h"
#include "model/tiny.h"

namespace lockstep::harness {
namespace {

base::Result<model::Model> open_tiny(const std::string& name) {
  const auto wrong = [&](const char* rule) { return base::input_error(name, rule); };
  std::vector<std::string> parts{""};
  for (const char c : name) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() < 3 || parts.size() > 4)
    return wrong("must be tiny:ARCH:SEED or tiny:ARCH:SEED:DTYPE");
  model::TinyOptions options;
  if (parts[1] == std::string(model::name(model::Arch::Gemma3))) {
    options.arch = model::Arch::Gemma3;
  } else if (parts[1] != std::string(model::name(model::Arch::Llama))) {
    return wrong("ARCH must be llama or gemma3");
  }
  const char* end = parts[2].data() + parts[2].size();
  const auto [next, error] = std::from_chars(parts[2].data(), end, options.seed);
  if (error != std::errc() || next != end) return wrong("SEED must be a number");
  if (parts.size() == 4) {
    const std::optional<model::DType> dtype = model::dtype_from_name(parts[3]);
    if (!dtype) return wrong("DTYPE must be a tensor type, such as Q4_K");
    options.dtype = *dtype;
  }
  return model::make_tiny(options);
}

}  // namespace

base::Result<model::Model> open_model(const std::string& name) {
  if (name.starts_with("tiny:")) return open_tiny(name);
  LS_ASSIGN(const std::string path, model_path(name));
  return model::load(path);
}

}  // namespace lockstep::harness
