#include "trace/scenario_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"

namespace lockstep::trace {

using nlohmann::json;

void Problems::fail(std::string pointer, std::string rule) {
  if (input_) return;
  input_ = base::input_error(file_, std::move(rule));
  input_->where = std::move(pointer);
}

void Problems::not_built(const std::string& pointer, const std::string& what) {
  if (unsupported_) return;
  std::string rule = "`" + field_name(pointer) + "`";
  if (!what.empty()) rule += " " + what;
  unsupported_ = base::unsupported_error(file_, pointer, rule + " is not built");
}

std::string field_name(std::string_view pointer) {
  std::string name;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string_view segment = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(segment.size());
    const bool index = !segment.empty() && segment.find_first_not_of("0123456789") == segment.npos;
    if (index) {
      name += "[" + std::string(segment) + "]";
    } else {
      name += (name.empty() ? "" : ".") + std::string(segment);
    }
  }
  return name;
}

std::string shown(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

std::string pointer_segment(std::string_view key) {
  std::string segment = "/";
  for (const char c : key.substr(0, 100)) {
    if (c == '~') {
      segment += "~0";
    } else if (c == '/') {
      segment += "~1";
    } else {
      segment += c;
    }
  }
  return segment;
}

bool Field::fail_integer(const std::string& low, const std::string& high) const {
  fail("must be an integer from " + low + " to " + high + ", not " + shown(*value_));
  return false;
}

std::uint64_t Field::integer(std::uint64_t absent, std::uint64_t low, std::uint64_t high) const {
  if (!present()) return absent;
  const bool whole = value_->is_number_unsigned() ||
                     (value_->is_number_integer() && value_->get<std::int64_t>() == 0);
  const std::uint64_t value = whole ? value_->get<std::uint64_t>() : 0;
  if (whole && value >= low && value <= high) return value;
  fail_integer(std::to_string(low), std::to_string(high));
  return absent;
}

std::int64_t Field::signed_integer(std::int64_t absent, std::int64_t low, std::int64_t high) const {
  if (!present()) return absent;
  const auto fits = [&] {
    if (value_->is_number_unsigned()) {
      return high >= 0 && value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(high) &&
             value_->get<std::int64_t>() >= low;
    }
    return value_->is_number_integer() && value_->get<std::int64_t>() >= low &&
           value_->get<std::int64_t>() <= high;
  };
  if (fits()) return value_->get<std::int64_t>();
  fail_integer(std::to_string(low), std::to_string(high));
  return absent;
}

std::uint32_t Field::count(std::uint32_t absent, std::uint64_t low, std::uint64_t high) const {
  LS_CHECK(high <= std::numeric_limits<std::uint32_t>::max());
  return static_cast<std::uint32_t>(integer(absent, low, high));
}

double Field::number(double absent, double low, double high) const {
  if (!present()) return absent;
  const double value = value_->is_number() ? value_->get<double>() : std::nan("");
  if (value >= low && value <= high) return value;
  fail("must be a number from " + shown(json(low)) + " to " + shown(json(high)) + ", not " +
       shown(*value_));
  return absent;
}

bool Field::boolean(bool absent) const {
  if (!present()) return absent;
  if (value_->is_boolean()) return value_->get<bool>();
  fail("must be true or false, not " + shown(*value_));
  return absent;
}

std::string Field::text(std::string absent, std::size_t low_bytes, std::size_t high_bytes) const {
  if (!present()) return absent;
  if (!value_->is_string()) {
    fail("must be text, not " + shown(*value_));
    return absent;
  }
  const std::string& value = value_->get_ref<const std::string&>();
  if (value.size() >= low_bytes && value.size() <= high_bytes) return value;
  fail("must be text of " + std::to_string(low_bytes) + " to " + std::to_string(high_bytes) +
       " bytes, not " + std::to_string(value.size()));
  return absent;
}

const json::array_t& Field::list(std::uint64_t high) const {
  static const json::array_t nothing;
  if (!present()) return nothing;
  if (!value_->is_array()) {
    fail("must be a list, not " + shown(*value_));
    return nothing;
  }
  if (value_->size() > high) {
    fail("must have at most " + std::to_string(high) + " entries, not " +
         std::to_string(value_->size()));
    return nothing;
  }
  return value_->get_ref<const json::array_t&>();
}

Field Field::element(std::size_t index) const {
  return Field(*problems_, &(*value_)[index], pointer_ + "/" + std::to_string(index));
}

bool Field::require(const char* what) const {
  if (present()) return true;
  const std::size_t slash = pointer_.rfind('/');
  problems_->fail(pointer_.substr(0, slash),
                  "the field `" + pointer_.substr(slash + 1) + "` is missing: " + what);
  return false;
}

Object::Object(const Field& field, const std::vector<std::string_view>& known)
    : problems_(&field.problems()), pointer_(field.pointer()) {
  if (!field.present()) return;
  if (!field.value().is_object()) {
    field.fail("must be an object, not " + shown(field.value()));
    return;
  }
  value_ = &field.value();
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    problems_->fail(pointer_ + pointer_segment(key),
                    "unknown field" + (names.empty() ? "" : "; known: " + names));
  }
}

Field Object::operator[](std::string_view name) const {
  const json* value = nullptr;
  if (value_ != nullptr) {
    const auto found = value_->find(name);
    if (found != value_->end()) value = &*found;
  }
  return Field(*problems_, value, pointer_ + "/" + std::string(name));
}

std::optional<std::uint32_t> token_of_key(std::string_view key, std::uint64_t size) {
  std::uint32_t value = 0;
  const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), value);
  const bool plain = status == std::errc() && end == key.data() + key.size() &&
                     (key.size() == 1 || key.front() != '0');
  if (!plain || value >= size) return std::nullopt;
  return value;
}

}  // namespace lockstep::trace
