#include "trace/draw.h"

namespace lockstep::trace {

std::string_view name(DrawPurpose purpose) {
  switch (purpose) {
    case DrawPurpose::Sample:
      return "sample";
    case DrawPurpose::Accept:
      return "accept";
    case DrawPurpose::Residual:
      return "residual";
    case DrawPurpose::Bonus:
      return "bonus";
    case DrawPurpose::Draft:
      return "draft";
  }
  return "";
}

}  // namespace lockstep::trace
