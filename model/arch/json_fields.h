// Typed access to one JSON object (config.json or a part of it) for a config reader, which notes
// what was read: a key that nobody read and nobody declared harmless is refused by name.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/limits.h"

namespace lockstep::model {

class JsonFields {
 public:
  // `pointer`: JSON pointer of `object` in the file, for messages ("" is the document).
  JsonFields(const nlohmann::json& object, std::string file, std::string pointer,
             const base::Limits& limits)
      : object_(object), file_(std::move(file)), pointer_(std::move(pointer)), limits_(limits) {}

  const base::Limits& limits() const { return limits_; }
  const std::string& file() const { return file_; }

  // Null counts as missing. Missing: an Input error, or nothing for the optional forms. Another
  // type or range: Input.
  base::Result<std::uint32_t> u32(std::string_view key);
  base::Result<std::optional<std::uint32_t>> optional_u32(std::string_view key);
  base::Result<double> positive(std::string_view key);
  base::Result<std::optional<double>> optional_positive(std::string_view key);
  base::Result<std::optional<std::string>> optional_string(std::string_view key);
  base::Result<std::optional<bool>> optional_bool(std::string_view key);
  // A token id or a list of them; none if missing.
  base::Result<std::vector<std::uint32_t>> token_ids(std::string_view key);
  // The value as it is, null if missing.
  const nlohmann::json& raw(std::string_view key);
  base::Result<std::optional<JsonFields>> optional_object(std::string_view key);

  // The key, if there and not null, must hold this value: anything else changes the computation.
  base::Status inert(std::string_view key, const nlohmann::json& only_value);
  // Refuses (Unsupported) the keys that were neither read nor are in `harmless`.
  base::Status finish(std::span<const std::string_view> harmless) const;

  base::Error input(std::string_view key, std::string rule) const;
  base::Error unsupported(std::string_view key, std::string rule) const;

 private:
  const nlohmann::json& object_;
  std::string file_;
  std::string pointer_;
  const base::Limits& limits_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace lockstep::model
