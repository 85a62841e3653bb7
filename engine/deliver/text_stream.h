// TextStream: a request's output tokens as text that is never taken back. Token ids below 256 are
// bytes, others have no text (docs/scenario.md). What may still be part of a character is held
// back.
#pragma once

#include <string>

#include "trace/ids.h"

namespace lockstep::engine {

class TextStream {
 public:
  // Text that became certain by this token, UTF-8, U+FFFD for each maximal invalid part.
  std::string push(trace::TokenId token);
  // The rest at the end of the output: an unfinished character is U+FFFD.
  std::string finish();

 private:
  std::string pending_;  // an unfinished character
};

}  // namespace lockstep::engine
