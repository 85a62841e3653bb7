// Typed access to a JSON object.
#include "model/arch/json_fields.h"

#include <algorithm>
#include <cmath>

namespace lockstep::model {

using base::Error;
using base::Result;
using base::Status;
using nlohmann::json;

const json& JsonFields::raw(std::string_view key) {
  static const json kNull;
  read_.insert(std::string(key));
  const auto found = object_.find(key);
  return found == object_.end() ? kNull : *found;
}

Error JsonFields::input(std::string_view key, std::string rule) const {
  Error error = base::input_error(file_, std::move(rule));
  error.where = pointer_ + "/" + std::string(key);
  return error;
}

Error JsonFields::unsupported(std::string_view key, std::string rule) const {
  Error error = input(key, std::move(rule));
  error.kind = base::ErrorKind::Unsupported;
  return error;
}

Result<std::optional<std::uint32_t>> JsonFields::optional_u32(std::string_view key) {
  const json& value = raw(key);
  if (value.is_null()) return std::optional<std::uint32_t>();
  if (!value.is_number_unsigned()) return input(key, "must be an integer of 0 or more");
  const auto found = value.get<std::uint64_t>();
  if (found > limits_.axis_elements) {
    return input(key, std::to_string(found) + " exceeds the limit axis_elements (" +
                          std::to_string(limits_.axis_elements) + ")");
  }
  return std::optional(static_cast<std::uint32_t>(found));
}

Result<std::uint32_t> JsonFields::u32(std::string_view key) {
  LS_ASSIGN(const auto found, optional_u32(key));
  if (!found) return input(key, "this key is required and missing");
  return *found;
}

Result<std::optional<double>> JsonFields::optional_positive(std::string_view key) {
  const json& value = raw(key);
  if (value.is_null()) return std::optional<double>();
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
    return input(key, "must be a finite number above 0");
  }
  return std::optional(value.get<double>());
}

Result<double> JsonFields::positive(std::string_view key) {
  LS_ASSIGN(const auto found, optional_positive(key));
  if (!found) return input(key, "this key is required and missing");
  return *found;
}

Result<std::optional<std::string>> JsonFields::optional_string(std::string_view key) {
  const json& value = raw(key);
  if (value.is_null()) return std::optional<std::string>();
  if (!value.is_string()) return input(key, "must be a string");
  return std::optional(value.get<std::string>());
}

Result<std::optional<bool>> JsonFields::optional_bool(std::string_view key) {
  const json& value = raw(key);
  if (value.is_null()) return std::optional<bool>();
  if (!value.is_boolean()) return input(key, "must be true or false");
  return std::optional(value.get<bool>());
}

Result<std::vector<std::uint32_t>> JsonFields::token_ids(std::string_view key) {
  const json& value = raw(key);
  std::vector<std::uint32_t> ids;
  if (value.is_null()) return ids;
  const std::vector<json> items =
      value.is_array() ? value.get<std::vector<json>>() : std::vector<json>{value};
  for (const json& item : items) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= limits_.vocabulary_size) {
      return input(key, "must be a token id or a list of them");
    }
    ids.push_back(item.get<std::uint32_t>());
  }
  return ids;
}

Result<std::optional<JsonFields>> JsonFields::optional_object(std::string_view key) {
  const json& value = raw(key);
  if (value.is_null()) return std::optional<JsonFields>();
  if (!value.is_object()) return input(key, "must be an object");
  return std::optional<JsonFields>(
      JsonFields(value, file_, pointer_ + "/" + std::string(key), limits_));
}

Status JsonFields::inert(std::string_view key, const json& only_value) {
  const json& value = raw(key);
  if (!value.is_null() && value != only_value) {
    return unsupported(key, value.dump() + " is not built, only " + only_value.dump());
  }
  return base::Ok{};
}

Status JsonFields::finish(std::span<const std::string_view> harmless) const {
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key)) continue;
    if (std::find(harmless.begin(), harmless.end(), key) != harmless.end()) continue;
    return unsupported(key, "no meaning of this key is built");
  }
  return base::Ok{};
}

}  // namespace lockstep::model
