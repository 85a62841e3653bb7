// From balls to trace::Expected: rule 2. A rounding of known bits is an equality; a rounding of a
// ball allows all that its interval rounds to.
#pragma once

#include <cstddef>

#include "reference/value.h"
#include "trace/op_call.h"

namespace lockstep::reference {

inline void resize(trace::Expected& expected, std::size_t count) {
  expected.want.resize(count);
  expected.low.resize(count);
  expected.high.resize(count);
}

// The result x, rounded to `format` where that is narrower than f32. An f32 result's own rounding
// is part of its radius.
inline void set(trace::Expected& expected, std::size_t index, const Ball& x, model::DType format) {
  if (format == model::DType::F32) {
    const Interval e = ends(x);
    expected.want[index] = x.value;
    expected.low[index] = e.low;
    expected.high[index] = e.high;
    return;
  }
  const Interval rounded = round_interval(format, x);
  expected.want[index] = round_to(format, x.value);
  expected.low[index] = rounded.low;
  expected.high[index] = rounded.high;
}

}  // namespace lockstep::reference
