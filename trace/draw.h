// DrawAddress: what names a random draw. The same address gives the same uniform alone, in any
// batch, after preemption and chunking. Its function is written twice: engine/sample and reference.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/ids.h"

namespace lockstep::trace {

enum class DrawPurpose : std::uint8_t {
  Sample = 0,
  Accept = 1,
  Residual = 2,
  Bonus = 3,
  Draft = 4
};
std::string_view name(DrawPurpose purpose);  // "sample"

struct DrawAddress {
  std::uint64_t seed = 0;      // of the request
  std::uint64_t position = 0;  // of the drawn token in the whole sequence, prompt included
  DrawPurpose purpose = DrawPurpose::Sample;
  std::uint32_t candidate = 0;  // sample of `n`, or tree node
  friend bool operator==(const DrawAddress&, const DrawAddress&) = default;
};

// The uniform of an address, by definition (both sides implement it): Philox4x32-10 (Salmon,
// Moraes, Dror, Shaw, SC 2011) with
//   key     = { low 32 bits of seed, high 32 bits of seed }
//   counter = { low 32 bits of position, high 32 bits of position, purpose, candidate }
// and output words r0 .. r3: u = ((r0 * 2^32 + r1) >> 11) * 2^-53, in [0, 1).

}  // namespace lockstep::trace
