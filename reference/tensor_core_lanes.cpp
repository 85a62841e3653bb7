// Balls of all outputs of a matrix product, 8 outputs at a time.
#include "reference/tensor_core_lanes.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "reference/tensor_core.h"

namespace lockstep::reference::baseline {
namespace {
constexpr std::size_t kLanes = 2, kTileRows = 2;
#include "reference/tensor_core_lanes.inc"
}  // namespace
}  // namespace lockstep::reference::baseline

LS_TARGET_BEGIN_AVX2
namespace lockstep::reference::avx2 {
namespace {
constexpr std::size_t kLanes = 4, kTileRows = 4;
#include "reference/tensor_core_lanes.inc"
}  // namespace
}  // namespace lockstep::reference::avx2
LS_TARGET_END

LS_TARGET_BEGIN_AVX512
namespace lockstep::reference::avx512 {
namespace {
constexpr std::size_t kLanes = 8, kTileRows = 4;
#include "reference/tensor_core_lanes.inc"
}  // namespace
}  // namespace lockstep::reference::avx512
LS_TARGET_END

namespace lockstep::reference {

const TensorCoreLoops& tensor_core_loops(HostVectors vectors) {
  static constexpr TensorCoreLoops kBaseline{baseline::ball_tile, baseline::block_facts};
  static constexpr TensorCoreLoops kAvx2{avx2::ball_tile, avx2::block_facts};
  static constexpr TensorCoreLoops kAvx512{avx512::ball_tile, avx512::block_facts};
  switch (vectors) {
    case HostVectors::Baseline:
      return kBaseline;
    case HostVectors::Avx2:
      return kAvx2;
    case HostVectors::Avx512:
      return kAvx512;
  }
  LS_CHECK(false);
}

namespace {

// Where each k goes: segments one after another, each padded to whole blocks.
struct Layout {
  std::vector<KSegment> segments;
  std::vector<std::size_t> first_block;  // of each segment
  std::size_t products = 16, blocks = 0, k = 0;
  std::size_t stride() const { return blocks * products; }
};

Layout make_layout(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                   std::size_t k) {
  Layout layout;
  layout.segments = k_segments(contract, k);
  layout.products = block_products(info, contract.mma_k);
  layout.k = k;
  for (const KSegment& segment : layout.segments) {
    layout.first_block.push_back(layout.blocks);
    layout.blocks += (segment.count + layout.products - 1) / layout.products;
  }
  return layout;
}

// Rows of x, padded, with their blocks' facts.
struct PackedRows {
  std::vector<double> values, tops, lows;
  std::vector<double> largest;  // of each row's tops
};

PackedRows pack_rows(const Layout& layout, std::span<const double> x, std::size_t rows,
                     double least) {
  PackedRows packed;
  packed.values.resize(rows * layout.stride());
  packed.tops.resize(rows * layout.blocks);
  packed.lows.resize(rows * layout.blocks, kNoBits);
  packed.largest.resize(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t s = 0; s < layout.segments.size(); ++s) {
      for (std::size_t i = 0; i < layout.segments[s].count; ++i) {
        const double value = x[r * layout.k + layout.segments[s].first + i];
        const std::size_t block = layout.first_block[s] + i / layout.products;
        packed.values[r * layout.stride() + layout.first_block[s] * layout.products + i] = value;
        if (value == 0) continue;
        double& top = packed.tops[r * layout.blocks + block];
        double& low = packed.lows[r * layout.blocks + block];
        top = std::max(top, std::max(power_of_two_below(value), least));
        low = std::min(low, lowest_bit(value));
        packed.largest[r] = std::max(packed.largest[r], top);
      }
    }
  }
  return packed;
}

// Rows of w [count <= 8, k] -> [stride, 8], zeros where there is no row.
void pack_outputs(const Layout& layout, const double* w, std::size_t count, double* packed) {
  for (std::size_t s = 0; s < layout.segments.size(); ++s) {
    const double* from = w + layout.segments[s].first;
    double* to = packed + layout.first_block[s] * layout.products * 8;
    for (std::size_t i = 0; i < layout.segments[s].count; ++i) {
      for (std::size_t o = 0; o < count; ++o) to[8 * i + o] = from[o * layout.k + i];
    }
  }
}

// What all groups of 8 outputs share.
struct BallJob {
  const trace::Contract& contract;
  const trace::TensorCoreInfo& info;
  Layout layout;
  std::span<const double> x;
  std::size_t rows = 0, outputs = 0;
  PackedRows packed;
  std::span<double> value, radius;
};

// Memory that one task uses for all its groups.
struct GroupBuffers {
  explicit GroupBuffers(const BallJob& job)
      : w(job.layout.stride() * 8),
        tops(job.layout.blocks * 8),
        lows(job.layout.blocks * 8),
        sums(job.rows * 8),
        radii(job.rows * 8),
        lowest(job.rows * 8),
        totals(job.rows * 8) {}
  std::vector<double> w, tops, lows, sums, radii, lowest;
  std::vector<ChainState> totals;
};

// Outputs whose running sums may leave float32's range, one by one.
ChainState scalar_output(const BallJob& job, std::size_t row, const double* w) {
  ChainState total;
  for (std::size_t s = 0; s < job.layout.segments.size(); ++s) {
    const KSegment& segment = job.layout.segments[s];
    const std::span<const double> a(job.x.data() + row * job.layout.k + segment.first,
                                    segment.count);
    const std::span<const double> b(w + segment.first, segment.count);
    const ChainState part =
        chain_of_values(job.info, job.contract.input_format, job.contract.mma_k, a, b, 0);
    total = s == 0 ? part : added_segment(total, part);
  }
  return total;
}

void segment_tile(const BallJob& job, std::size_t segment, GroupBuffers& buffers) {
  const std::size_t first = job.layout.first_block[segment];
  const std::size_t end = segment + 1 < job.layout.segments.size()
                              ? job.layout.first_block[segment + 1]
                              : job.layout.blocks;
  TensorCoreTile tile;
  tile.x = {job.packed.values.data(), job.packed.tops.data(), job.packed.lows.data()};
  tile.w = {buffers.w.data(), buffers.tops.data(), buffers.lows.data()};
  tile.rows = job.rows;
  tile.stride = job.layout.stride();
  tile.blocks = job.layout.blocks;
  tile.first_block = first;
  tile.segment_blocks = end - first;
  tile.products = job.layout.products;
  tile.fraction = std::ldexp(1.0, -static_cast<int>(job.info.fraction_bits));
  tile.least = std::ldexp(1.0, std::max(job.info.exponent_floor, -126));
  tile.sums = buffers.sums.data();
  tile.radii = buffers.radii.data();
  tile.lowest = buffers.lowest.data();
  tensor_core_loops(host_vectors()).tile(tile);
}

// Outputs [first, first + count), count <= 8, with weights w [count, k].
void ball_group(const BallJob& job, std::size_t first, std::size_t count, const double* w,
                GroupBuffers& buffers) {
  pack_outputs(job.layout, w, count, buffers.w.data());
  tensor_core_loops(host_vectors())
      .block_facts(buffers.w.data(), job.layout.blocks, job.layout.products,
                   least_normal(job.contract.input_format), buffers.tops.data(),
                   buffers.lows.data());
  for (std::size_t s = 0; s < job.layout.segments.size(); ++s) {
    segment_tile(job, s, buffers);
    for (std::size_t i = 0; i < job.rows * 8; ++i) {
      const ChainState part{buffers.sums[i], buffers.radii[i], buffers.lowest[i]};
      buffers.totals[i] = s == 0 ? part : added_segment(buffers.totals[i], part);
    }
  }
  const double w_largest = *std::max_element(buffers.tops.begin(), buffers.tops.end());
  const double terms = 4 * static_cast<double>(job.layout.stride());
  for (std::size_t r = 0; r < job.rows; ++r) {
    // Below 2^127 in sum, no running sum and no radius comes near 2^128.
    const bool in_range = terms * w_largest * job.packed.largest[r] < 0x1p127;
    for (std::size_t o = 0; o < count; ++o) {
      const ChainState state =
          in_range ? buffers.totals[r * 8 + o] : scalar_output(job, r, w + o * job.layout.k);
      job.value[r * job.outputs + first + o] = state.sum;
      job.radius[r * job.outputs + first + o] =
          std::isfinite(state.sum) ? state.radius : std::numeric_limits<double>::infinity();
    }
  }
}

// `weights(first, count, out)` writes rows of w to out [count, k].
template <class Weights>
void all_balls(const trace::Contract& contract, const trace::TensorCoreInfo& info,
               std::span<const double> x, std::size_t rows, std::size_t outputs, std::size_t k,
               std::span<double> value, std::span<double> radius, const Weights& weights) {
  LS_CHECK(contract.input_format == contract.weight_format);
  LS_CHECK(x.size() == rows * k && value.size() == rows * outputs && radius.size() == value.size());
  BallJob job{contract, info, make_layout(contract, info, k), x, rows, outputs, {}, value, radius};
  job.packed = pack_rows(job.layout, x, rows, least_normal(contract.input_format));
  const std::size_t groups = (outputs + 7) / 8;
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, groups, 4),
                    [&](const tbb::blocked_range<std::size_t>& range) {
                      GroupBuffers buffers(job);
                      std::vector<double> w(8 * k);
                      for (std::size_t g = range.begin(); g < range.end(); ++g) {
                        const std::size_t count = std::min<std::size_t>(8, outputs - 8 * g);
                        weights(8 * g, count, std::span(w).first(count * k));
                        if (count < 8) std::fill(buffers.w.begin(), buffers.w.end(), 0.0);
                        ball_group(job, 8 * g, count, w.data(), buffers);
                      }
                    });
}

}  // namespace

void tensor_core_products(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                          std::span<const double> x, std::size_t rows, std::span<const double> w,
                          std::size_t outputs, std::size_t k, std::span<double> value,
                          std::span<double> radius) {
  LS_CHECK(w.size() == outputs * k);
  all_balls(contract, info, x, rows, outputs, k, value, radius,
            [&](std::size_t first, std::size_t count, std::span<double> out) {
              std::copy_n(w.data() + first * k, count * k, out.data());
            });
}

void tensor_core_products(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                          std::span<const double> x, std::size_t rows, const Weight& w,
                          std::span<double> value, std::span<double> radius) {
  LS_CHECK(w.precision() == (contract.weight_format == model::DType::F16 ? WeightPrecision::F16
                                                                         : WeightPrecision::BF16));
  all_balls(contract, info, x, rows, w.outputs(), w.inputs(), value, radius,
            [&](std::size_t first, std::size_t count, std::span<double> out) {
              w.rows(first, count, out);
            });
}

}  // namespace lockstep::reference
