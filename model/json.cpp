// The parser is nlohmann's; the rules that it leaves open are checked on its events.
#include "model/json.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::model {
namespace {

using nlohmann::json;

// Builds the document from the parser's events, and stops it at the first broken rule.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(std::uint64_t depth_max) : depth_max_(depth_max) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary values are no JSON"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return !open_.back()->contains(key_) || fail("the key \"" + key_ + "\" occurs twice");
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    return fail(error.what());
  }

  json root;
  std::string problem;
  std::optional<std::uint64_t> position() const { return position_; }  // of a syntax error
  // JSON pointer of the value at hand, for the other problems.
  std::string pointer() const {
    std::string text;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const json& parent = *open_[i];
      if (parent.is_array()) {
        // The last element is open, or is yet to come.
        text += "/" + std::to_string(parent.size() - (i + 1 < open_.size() ? 1 : 0));
        continue;
      }
      std::string key = key_;
      for (const auto& [name, value] : parent.items()) {
        if (i + 1 < open_.size() && &value == open_[i + 1]) key = name;
      }
      text += "/";
      for (const char c : key) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    return text;
  }

 private:
  bool fail(std::string text) {
    if (problem.empty()) problem = std::move(text);
    return false;
  }
  json* place(json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    return &((*open_.back())[key_] = std::move(value));
  }
  template <class T>
  bool add(T&& value) {
    place(json(std::forward<T>(value)));
    return true;
  }
  bool open(json value) {
    if (open_.size() >= depth_max_) {
      return fail("nested deeper than the limit json_depth (" + std::to_string(depth_max_) + ")");
    }
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::uint64_t depth_max_;
  std::vector<json*> open_;
  std::string key_;
  std::optional<std::uint64_t> position_;
};

}  // namespace

base::Result<json> parse_json(std::string_view text, std::string_view file,
                              const base::Limits& limits, std::uint64_t base_offset) {
  if (text.size() > limits.json_bytes) {
    return base::input_error(std::string(file), base_offset, "JSON",
                             std::to_string(text.size()) + " bytes exceed the limit json_bytes (" +
                                 std::to_string(limits.json_bytes) + ")");
  }
  Builder builder(limits.json_depth);
  if (!json::sax_parse(text, &builder) || !builder.problem.empty()) {
    base::Error error = base::input_error(std::string(file), builder.problem);
    error.where = builder.position() ? "JSON" : builder.pointer();
    error.offset = base_offset + builder.position().value_or(0);
    return error;
  }
  return std::move(builder.root);
}

}  // namespace lockstep::model
