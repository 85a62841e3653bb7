// Attention of the prefill contract: tiles with a running maximum, P rounded to 16 bits.
//
//   t_j = s_j c, c = fl(scale log2 e); m: running maximum at the end of the key's tile
//   eta_j = ln2 (r_s c + r_m + 2 u (|t| + |m| + |t - m|)) + 2^-22
//   P_j = RN of the ball 2^(t - m) (1 +- eta_j): only straddlers keep a radius rho_j
//   G_j = 2^(m - m_end), w_j = G_j P_j, W = sum w_j
//   c_j = later rescales (2^-22 + u) + 2 ln2 u |m_end - m| + ln2 (r_m + r_m_end + 2 u (|m| +
//   |m_end|))
// (the last part, where a later tile may raise the maximum: the computed maxima of two tiles are
// off by different amounts, which no common factor absorbs).
//   radius = 1.02 sum (G_j rho_j + w_j c_j) |v - o| / W
//          + [tiles (blocks ((L + 1) 2^-F + 2^-23) + u)] sum w |v| / W
//          + (S + tiles + 1) u |o| + 2^-126 sum |v|
// Where l sums the f32 p instead: rho_j acts on |v|, and |o| sum p_j eta_j is added.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "reference/ops/attention.h"

namespace lockstep::reference {

namespace {

// A maximum of uncertain values.
struct UncertainMaximum {
  double value = -std::numeric_limits<double>::infinity();
  double low = value, high = value;
  void include(double x, double radius) {
    value = std::max(value, x);
    low = std::max(low, x - radius);
    high = std::max(high, x + radius);
  }
  double radius() const { return std::max(high - value, value - low); }
};

struct Tile {
  std::size_t begin = 0, end = 0;  // of the range's rows
  UncertainMaximum maximum;        // running, this tile's keys included
  bool may_raise = false;          // against the tile before
};

std::vector<Tile> cut_in_tiles(const std::vector<double>& t, const std::vector<double>& radii,
                               std::uint32_t first, std::uint32_t tile_keys) {
  std::vector<Tile> tiles;
  UncertainMaximum running;
  for (std::size_t j = 0; j < t.size();) {
    const std::uint32_t position = first + static_cast<std::uint32_t>(j);
    const std::size_t left_in_tile = tile_keys - position % tile_keys;
    Tile tile{j, std::min(t.size(), j + left_in_tile), {}, false};
    UncertainMaximum own;
    for (; j < tile.end; ++j) own.include(t[j], radii[j]);
    // t itself is rounded twice.
    const double slack = 2 * kF32Unit * (std::fabs(own.high) + std::fabs(running.low));
    tile.may_raise = !tiles.empty() && own.high + slack > running.low;
    running.value = std::max(running.value, own.value);
    running.low = std::max(running.low, own.low);
    running.high = std::max(running.high, own.high);
    tile.maximum = running;
    tiles.push_back(tile);
  }
  return tiles;
}

// Of one key: weight in O, weight in l, and their errors.
struct Key {
  double weight = 0;      // G P
  double sum_weight = 0;  // what l adds: G P, or G p
  double rho = 0;         // G rho
  double shared = 0;      // w c
  double eta = 0;         // G p eta
};

std::vector<Key> key_weights(const std::vector<double>& t, const std::vector<double>& score_radii,
                             const std::vector<Tile>& tiles, const PrefillRule& rule) {
  const double ln2 = std::numbers::ln2;
  const UncertainMaximum& end = tiles.back().maximum;
  std::vector<Key> keys(t.size());
  double later = 0;
  for (std::size_t i = tiles.size(); i-- > 0;) {
    const Tile& tile = tiles[i];
    const double m = tile.maximum.value;
    const double growth = std::exp2(m - end.value);
    double shared = 0;
    if (later > 0) {
      shared = later * (rule.ex2_error + kF32Unit) + 2 * ln2 * kF32Unit * (end.value - m) +
               ln2 * (tile.maximum.radius() + end.radius() +
                      2 * kF32Unit * (std::fabs(m) + std::fabs(end.value)));
    }
    for (std::size_t j = tile.begin; j < tile.end; ++j) {
      const double x = t[j] - m;
      const double p = std::exp2(x);
      const double eta = ln2 * (score_radii[j] + tile.maximum.radius() +
                                2 * kF32Unit * (std::fabs(t[j]) + std::fabs(m) + std::fabs(x))) +
                         rule.ex2_error + 0x1p-50;
      const Ball rounded = round_to(rule.probability_format, Ball{p, p * eta});
      const double weight = growth * rounded.value;
      keys[j] = {weight, rule.sum_of_rounded ? weight : growth * p, growth * rounded.radius,
                 weight * shared, growth * p * eta};
    }
    if (tile.may_raise) later += 1;
  }
  return keys;
}

// Sums over keys that the radius needs, per element of the head.
struct Sums {
  std::vector<double> moved, magnitude, plain, straddling;
};

Sums radius_sums(const std::vector<Key>& keys, const KeyRange& range, std::span<const double> o,
                 bool sum_of_rounded) {
  Sums sums;
  for (auto* part : {&sums.moved, &sums.magnitude, &sums.plain, &sums.straddling}) {
    part->assign(o.size(), 0.0);
  }
  for (std::size_t j = 0; j < keys.size(); ++j) {
    const double* row = range.values + j * range.stride;
    const double centred = keys[j].shared + (sum_of_rounded ? keys[j].rho : 0);
    const double absolute = sum_of_rounded ? 0 : keys[j].rho;
    for (std::size_t d = 0; d < o.size(); ++d) {
      sums.moved[d] += centred * std::fabs(row[d] - o[d]);
      sums.magnitude[d] += keys[j].weight * std::fabs(row[d]);
      sums.plain[d] += std::fabs(row[d]);
      sums.straddling[d] += absolute * std::fabs(row[d]);
    }
  }
  return sums;
}

}  // namespace

PrefillRule prefill_rule(const trace::Contract& contract, const trace::TensorCoreInfo& info) {
  PrefillRule rule;
  rule.tile_keys = std::max(contract.tile_keys, 1u);
  rule.probability_format = contract.probability_format;
  rule.sum_of_rounded = contract.sum_of_rounded_probabilities;
  if (!contract.approximate.ex2) rule.ex2_error = 2 * kF32Unit;
  const std::uint32_t block = std::min(info.products, contract.mma_k);
  const std::uint32_t instructions = (rule.tile_keys + contract.mma_k - 1) / contract.mma_k;
  rule.tile_blocks = instructions * ((contract.mma_k + block - 1) / block);
  rule.block_error = (block + 1.0) * std::exp2(-static_cast<double>(info.fraction_bits)) + 0x1p-23;
  return rule;
}

template <class T>
void attend_prefill(std::span<const double> scores, std::span<const double> score_radii,
                    double scale, const KeyRange& range, const PrefillRule& rule,
                    std::span<T> out) {
  const std::size_t n = range.count;
  LS_CHECK(scores.size() == n && n > 0 && rule.tile_keys > 0);
  const double c = scale * std::numbers::log2e;
  std::vector<double> t(n), radii(n, 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    t[j] = scores[j] * c;
    if constexpr (kIsBall<T>) radii[j] = score_radii[j] * std::fabs(c);
  }
  const std::vector<Tile> tiles = cut_in_tiles(t, radii, range.first, rule.tile_keys);
  const std::vector<Key> keys = key_weights(t, radii, tiles, rule);
  double sum = 0;
  std::vector<double> mean(out.size(), 0.0);
  for (std::size_t j = 0; j < n; ++j) {
    sum += keys[j].sum_weight;
    const double* row = range.values + j * range.stride;
    for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += keys[j].weight * row[d];
  }
  for (double& element : mean) element /= sum;
  if constexpr (kIsBall<T>) {
    const Sums sums = radius_sums(keys, range, mean, rule.sum_of_rounded);
    const double tile_count = static_cast<double>(tiles.size());
    const double product = tile_count * (rule.tile_blocks * rule.block_error + kF32Unit);
    const double own = (static_cast<double>(n) + 16) * 4 * kF64Unit;
    double unrounded = 0;
    if (!rule.sum_of_rounded) {
      for (const Key& key : keys) unrounded += key.eta / sum;
    }
    for (std::size_t d = 0; d < mean.size(); ++d) {
      const double radius =
          1.02 * (sums.moved[d] + sums.straddling[d]) / sum +
          (product + own) * sums.magnitude[d] / sum +
          ((static_cast<double>(n) + tile_count + 1) * kF32Unit + unrounded) * std::fabs(mean[d]) +
          0x1p-126 * sums.plain[d];
      out[d] = Ball{mean[d], radius};
    }
  } else {
    std::copy(mean.begin(), mean.end(), out.begin());
  }
}

template void attend_prefill<double>(std::span<const double>, std::span<const double>, double,
                                     const KeyRange&, const PrefillRule&, std::span<double>);
template void attend_prefill<Ball>(std::span<const double>, std::span<const double>, double,
                                   const KeyRange&, const PrefillRule&, std::span<Ball>);

}  // namespace lockstep::reference
