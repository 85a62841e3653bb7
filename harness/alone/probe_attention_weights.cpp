// How queries weigh their keys: the recorded q and K, with V of which the weights can be read.
//
// V = 1 everywhere: a query's result is the sum of its weights over their sum, so it is 1 unless
// the denominator is another sum. One-hot V rows: channel c is the weight of the key whose V is 1
// there; the ratio of two weights is the exponential of the difference of their scores.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "harness/alone/probe.h"

namespace lockstep::harness {
namespace {

// The first element outside its interval.
std::optional<std::size_t> first_wrong(const Probed& probed) {
  for (std::size_t i = 0; i < probed.got[0].size(); ++i) {
    if (!probed.holds(0, i)) return i;
  }
  return std::nullopt;
}

std::string name_of(const RecordedOperation& operation, std::size_t index) {
  const std::size_t width = operation.call.writes[0].width, size = operation.config.head_size;
  const trace::RowId row = operation.call.writes[0].rows[index / width];
  std::string name = fmt::format("query {}", row.position);
  if (operation.config.head_count > 1) name += fmt::format(", head {},", index % width / size);
  return name;
}

base::Result<std::string> of_sums(const RecordedOperation& operation, const ProbeOn& on) {
  RecordedOperation asked = operation;
  trace::TapTensor& values = asked.call.reads[2];
  for (std::size_t row = 0; row < values.rows.size(); ++row) {
    for (std::size_t c = 0; c < values.width; ++c) set(values, row, c, 1);
  }
  LS_ASSIGN(const Probed probed, run_probe(asked, on));
  const auto wrong = first_wrong(probed);
  if (!wrong) return std::string();
  return fmt::format("the weights of {} add up to {:.6g}, not to 1", name_of(operation, *wrong),
                     probed.got[0][*wrong]);
}

// The query's heaviest and lightest key, of those whose weight is a number that can be divided.
std::string of_ratio(const RecordedOperation& operation, const Probed& probed, std::size_t wrong) {
  const std::size_t size = operation.config.head_size, head = wrong / size * size;
  const std::vector<double>&got = probed.got[0], &want = probed.expected[0].want;
  std::size_t high = wrong, low = wrong;
  for (std::size_t i = head; i < head + size; ++i) {
    if (!(got[i] > 0x1p-20) || !(want[i] > 0x1p-20)) continue;
    if (!(want[high] > 0) || want[i] > want[high]) high = i;
    if (!(want[low] > 0x1p-20) || want[i] < want[low]) low = i;
  }
  if (!(got[low] > 0) || !(want[low] > 0) || !(want[high] > want[low])) return {};
  const double is = std::log(got[high] / got[low]), must = std::log(want[high] / want[low]);
  return fmt::format(
      "{} weighs key {} to key {} as {:.6g} to 1; must be {:.6g}: scores times {:.5g}",
      name_of(operation, wrong), operation.call.reads[1].rows[high - head].position,
      operation.call.reads[1].rows[low - head].position, got[high] / got[low],
      want[high] / want[low], is / must);
}

}  // namespace

base::Result<std::string> probe_attention_weights(const RecordedOperation& operation,
                                                  const ProbeOn& on) {
  LS_ASSIGN(std::string sums, of_sums(operation, on));
  if (!sums.empty()) return sums;
  RecordedOperation asked = operation;
  trace::TapTensor& values = asked.call.reads[2];
  const std::size_t size = operation.config.head_size, cells = values.rows.size();
  if (cells > size) return std::string();
  values = zeros(values, values.rows);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    for (std::size_t c = cell; c < values.width; c += size) set(values, cell, c, 1);
  }
  LS_ASSIGN(const Probed probed, run_probe(asked, on));
  const auto wrong = first_wrong(probed);
  if (!wrong) return std::string();
  return of_ratio(operation, probed, *wrong);
}

}  // namespace lockstep::harness
