// Which channels the sum of squares of a norm has, and where its epsilon stands.
//
// Rows that are 1 at one channel: a channel that is not in the sum is divided by sqrt(epsilon)
// alone. A row whose mean square is far below epsilon: what it is divided by is epsilon's doing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/alone/probe.h"

namespace lockstep::harness {
namespace {

using trace::RowId;

constexpr std::uint64_t kChannelsMax = 1024;

RecordedOperation with_rows(const RecordedOperation& operation, std::uint32_t count) {
  RecordedOperation asked = operation;
  std::vector<RowId> rows;
  for (std::uint32_t i = 0; i < count; ++i) rows.push_back({{i}, 0});
  asked.call.reads[0] = zeros(operation.call.reads[0], rows);
  asked.call.writes[0] = zeros(operation.call.writes[0], rows);
  return asked;
}

// Half a unit in the last place, relative.
double rounding(model::DType dtype) {
  return dtype == model::DType::F32 ? 0x1p-24 : dtype == model::DType::F16 ? 0x1p-11 : 0x1p-8;
}

// A divisor `value` in place of the right one explains the element: within its own interval, and
// what the format rounds off of the two results.
bool explains(const Probed& probed, std::size_t index, double right, double value) {
  const double factor = right / value, got = probed.got[0][index];
  double low = probed.expected[0].low[index] * factor;
  double high = probed.expected[0].high[index] * factor;
  if (low > high) std::swap(low, high);
  const double rounded = 2 * rounding(probed.call.writes[0].dtype) * std::fabs(got);
  return low - rounded <= got && got <= high + rounded;
}

base::Result<std::string> probe_epsilon(const RecordedOperation& operation, const ProbeOn& on) {
  const double epsilon = static_cast<float>(operation.config.rms_norm_epsilon);
  if (!(epsilon > 0x1p-40) || epsilon > 1) return std::string();
  // All channels the same power of two: its square is the mean, exactly.
  const double x = std::ldexp(1.0, std::ilogb(std::sqrt(epsilon)) - 5), mean = x * x;
  RecordedOperation asked = with_rows(operation, 1);
  for (std::uint32_t c = 0; c < asked.call.reads[0].width; ++c) set(asked.call.reads[0], 0, c, x);
  LS_ASSIGN(const Probed probed, run_probe(asked, on));
  if (probed.holds()) return std::string();
  std::size_t index = 0;
  const std::vector<double>& want = probed.expected[0].want;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::fabs(want[i]) > std::fabs(want[index])) index = i;
  }
  const double right = std::sqrt(mean + epsilon);
  const struct {
    double divisor;
    const char* meaning;
  } guesses[] = {{std::sqrt(mean) + epsilon, "sqrt(mean) + epsilon"},
                 {std::sqrt(mean), "sqrt(mean), without epsilon"},
                 {std::sqrt(mean) + std::sqrt(epsilon), "sqrt(mean) + sqrt(epsilon)"},
                 {std::sqrt(mean + epsilon * epsilon), "sqrt(mean + epsilon^2)"}};
  const std::string head = fmt::format("a row of mean square {:.3g} is divided by ", mean);
  const std::string tail =
      fmt::format("; must be sqrt(mean + epsilon) = {:.4g}, epsilon {:.3g}", right, epsilon);
  for (const auto& guess : guesses) {
    if (explains(probed, index, right, guess.divisor)) {
      return head + fmt::format("{} = {:.4g}", guess.meaning, guess.divisor) + tail;
    }
  }
  if (probed.got[0][index] == 0) return head + "infinity" + tail;
  return head + fmt::format("{:.4g}", right * want[index] / probed.got[0][index]) + tail;
}

// What is to be said of channels: those that are missing; else that a result is another.
struct Channels {
  std::string missing, other;
};
base::Result<Channels> probe_channels(const RecordedOperation& operation, const ProbeOn& on) {
  Channels found;
  const std::uint32_t width = operation.call.reads[0].width;
  if (width > kChannelsMax) return found;
  const double epsilon = static_cast<float>(operation.config.rms_norm_epsilon);
  RecordedOperation asked = with_rows(operation, width);
  for (std::uint32_t c = 0; c < width; ++c) set(asked.call.reads[0], c, c, 1);
  LS_ASSIGN(const Probed probed, run_probe(asked, on));
  const double right = std::sqrt(1.0 / width + epsilon);
  std::vector<std::uint64_t> missing, wrong;
  for (std::uint32_t c = 0; c < width; ++c) {
    const std::size_t at = std::size_t{c} * width + c;
    if (probed.holds(0, at)) continue;
    wrong.push_back(at);
    // Infinite where epsilon is 0, or where the format ends.
    const bool lone = explains(probed, at, right, std::sqrt(epsilon));
    if (lone || !std::isfinite(probed.got[0][at])) missing.push_back(c);
  }
  if (!missing.empty()) {
    found.missing = fmt::format("{} of {} {} not in the sum of squares",
                                list_of(missing, "channel", "channels"), width,
                                missing.size() == 1 ? "is" : "are");
  }
  if (wrong.empty()) return found;
  const double got = probed.got[0][wrong.front()];
  found.other = fmt::format(
      "a row that is 1 at channel {} and 0 elsewhere gives {:.6g} there; must be {:.6g}",
      wrong.front() / width, got, probed.expected[0].want[wrong.front()]);
  return found;
}

}  // namespace

base::Result<std::string> probe_norm(const RecordedOperation& operation, const ProbeOn& on) {
  LS_ASSIGN(const Channels channels, probe_channels(operation, on));
  if (!channels.missing.empty()) return channels.missing;
  LS_ASSIGN(const std::string line, probe_epsilon(operation, on));
  if (!line.empty()) return line;
  if (!channels.other.empty()) return channels.other;
  return std::string("probe shows the right channels and epsilon; the numbers differ");
}

}  // namespace lockstep::harness
