// Error: the input or the environment is wrong. Result<T>: a T or an Error.
//
// An Error is a value; nothing throws it. Its kind decides the exit status: Input 2,
// Environment and Unsupported 4 (nothing was checked).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace lockstep::base {

enum class ErrorKind {
  Input,        // bad usage or a bad file
  Environment,  // no such device, a missing tool, no memory
  Unsupported,  // well formed, but not built: `where` names the field
};

struct Error {
  ErrorKind kind = ErrorKind::Input;
  std::string file;                          // path, option or device; empty if none
  std::optional<std::uint64_t> offset = {};  // bytes from the start of the file
  std::string where = {};                    // tensor, key, JSON pointer, line; empty if none
  std::string rule = {};                     // what must hold, and what was found instead
  // "FILE: offset N: WHERE: RULE", parts that are empty left out.
  std::string message() const;
  int exit_status() const { return kind == ErrorKind::Input ? 2 : 4; }
};

inline Error input_error(std::string file, std::string rule) {
  return {.kind = ErrorKind::Input, .file = std::move(file), .rule = std::move(rule)};
}
inline Error input_error(std::string file, std::uint64_t offset, std::string where,
                         std::string rule) {
  return {ErrorKind::Input, std::move(file), offset, std::move(where), std::move(rule)};
}
inline Error environment_error(std::string what, std::string rule) {
  return {.kind = ErrorKind::Environment, .file = std::move(what), .rule = std::move(rule)};
}
inline Error unsupported_error(std::string file, std::string where, std::string rule) {
  return {ErrorKind::Unsupported, std::move(file), {}, std::move(where), std::move(rule)};
}

struct Ok {};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & {
    LS_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    LS_CHECK(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    LS_CHECK(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const {
    LS_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).message(); }
  std::variant<T, Error> state_;
};

using Status = Result<Ok>;

}  // namespace lockstep::base

#define LS_CONCAT_INNER(a, b) a##b
#define LS_CONCAT(a, b) LS_CONCAT_INNER(a, b)
// LS_TRY(expression): returns its Error from the calling function.
#define LS_TRY(expression)                                                   \
  do {                                                                       \
    if (auto ls_status = (expression); !ls_status) return ls_status.error(); \
  } while (false)
// LS_ASSIGN(auto x, expression): x = value, or return the Error.
#define LS_ASSIGN(declaration, expression) \
  LS_ASSIGN_INNER(LS_CONCAT(ls_result_, __LINE__), declaration, expression)
#define LS_ASSIGN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                            \
  if (!temporary) return temporary.error();                 \
  declaration = std::move(temporary).value()
