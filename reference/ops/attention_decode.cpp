// Attention by its definition, and the radius of the decode contract (attention.h).
#include <algorithm>
#include <cmath>

#include "reference/ops/attention.h"

namespace lockstep::reference {

double dot(const double* a, const double* b, std::size_t n) {
  double part[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) part[j] += a[i + j] * b[i + j];
  }
  for (std::size_t j = 0; i + j < n; ++j) part[j] += a[i + j] * b[i + j];
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

double dot_magnitude(const double* a, const double* b, std::size_t n) {
  double part[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) part[j] += std::fabs(a[i + j] * b[i + j]);
  }
  for (std::size_t j = 0; i + j < n; ++j) part[j] += std::fabs(a[i + j] * b[i + j]);
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

DecodeRule decode_rule(const trace::Contract& contract) {
  DecodeRule rule;
  rule.depth_scores = contract.depth_scores;
  rule.depth_output = contract.depth_output;
  rule.depth_sum = contract.depth_sum;
  rule.split_keys = std::max(contract.split_keys, 1u);
  rule.rescales = contract.rescales;
  if (!contract.approximate.ex2) rule.ex2_error = 2 * kF32Unit;
  return rule;
}

namespace {

// What the keys' weights may be off by, relative (eta), and the constants of a row.
struct WeightErrors {
  std::vector<double> eta;
  double output_depth = 0, sum_depth = 0;
};

WeightErrors weight_errors(std::span<const double> q, double scale, const KeyRange& range,
                           const DecodeRule& rule, const std::vector<double>& scores) {
  const auto [lowest, highest] = std::minmax_element(scores.begin(), scores.end());
  const std::uint32_t last = range.first + range.count - 1;
  const double splits = last / rule.split_keys - range.first / rule.split_keys + 1;
  const double common = rule.ex2_error + rule.rescales * (rule.ex2_error + kF32Unit) +
                        kF32Unit * (*highest - *lowest);
  WeightErrors errors;
  errors.eta.resize(scores.size());
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const double magnitude =
        scale * dot_magnitude(q.data(), range.keys + j * range.stride, q.size());
    const double own = (static_cast<double>(q.size()) + 4) * kF64Unit * magnitude;
    const double delta =
        gamma(rule.depth_scores + 1.0) * magnitude + 3 * kF32Unit * std::fabs(scores[j]) + own;
    errors.eta[j] = delta + kF32Unit * std::fabs(scores[j] - *highest) + common;
  }
  errors.output_depth = rule.depth_output + splits + 1;
  errors.sum_depth = rule.depth_sum + splits + 1;
  return errors;
}

}  // namespace

template <class T>
void attend(std::span<const double> q, double scale, const KeyRange& range, const DecodeRule& rule,
            std::span<T> out) {
  const std::size_t n = range.count;
  std::vector<double> scores(n), weights(n);
  double highest = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < n; ++j) {
    scores[j] = scale * dot(q.data(), range.keys + j * range.stride, q.size());
    highest = std::max(highest, scores[j]);
  }
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) {
    weights[j] = std::exp(scores[j] - highest);
    sum += weights[j];
  }
  std::vector<double> mean(q.size(), 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    weights[j] /= sum;
    const double* row = range.values + j * range.stride;
    for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += weights[j] * row[d];
  }
  if constexpr (kIsBall<T>) {
    const WeightErrors errors = weight_errors(q, scale, range, rule, scores);
    std::vector<double> moved(q.size(), 0.0), magnitude(q.size(), 0.0), plain(q.size(), 0.0);
    for (std::size_t j = 0; j < n; ++j) {
      const double* row = range.values + j * range.stride;
      const double weight = weights[j];
      const double loss = weight * errors.eta[j];
      for (std::size_t d = 0; d < mean.size(); ++d) {
        moved[d] += loss * std::fabs(row[d] - mean[d]);
        magnitude[d] += weight * std::fabs(row[d]);
        plain[d] += std::fabs(row[d]);
      }
    }
    const double own = (static_cast<double>(n) + 16) * 4 * kF64Unit;
    for (std::size_t d = 0; d < mean.size(); ++d) {
      const double radius = 1.02 * moved[d] + (gamma(errors.output_depth) + own) * magnitude[d] +
                            (gamma(errors.sum_depth) + 3 * kF32Unit) * std::fabs(mean[d]) +
                            0x1p-126 * plain[d];
      out[d] = Ball{mean[d], radius};
    }
  } else {
    std::copy(mean.begin(), mean.end(), out.begin());
  }
}

template void attend<double>(std::span<const double>, double, const KeyRange&, const DecodeRule&,
                             std::span<double>);
template void attend<Ball>(std::span<const double>, double, const KeyRange&, const DecodeRule&,
                           std::span<Ball>);

}  // namespace lockstep::reference
