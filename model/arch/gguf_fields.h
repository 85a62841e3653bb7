// Typed access to one GGUF's metadata for a config reader, which notes what was read: a key of the
// architecture that nobody read and nobody declared harmless is refused by name.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"
#include "model/gguf.h"

namespace lockstep::model {

class GgufFields {
 public:
  // `prefix`: the architecture's name and a dot; key arguments that begin with '.' get it.
  GgufFields(const GgufFile& gguf, std::string prefix, const base::Limits& limits)
      : gguf_(gguf), prefix_(std::move(prefix)), limits_(limits) {}

  const GgufFile& gguf() const { return gguf_; }
  const base::Limits& limits() const { return limits_; }

  // Missing: an Input error, or nothing for the optional forms. Another type or range: Input; an
  // array where one number per model is built: Unsupported.
  base::Result<std::uint32_t> u32(std::string_view key);
  base::Result<std::optional<std::uint32_t>> optional_u32(std::string_view key);
  base::Result<double> positive(std::string_view key);
  base::Result<std::optional<double>> optional_positive(std::string_view key);
  base::Result<std::optional<std::string_view>> optional_string(std::string_view key);
  base::Result<std::optional<bool>> optional_bool(std::string_view key);
  // The key, if there, must hold this value: anything else changes the computation.
  base::Status inert(std::string_view key, double only_value);

  // Refuses the keys that were not read: those of the architecture, and those of unknown sections.
  base::Status finish() const;

  base::Error input(std::string_view key, std::string rule) const;
  base::Error unsupported(std::string_view key, std::string rule) const;

 private:
  std::string full(std::string_view key) const;
  const GgufEntry* take(std::string_view key);

  const GgufFile& gguf_;
  std::string prefix_;
  const base::Limits& limits_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace lockstep::model
