// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): a counter-based generator. No state: equal
// key and counter give equal words.
#pragma once

#include <array>
#include <cstdint>

#include "trace/draw.h"

namespace lockstep::engine {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);
// trace/draw.h defines it.
double uniform(const trace::DrawAddress& address);

}  // namespace lockstep::engine
