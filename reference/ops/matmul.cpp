// Matrix products over panels of widened weights.
#include "reference/ops/matmul.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "reference/ops/matmul_functions.h"

namespace lockstep::reference::baseline {
namespace {
constexpr std::size_t kLanes = 2, kTileRows = 2, kTileOutputs = 1, kTileOutputsOfOneRow = 2;
#include "reference/ops/matmul.inc"
}  // namespace
}  // namespace lockstep::reference::baseline

LS_TARGET_BEGIN_AVX2
namespace lockstep::reference::avx2 {
namespace {
constexpr std::size_t kLanes = 4, kTileRows = 2, kTileOutputs = 3, kTileOutputsOfOneRow = 4;
#include "reference/ops/matmul.inc"
}  // namespace
}  // namespace lockstep::reference::avx2
LS_TARGET_END

LS_TARGET_BEGIN_AVX512
namespace lockstep::reference::avx512 {
namespace {
constexpr std::size_t kLanes = 8, kTileRows = 4, kTileOutputs = 4, kTileOutputsOfOneRow = 8;
#include "reference/ops/matmul.inc"
}  // namespace
}  // namespace lockstep::reference::avx512
LS_TARGET_END

namespace lockstep::reference {

MatmulFunction matmul_function(HostVectors vectors) {
  switch (vectors) {
    case HostVectors::Baseline:
      return baseline::matmul_loops;
    case HostVectors::Avx2:
      return avx2::matmul_loops;
    case HostVectors::Avx512:
      return avx512::matmul_loops;
  }
  LS_CHECK(false);
}

namespace {

// Widened weights that stay in the second-level cache while the rows of x pass by; for one row, in
// the first level, and at least 8 outputs to have sums in flight.
constexpr std::size_t kPanelBytes = 256 << 10;
constexpr std::size_t kPanelBytesOfOneRow = 32 << 10;
// Outputs that one task takes at least; below that, starting it costs more than it computes.
constexpr std::size_t kTaskProducts = 1 << 18;

std::size_t padded(std::size_t inputs) { return (inputs + 7) / 8 * 8; }

void matmul_any(std::span<const double> x, std::size_t rows, const Weight& w, std::span<double> y,
                double* magnitude) {
  const std::size_t inputs = w.inputs();
  const std::size_t outputs = w.outputs();
  LS_CHECK(x.size() == rows * inputs && y.size() == rows * outputs);
  if (rows == 0) return;
  const std::size_t stride = padded(inputs);
  std::vector<double> padded_x(stride * rows);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(r * inputs), inputs,
                padded_x.begin() + static_cast<std::ptrdiff_t>(r * stride));
  }
  const std::size_t row_bytes = stride * sizeof(double);
  const std::size_t panel_outputs =
      std::max<std::size_t>(8, (rows == 1 ? kPanelBytesOfOneRow : kPanelBytes) / row_bytes);
  const std::size_t task_outputs =
      std::max(panel_outputs, kTaskProducts / std::max<std::size_t>(1, rows * inputs));
  const MatmulFunction loops = matmul_function(host_vectors());
  const auto task = [&](const tbb::blocked_range<std::size_t>& range) {
    std::vector<double> panel(panel_outputs * stride);
    for (std::size_t first = range.begin(); first < range.end(); first += panel_outputs) {
      const std::size_t count = std::min(panel_outputs, range.end() - first);
      for (std::size_t o = 0; o < count; ++o) {
        w.row(first + o, std::span(panel).subspan(o * stride, inputs));
      }
      loops({padded_x.data(), rows, panel.data(), count, stride, y.data() + first,
             magnitude == nullptr ? nullptr : magnitude + first, outputs});
    }
  };
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, outputs, task_outputs), task);
}

}  // namespace

void matmul(std::span<const double> x, std::size_t rows, const Weight& w, std::span<double> y) {
  matmul_any(x, rows, w, y, nullptr);
}

void matmul(std::span<const double> x, std::size_t rows, const Weight& w, std::span<double> y,
            std::span<double> magnitude) {
  LS_CHECK(magnitude.size() == y.size());
  matmul_any(x, rows, w, y, magnitude.data());
}

double matmul_relative_error(std::size_t inputs) {
  const double roundings = 1 + static_cast<double>(padded(inputs) / 8) + 3;
  // gamma / (1 - gamma) <= n u / (1 - 2 n u): the computed magnitude may be too small by gamma.
  const double nu = roundings * 0x1p-53;
  return nu / (1 - 3 * nu);
}

}  // namespace lockstep::reference
