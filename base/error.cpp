#include "base/error.h"

namespace lockstep::base {

std::string Error::message() const {
  std::string text;
  auto append = [&text](const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += ": ";
    text += part;
  };
  append(file);
  if (offset) append("offset " + std::to_string(*offset));
  append(where);
  append(rule);
  return text;
}

}  // namespace lockstep::base
