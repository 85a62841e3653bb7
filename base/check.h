// LS_CHECK: states what must hold if lockstep itself is right (arguments, results, invariants).
//
// It is on in every build. It never validates input: a file's or a user's numbers end in an
// `Error` (base/error.h). A failed check ends the program with exit status 3, unless the calling
// thread runs a subject (engine, device, launcher): then it throws `CheckFailure`, which the
// subject's owner turns into a finding `check:<file>:<function>`.
#pragma once

#include <stdexcept>
#include <string>

namespace lockstep::base {

struct CheckFailure : std::runtime_error {
  CheckFailure(std::string file_in, int line_in, std::string function_in, std::string what_in)
      : std::runtime_error(std::move(what_in)),
        file(std::move(file_in)),
        line(line_in),
        function(std::move(function_in)) {}
  std::string file;  // from the root of the project
  int line;
  std::string function;
};

// While one of these lives, a failed check on this thread throws instead of ending the program.
class SubjectScope {
 public:
  SubjectScope();
  ~SubjectScope();
  SubjectScope(const SubjectScope&) = delete;
  SubjectScope& operator=(const SubjectScope&) = delete;
};
bool in_subject_scope();

[[noreturn]] void check_failed(const char* file, int line, const char* function,
                               const char* expression, const std::string& detail = {});

}  // namespace lockstep::base

// LS_CHECK(condition) or LS_CHECK(condition, text)
#define LS_CHECK(condition, ...)                                      \
  (static_cast<bool>(condition)                                       \
       ? void(0)                                                      \
       : ::lockstep::base::check_failed(__FILE__, __LINE__, __func__, \
                                        #condition __VA_OPT__(, ) __VA_ARGS__))
