// Typed access to GGUF metadata.
#include "model/arch/gguf_fields.h"

#include <cmath>

namespace lockstep::model {

using base::Error;
using base::Result;
using base::Status;

std::string GgufFields::full(std::string_view key) const {
  return key.starts_with('.') ? prefix_ + std::string(key.substr(1)) : std::string(key);
}

const GgufEntry* GgufFields::take(std::string_view key) {
  const std::string name = full(key);
  read_.insert(name);
  return gguf_.find(name);
}

Error GgufFields::input(std::string_view key, std::string rule) const {
  Error error = base::input_error(gguf_.file, std::move(rule));
  error.where = full(key);
  if (const GgufEntry* entry = gguf_.find(error.where)) error.offset = entry->offset_bytes;
  return error;
}

Error GgufFields::unsupported(std::string_view key, std::string rule) const {
  Error error = input(key, std::move(rule));
  error.kind = base::ErrorKind::Unsupported;
  return error;
}

Result<std::optional<std::uint32_t>> GgufFields::optional_u32(std::string_view key) {
  const GgufEntry* entry = take(key);
  if (entry == nullptr) return std::optional<std::uint32_t>();
  if (entry->type == GgufType::Array) return unsupported(key, "one value per layer is not built");
  std::uint64_t found = 0;
  if (const auto* unsigned_value = std::get_if<std::uint64_t>(&entry->value)) {
    found = *unsigned_value;
  } else if (const auto* signed_value = std::get_if<std::int64_t>(&entry->value);
             signed_value != nullptr && *signed_value >= 0) {
    found = static_cast<std::uint64_t>(*signed_value);
  } else {
    return input(key, "must be an integer of 0 or more");
  }
  if (found > limits_.axis_elements) {
    return input(key, std::to_string(found) + " exceeds the limit axis_elements (" +
                          std::to_string(limits_.axis_elements) + ")");
  }
  return std::optional(static_cast<std::uint32_t>(found));
}

Result<std::uint32_t> GgufFields::u32(std::string_view key) {
  LS_ASSIGN(const auto found, optional_u32(key));
  if (!found) return input(key, "this metadata key is required and missing");
  return *found;
}

Result<std::optional<double>> GgufFields::optional_positive(std::string_view key) {
  const GgufEntry* entry = take(key);
  if (entry == nullptr) return std::optional<double>();
  if (entry->type == GgufType::Array) return unsupported(key, "one value per layer is not built");
  const auto* found = std::get_if<double>(&entry->value);
  if (found == nullptr || !std::isfinite(*found) || *found <= 0) {
    return input(key, "must be a finite floating-point number above 0");
  }
  return std::optional(*found);
}

Result<double> GgufFields::positive(std::string_view key) {
  LS_ASSIGN(const auto found, optional_positive(key));
  if (!found) return input(key, "this metadata key is required and missing");
  return *found;
}

Result<std::optional<std::string_view>> GgufFields::optional_string(std::string_view key) {
  const GgufEntry* entry = take(key);
  if (entry == nullptr) return std::optional<std::string_view>();
  const auto* found = std::get_if<std::string_view>(&entry->value);
  if (found == nullptr) return input(key, "must be a string");
  return std::optional(*found);
}

Result<std::optional<bool>> GgufFields::optional_bool(std::string_view key) {
  const GgufEntry* entry = take(key);
  if (entry == nullptr) return std::optional<bool>();
  const auto* found = std::get_if<bool>(&entry->value);
  if (found == nullptr) return input(key, "must be a Bool");
  return std::optional(*found);
}

Status GgufFields::inert(std::string_view key, double only_value) {
  const GgufEntry* entry = take(key);
  if (entry == nullptr) return base::Ok{};
  std::optional<double> found;
  if (const auto* u = std::get_if<std::uint64_t>(&entry->value)) found = static_cast<double>(*u);
  if (const auto* i = std::get_if<std::int64_t>(&entry->value)) found = static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&entry->value)) found = *d;
  if (const auto* b = std::get_if<bool>(&entry->value)) found = *b ? 1 : 0;
  if (found != only_value) return unsupported(key, "this feature is not built");
  return base::Ok{};
}

Status GgufFields::finish() const {
  // Sections that describe the file and its making, and never the computation. The tokenizer's own
  // keys are the tokenizer's to check.
  constexpr std::string_view kHarmlessSections[] = {"general.", "quantize.", "tokenizer."};
  for (const auto& [key, entry] : gguf_.metadata) {
    if (read_.contains(key)) continue;
    bool harmless = false;
    for (const std::string_view section : kHarmlessSections) {
      harmless = harmless || key.starts_with(section);
    }
    if (!harmless) return unsupported(key, "no meaning of this metadata key is built");
  }
  return base::Ok{};
}

}  // namespace lockstep::model
