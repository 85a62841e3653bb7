#include "engine/models/rope_table.h"

#include <cmath>
#include <numbers>

namespace lockstep::engine {
namespace {

double scaled(double frequency, const model::RopeScaling& scaling) {
  switch (scaling.kind) {
    case model::RopeScalingKind::None:
      return frequency;
    case model::RopeScalingKind::Linear:
      return frequency / scaling.factor;
    case model::RopeScalingKind::Llama3:
      break;
  }
  // Llama 3.1: by wavelength against the original context length.
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double ratio = scaling.original_context_length / wavelength;
  if (ratio < scaling.low_frequency_factor) return frequency / scaling.factor;
  if (ratio > scaling.high_frequency_factor) return frequency;
  const double smooth = (ratio - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const model::ModelConfig& config,
                                     const model::LayerAttention& attention) {
  std::vector<double> frequencies(config.head_size / 2);
  for (std::uint32_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * i / config.head_size;
    frequencies[i] = scaled(std::pow(attention.rope_theta, exponent), attention.rope_scaling);
    if (!config.rope_frequency_divisors.empty())
      frequencies[i] /= config.rope_frequency_divisors[i];
  }
  return frequencies;
}

std::vector<float> rope_table(const std::vector<double>& frequencies, std::uint32_t positions) {
  std::vector<float> table;
  table.reserve(std::size_t{positions} * frequencies.size() * 2);
  for (std::uint32_t position = 0; position < positions; ++position) {
    for (const double frequency : frequencies) {
      table.push_back(static_cast<float>(std::cos(position * frequency)));
      table.push_back(static_cast<float>(std::sin(position * frequency)));
    }
  }
  return table;
}

}  // namespace lockstep::engine
