#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep::base {
namespace {
thread_local int subject_depth = 0;
}  // namespace

SubjectScope::SubjectScope() { ++subject_depth; }
SubjectScope::~SubjectScope() { --subject_depth; }
bool in_subject_scope() { return subject_depth > 0; }

void check_failed(const char* file, int line, const char* function, const char* expression,
                  const std::string& detail) {
  std::string text = std::string(file) + ":" + std::to_string(line) + " in " + function +
                     ": check failed: " + expression;
  if (!detail.empty()) text += " (" + detail + ")";
  if (subject_depth > 0) throw CheckFailure(file, line, function, text);
  std::fprintf(stderr, "lockstep: bug: %s\n", text.c_str());
  std::fflush(nullptr);
  std::_Exit(3);
}

}  // namespace lockstep::base
