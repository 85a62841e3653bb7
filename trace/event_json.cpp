// Values: an id, a count or a tick is a number (the id that means none, kNoBlock, is -1); a hash is
// 32 hex digits; a double is a number, or "nan", "inf", "-inf"; text is a string, or {"hex": ...}
// where it is not UTF-8; what may be absent is null then; a list is an array, and so is a struct or
// a pair, of its fields in order.
#include "trace/event_json.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "trace/event_fields.h"

namespace lockstep::trace {
namespace {

using nlohmann::json;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  return std::nullopt;
}

// --- to JSON ---

// nlohmann's writer can leave out or replace what is not UTF-8: the two differ iff there is any.
bool is_utf8(const std::string& text) {
  const json value = text;
  return value.dump(-1, ' ', false, json::error_handler_t::ignore) ==
         value.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
requires std::is_arithmetic_v<T> json to_json(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  }
  return value;
}
json to_json(TapPoint point) { return static_cast<unsigned>(point); }
json to_json(const base::Hash128& hash) { return hash.hex(); }
json to_json(const std::string& text) {
  if (is_utf8(text)) return text;
  return {{"hex", hex(text)}};
}
template <class Tag>
json to_json(Id<Tag> id) {
  return id.value == kNoBlock.value ? json(-1) : json(id.value);
}
template <class T>
json to_json(const std::optional<T>& value);
template <class T>
json to_json(const std::vector<T>& list);
template <class A, class B>
json to_json(const std::pair<A, B>& pair);
template <class T>
requires std::is_aggregate_v<T> json to_json(const T& value) {
  return with_fields(value, [](const auto&... field) {
    json array = json::array();
    (array.push_back(to_json(field)), ...);
    return array;
  });
}
template <class T>
json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : json(nullptr);
}
template <class T>
json to_json(const std::vector<T>& list) {
  json array = json::array();
  for (const T& value : list) array.push_back(to_json(value));
  return array;
}
template <class A, class B>
json to_json(const std::pair<A, B>& pair) {
  json array = json::array();
  array.push_back(to_json(pair.first));
  array.push_back(to_json(pair.second));
  return array;
}

// --- from JSON: false where the value does not fit ---

template <class T>
requires std::is_integral_v<T>
bool from_json(const json& value, T& result) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return false;
    result = value.get<bool>();
  } else if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return false;
    result = static_cast<T>(number);
  } else {
    if (!std::is_signed_v<T> || !value.is_number_integer()) return false;
    static_assert(!std::is_signed_v<T> || sizeof(T) == sizeof(std::int64_t));
    result = static_cast<T>(value.get<std::int64_t>());
  }
  return true;
}
bool from_json(const json& value, double& result) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (text != "nan" && text != "inf" && text != "-inf") return false;
    result = text == "nan" ? std::nan("") : std::numeric_limits<double>::infinity();
    if (text == "-inf") result = -result;
    return true;
  }
  if (!value.is_number()) return false;
  result = value.get<double>();
  return true;
}
bool from_json(const json& value, TapPoint& result) {
  std::uint32_t number = 0;
  if (!from_json(value, number) || number >= kTapPointCount) return false;
  result = static_cast<TapPoint>(number);
  return true;
}
bool from_json(const json& value, base::Hash128& result) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  if (text.size() != 32) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = hex_digit(text[i]);
    if (!digit) return false;
    std::uint64_t& half = i < 16 ? result.high : result.low;
    half = half << 4 | *digit;
  }
  return true;
}
bool from_json(const json& value, std::string& result) {
  if (value.is_string()) {
    result = value.get_ref<const std::string&>();
    return true;
  }
  if (!value.is_object() || value.size() != 1 || !value.contains("hex")) return false;
  const json& digits = value["hex"];
  if (!digits.is_string() || digits.get_ref<const std::string&>().size() % 2 != 0) return false;
  const std::string& text = digits.get_ref<const std::string&>();
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
    if (!high || !low) return false;
    result += static_cast<char>(*high << 4 | *low);
  }
  return !is_utf8(result);  // one way to write each text
}
template <class Tag>
bool from_json(const json& value, Id<Tag>& result) {
  if (value.is_number_integer() && !value.is_number_unsigned() && value.get<std::int64_t>() == -1) {
    result.value = kNoBlock.value;
    return true;
  }
  return from_json(value, result.value) && result.value != kNoBlock.value;
}
template <class T>
requires std::is_aggregate_v<T>
bool from_json(const json& value, T& result);
template <class T>
bool from_json(const json& value, std::optional<T>& result);
template <class T>
bool from_json(const json& value, std::vector<T>& result);
template <class A, class B>
bool from_json(const json& value, std::pair<A, B>& result);
// The fields from element `first` on; there are no others.
template <class T>
bool fields_from_json(const json& array, std::size_t first, T& result) {
  return with_fields(result, [&](auto&... field) {
    if (!array.is_array() || array.size() != first + sizeof...(field)) return false;
    std::size_t index = first;
    return (from_json(array[index++], field) && ...);
  });
}
template <class T>
requires std::is_aggregate_v<T>
bool from_json(const json& value, T& result) { return fields_from_json(value, 0, result); }
template <class T>
bool from_json(const json& value, std::optional<T>& result) {
  if (value.is_null()) return true;
  return from_json(value, result.emplace());
}
template <class T>
bool from_json(const json& value, std::vector<T>& result) {
  if (!value.is_array()) return false;
  result.reserve(value.size());
  for (const json& element : value) {
    if (!from_json(element, result.emplace_back())) return false;
  }
  return true;
}
template <class A, class B>
bool from_json(const json& value, std::pair<A, B>& result) {
  return value.is_array() && value.size() == 2 && from_json(value[0], result.first) &&
         from_json(value[1], result.second);
}

using Reader = bool (*)(const json&, Event&);

template <class T>
bool read_fields(const json& array, Event& result) {
  if constexpr (std::is_same_v<T, OpCompleted>) {
    return false;
  } else {
    T event;
    if (!fields_from_json(array, 1, event)) return false;
    result = std::move(event);
    return true;
  }
}

struct Kind {
  std::string_view name;
  Reader read;
};

template <class... T>
constexpr std::array<Kind, sizeof...(T)> all_kinds(const std::variant<T...>*) {
  return {Kind{kEventName<T>, &read_fields<T>}...};
}

constexpr auto kKinds = all_kinds(static_cast<const Event*>(nullptr));

}  // namespace

std::string_view name(const Event& event) { return kKinds.at(event.index()).name; }

bool is_stored(const Event& event) { return !std::holds_alternative<OpCompleted>(event); }

std::string write_event(const Event& event) {
  return std::visit(
      [&]<class T>(const T& one) -> std::string {
        if constexpr (std::is_same_v<T, OpCompleted>) {
          LS_CHECK(false, "an operation is no event of a trace file");
          return {};
        } else {
          json array = to_json(one);
          array.insert(array.begin(), name(event));
          return array.dump();
        }
      },
      event);
}

std::optional<Event> read_event(const json& array, std::string& problem) {
  if (!array.is_array() || array.empty() || !array[0].is_string()) {
    problem = "must be an array that begins with an event's name";
    return std::nullopt;
  }
  const std::string& word = array[0].get_ref<const std::string&>();
  for (const Kind& kind : kKinds) {
    if (kind.name != word) continue;
    Event event;
    if (kind.read(array, event)) return event;
    problem = "the fields of " + word + " are not those of the format";
    return std::nullopt;
  }
  problem = "no event is called `" + word.substr(0, 40) + "`";
  return std::nullopt;
}

}  // namespace lockstep::trace
