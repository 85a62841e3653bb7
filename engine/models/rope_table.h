// RoPE tables: cos and sin of position times frequency, computed in double and rounded once.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace lockstep::engine {

// Angle a position adds for each pair i < head_size / 2: theta^(-2 i / head_size), scaled as the
// layer says (linear: divided by the factor; llama3: low frequencies divided by the factor, high
// ones kept, linear between by wavelength), divided by the file's explicit divisors if any.
std::vector<double> rope_frequencies(const model::ModelConfig& config,
                                     const model::LayerAttention& attention);

// [positions, head_size / 2, 2]: cos, sin.
std::vector<float> rope_table(const std::vector<double>& frequencies, std::uint32_t positions);

}  // namespace lockstep::engine
