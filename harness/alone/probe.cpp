#include "harness/alone/probe.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "oracles/values.h"

namespace lockstep::harness {
namespace {

using model::DType;
using trace::Op;

// Exact values only: powers of two (and zero) that all three formats hold.
std::uint16_t half_bits(double value) {
  if (value == 0) return 0;
  const int exponent = std::ilogb(value);
  LS_CHECK(value > 0 && value == std::ldexp(1.0, exponent) && exponent >= -14 && exponent <= 15);
  return static_cast<std::uint16_t>((exponent + 15) << 10);
}

base::Result<std::string> probe_of(const RecordedOperation& operation, const ProbeOn& on) {
  switch (operation.call.contract.op) {
    case Op::AttentionPrefill:
    case Op::AttentionDecode:
      return probe_attention(operation, on);
    case Op::Gemm:
    case Op::Gemv:
    case Op::EmbedRows:
      return probe_weight(operation, on);
    case Op::RmsNorm:
      return probe_norm(operation, on);
    case Op::RopeKvWrite:
      return probe_rope(operation, on);
    case Op::Gate:
    case Op::ResidualAdd:
    case Op::Argmax:
      return std::string();  // element by element, or one number: nothing to tell apart
  }
  LS_CHECK(false);
}

}  // namespace

std::string probe(const RecordedOperation& operation, const ProbeOn& on) {
  const base::Result<std::string> line = probe_of(operation, on);
  return line ? *line : std::string();
}

bool Probed::holds() const {
  for (std::size_t write = 0; write < got.size(); ++write) {
    for (std::size_t i = 0; i < got[write].size(); ++i) {
      if (!holds(write, i)) return false;
    }
  }
  return true;
}

base::Result<Probed> run_probe(const RecordedOperation& operation, const ProbeOn& on) {
  LS_TRY(check_operation(operation, "the probe"));
  Probed probed;
  std::string reason = "the kernel did not run";
  LS_TRY(run_judged(operation, on.device, on.runner, [&](const trace::Event& event) {
    const auto* done = std::get_if<trace::OpCompleted>(&event);
    if (done == nullptr) return;
    reason = done->reference.reason;
    probed = {done->call, {}, done->reference.expected};
    for (const trace::TapTensor& tap : done->call.writes) {
      probed.got.push_back(oracles::values_of(tap));
    }
  }));
  if (!reason.empty()) return base::input_error("the probe", reason);
  return probed;
}

trace::TapTensor zeros(const trace::TapTensor& like, std::vector<trace::RowId> rows) {
  trace::TapTensor tap = like;
  tap.rows = std::move(rows);
  tap.bytes.assign(like.bytes.size() / like.rows.size() * tap.rows.size(), std::byte{0});
  return tap;
}

void set(trace::TapTensor& tap, std::size_t row, std::size_t column, double value) {
  const std::size_t at = row * tap.width + column;
  if (tap.dtype == DType::F32) {
    const auto single = static_cast<float>(value);
    LS_CHECK(single == value);
    std::memcpy(tap.bytes.data() + at * sizeof single, &single, sizeof single);
    return;
  }
  std::uint16_t bits = 0;
  if (tap.dtype == DType::F16) {
    bits = half_bits(value);
  } else {
    LS_CHECK(tap.dtype == DType::BF16);
    const auto single = static_cast<float>(value);
    std::uint32_t word = 0;
    std::memcpy(&word, &single, sizeof word);
    LS_CHECK(single == value && (word & 0xffff) == 0);
    bits = static_cast<std::uint16_t>(word >> 16);
  }
  std::memcpy(tap.bytes.data() + at * sizeof bits, &bits, sizeof bits);
}

std::string list_of(const std::vector<std::uint64_t>& numbers, const char* one, const char* many) {
  constexpr std::size_t kShown = 4;
  if (numbers.empty()) return fmt::format("no {}", one);
  std::vector<std::string> runs;
  std::size_t named = 0;
  for (std::size_t i = 0; i < numbers.size() && runs.size() < kShown;) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i <= 2) end = i + 1;  // two that follow are no range
    runs.push_back(end - i == 1 ? fmt::format("{}", numbers[i])
                                : fmt::format("{} to {}", numbers[i], numbers[end - 1]));
    named += end - i;
    i = end;
  }
  if (named < numbers.size()) runs.push_back(fmt::format("{} more", numbers.size() - named));
  std::string text = numbers.size() == 1 ? one : many;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    text += (i == 0 ? " " : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  }
  return text;
}

}  // namespace lockstep::harness
