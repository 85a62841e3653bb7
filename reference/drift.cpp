#include "reference/drift.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace lockstep::reference {

namespace {

// log of the sum of exponentials.
double log_sum(std::span<const double> values) {
  const double highest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - highest);
  return highest + std::log(sum);
}

}  // namespace

double relative_rms(std::span<const double> got, std::span<const double> want) {
  LS_CHECK(got.size() == want.size() && !want.empty());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  if (size == 0) return std::sqrt(difference / static_cast<double>(want.size()));
  return std::sqrt(difference / size);
}

double kl_divergence(std::span<const double> want, std::span<const double> got) {
  LS_CHECK(got.size() == want.size() && !want.empty());
  const double want_log = log_sum(want);
  const double got_log = log_sum(got);
  double sum = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double log_p = want[i] - want_log;
    const double p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - (got[i] - got_log));
  }
  return std::max(sum, 0.0);  // its own rounding may leave it below
}

std::vector<std::uint32_t> top_k(std::span<const double> values, std::size_t k) {
  std::vector<std::uint32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0u);
  k = std::min(k, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(k), ids.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      return values[a] != values[b] ? values[a] > values[b] : a < b;
                    });
  ids.resize(k);
  return ids;
}

void Drift::add_residual(std::uint32_t layer, trace::RowId row, std::span<const double> got,
                         std::span<const double> want) {
  residuals_[layer].push_back({row, relative_rms(got, want)});
}

void Drift::add_logits(std::span<const double> got, std::span<const double> want) {
  LS_CHECK(got.size() == want.size() && !want.empty());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(got[i] - want[i]);
    squares_ += difference * difference;
    max_ = std::max(max_, difference);
  }
  count_ += want.size();
  const double kl = kl_divergence(want, got);
  kl_sum_ += kl;
  kl_max_ = std::max(kl_max_, kl);
  std::vector<std::uint32_t> want_ids = top_k(want, 5);
  std::vector<std::uint32_t> got_ids = top_k(got, 5);
  if (want_ids[0] == got_ids[0]) ++top1_;
  std::sort(want_ids.begin(), want_ids.end());
  std::sort(got_ids.begin(), got_ids.end());
  if (want_ids == got_ids) ++top5_;
  ++rows_;
}

std::map<std::uint32_t, LayerDrift> Drift::layers() const {
  std::map<std::uint32_t, LayerDrift> all;
  for (const auto& [layer, residuals] : residuals_) {
    std::vector<Residual> sorted = residuals;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Residual& a, const Residual& b) { return a.relative < b.relative; });
    const std::size_t n = sorted.size();
    all[layer] = {(sorted[(n - 1) / 2].relative + sorted[n / 2].relative) / 2,
                  sorted.back().relative, sorted.back().row, n};
  }
  return all;
}

LogitDrift Drift::logits() const {
  LogitDrift figures;
  if (rows_ == 0) return figures;
  figures.rms = std::sqrt(squares_ / static_cast<double>(count_));
  figures.max = max_;
  figures.kl_mean = kl_sum_ / static_cast<double>(rows_);
  figures.kl_max = kl_max_;
  figures.rows = rows_;
  figures.top1_equal = top1_;
  figures.top5_equal = top5_;
  return figures;
}

}  // namespace lockstep::reference
