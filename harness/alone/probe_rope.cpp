// With which channel each channel of a head is rotated, and by which position.
//
// Rows that are 1 at one channel of each head: after rotation that channel and its partner are not
// 0, all others are exactly 0. V cells only change their format: the same one channel.
#include <fmt/format.h>

#include "harness/alone/probe.h"
#include "harness/subjects/engine_subject.h"
#include "reference/local.h"

namespace lockstep::harness {
namespace {

using trace::RowId;
using trace::TapTensor;

constexpr std::uint64_t kElementsMax = 1 << 22;  // of q

class RopeProbe {
 public:
  explicit RopeProbe(const RecordedOperation& operation)
      : operation_(operation), size_(operation.config.head_size) {
    // Position 0 turns nothing.
    const trace::Position recorded = operation.call.writes.front().rows.front().position;
    position_ = std::max<trace::Position>(1, recorded);
    if (position_ + 1 >= operation.config.context_length) position_ = recorded;
    set_rows(operation_.call.reads);
    set_rows(operation_.call.writes);
    for (TapTensor& tap : operation_.call.reads) {
      for (std::uint32_t row = 0; row < size_; ++row) {
        for (std::uint32_t c = row; c < tap.width; c += size_) set(tap, row, c, 1);
      }
    }
  }

  base::Result<std::string> run(const ProbeOn& on) const {
    LS_ASSIGN(const Probed probed, run_probe(operation_, on));
    for (std::size_t write = 0; write < probed.got.size(); ++write) {
      if (std::string line = of_channels(probed, write); !line.empty()) return line;
    }
    if (probed.holds()) {
      return fmt::format(
          "probe shows the right pairs of channels at position {}; the numbers differ", position_);
    }
    return of_positions(probed, on);
  }

 private:
  void set_rows(std::vector<TapTensor>& taps) const {
    std::vector<RowId> rows;
    for (std::uint32_t i = 0; i < size_; ++i) rows.push_back({{i}, position_});
    for (TapTensor& tap : taps) tap = zeros(tap, rows);
  }

  // Which channels of one head are not 0, got and must.
  std::string of_channels(const Probed& probed, std::size_t write) const {
    const TapTensor& tap = probed.call.writes[write];
    const trace::Expected& expected = probed.expected[write];
    for (std::uint32_t row = 0; row < size_; ++row) {
      for (std::uint32_t head = 0; head < tap.width / size_; ++head) {
        std::vector<std::uint64_t> got, want;
        bool differs = false;
        for (std::uint32_t c = 0; c < size_; ++c) {
          const std::size_t at = std::size_t{row} * tap.width + head * size_ + c;
          const bool must = expected.low[at] > 0 || expected.high[at] < 0;
          const bool must_not = expected.low[at] == 0 && expected.high[at] == 0;
          const bool has = probed.got[write][at] != 0;
          differs |= (has && must_not) || (!has && must);
          if (has && (c != row || write == 2)) got.push_back(c);
          if (must && c != row) want.push_back(c);
        }
        if (!differs) continue;
        if (write == 2) {
          return fmt::format("V channel {} goes to {}", row, list_of(got, "channel", "channels"));
        }
        const std::string name = write == 0 ? "q" : "k";
        return fmt::format("{} channel {} is rotated with {}; must be {}", name, row,
                           list_of(got, "channel", "channels"),
                           list_of(want, "channel", "channels"));
      }
    }
    return {};
  }

  // The results are those of another position.
  base::Result<std::string> of_positions(const Probed& probed, const ProbeOn& on) const {
    LS_ASSIGN(const trace::DeviceInfo info, device_info(on.device));
    const model::Model part = part_of_model(operation_);
    for (const trace::Position other : {position_ + 1, position_ - 1, trace::Position{0}}) {
      if (other == position_ || other >= operation_.config.context_length) continue;
      trace::OpCall call = probed.call;
      for (auto* taps : {&call.reads, &call.writes}) {
        for (TapTensor& tap : *taps) {
          for (RowId& row : tap.rows) row.position = other;
        }
      }
      const trace::OpReference reference =
          reference::LocalReference::judge_alone(part, info, operation_.seed, call);
      if (!reference.computed) continue;
      const Probed shifted{call, probed.got, reference.expected};
      if (shifted.holds()) {
        return fmt::format("position {} is rotated as position {}", position_, other);
      }
    }
    return fmt::format("probe shows the right pairs of channels; the angles of position {} differ",
                       position_);
  }

  RecordedOperation operation_;
  const std::uint32_t size_;
  trace::Position position_ = 1;
};

}  // namespace

base::Result<std::string> probe_rope(const RecordedOperation& operation, const ProbeOn& on) {
  const std::uint64_t size = operation.config.head_size;
  if (size * size * operation.config.head_count > kElementsMax) return std::string();
  return RopeProbe(operation).run(on);
}

}  // namespace lockstep::harness
