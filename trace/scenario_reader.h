// Reading JSON values by rule: each getter checks type and range and keeps the first problem, so
// that the code of the format reads as its table. Used by scenario_parse*.cpp only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace lockstep::trace {

// The first broken rule, and the first field that is not built. After a problem values are
// defaults, and go nowhere.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void fail(std::string pointer, std::string rule);
  // `pointer` names the field: "/requests/0/n" is also said as requests[0].n.
  void not_built(const std::string& pointer, const std::string& what = {});
  bool failed() const { return input_.has_value(); }
  // Input errors win: a file must be well formed before it asks for anything.
  std::optional<base::Error> first() const { return input_ ? input_ : unsupported_; }

 private:
  std::string file_;
  std::optional<base::Error> input_, unsupported_;
};

// "requests[0].n" of "/requests/0/n".
std::string field_name(std::string_view pointer);
// A value for messages: short, scalars as they stand, others by type.
std::string shown(const nlohmann::json& value);
// A segment of a JSON pointer (RFC 6901): ~ and / are escaped.
std::string pointer_segment(std::string_view key);

// A value of the document, or nothing where a field is absent.
class Field {
 public:
  Field(Problems& problems, const nlohmann::json* value, std::string pointer)
      : problems_(&problems), value_(value), pointer_(std::move(pointer)) {}

  bool present() const { return value_ != nullptr; }
  bool given() const { return value_ != nullptr && !value_->is_null(); }  // null: as if absent
  const nlohmann::json& value() const { return *value_; }
  const std::string& pointer() const { return pointer_; }
  Problems& problems() const { return *problems_; }

  void fail(std::string rule) const { problems_->fail(pointer_, std::move(rule)); }
  void not_built(const std::string& what = {}) const { problems_->not_built(pointer_, what); }

  // Absent fields give `absent`.
  std::uint64_t integer(std::uint64_t absent, std::uint64_t low, std::uint64_t high) const;
  std::int64_t signed_integer(std::int64_t absent, std::int64_t low, std::int64_t high) const;
  std::uint32_t count(std::uint32_t absent, std::uint64_t low, std::uint64_t high) const;
  double number(double absent, double low, double high) const;
  bool boolean(bool absent) const;
  std::string text(std::string absent, std::size_t low_bytes = 1,
                   std::size_t high_bytes = 256) const;
  template <class T>
  T choice(T absent, std::initializer_list<std::pair<const char*, T>> choices) const {
    if (!present()) return absent;
    if (value_->is_string()) {
      for (const auto& [word, result] : choices) {
        if (value_->get_ref<const std::string&>() == word) return result;
      }
    }
    std::string words;
    for (const auto& [word, result] : choices) {
      words += (words.empty() ? "`" : ", `") + std::string(word) + "`";
    }
    fail("must be one of " + words + ", not " + shown(*value_));
    return absent;
  }

  // The elements of a list of at most `high`; an empty one where absent or wrong.
  const nlohmann::json::array_t& list(std::uint64_t high) const;
  Field element(std::size_t index) const;
  // The field is there (`what` it must be); else a problem of the object around it.
  bool require(const char* what) const;

 private:
  bool fail_integer(const std::string& low, const std::string& high) const;

  Problems* problems_;
  const nlohmann::json* value_;
  std::string pointer_;
};

// An object with the fields that it may have.
class Object {
 public:
  Object(const Field& field, std::initializer_list<std::string_view> known)
      : Object(field, std::vector<std::string_view>(known)) {}
  Object(const Field& field, const std::vector<std::string_view>& known);
  Field operator[](std::string_view name) const;
  void fail(std::string rule) const { problems_->fail(pointer_, std::move(rule)); }

 private:
  Problems* problems_;
  const nlohmann::json* value_ = nullptr;  // null: not an object
  std::string pointer_;
};

// A key of an object of numbers, as a token id below `size`: decimal, without sign or zeros.
std::optional<std::uint32_t> token_of_key(std::string_view key, std::uint64_t size);

}  // namespace lockstep::trace
