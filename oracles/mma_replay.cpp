// mma_replay: a sample of tensor-core outputs, replayed block by block from their known operands in
// the declared order of this generation: one right bit pattern each.
#include <fmt/format.h>

#include <bit>

#include "oracles/findings.h"
#include "oracles/oracle.h"

namespace lockstep::oracles {
namespace {

class MmaReplay : public Oracle {
 public:
  std::string_view law() const override { return "mma_replay"; }

  void on_event(const trace::Event& event) override {
    const auto* done = std::get_if<trace::OpCompleted>(&event);
    if (!done) return;
    for (const trace::ReplaySample& sample : done->reference.replayed) {
      ++checked_;
      if (sample.want_bits != sample.got_bits) report(*done, sample);
    }
  }

  Verdict finish(const std::vector<Verdict>&) override {
    Verdict verdict =
        verdict_of(law(), checked_, "outputs", findings_, "no tensor-core output was tapped");
    if (verdict.kind == VerdictKind::Pass) verdict.where = "bits as this generation computes them";
    return verdict;
  }

 private:
  void report(const trace::OpCompleted& done, const trace::ReplaySample& sample) {
    const std::string op(trace::name(done.call.contract.op));
    bool is_new = false;
    Finding& finding = findings_.add("mma_replay." + op, is_new);
    if (!is_new) return;
    const trace::RowId row = done.call.writes.front().rows[sample.row];
    finding.where = {row.request.value, done.call.layer.value, op, row.position, sample.column};
    finding.got = std::bit_cast<float>(sample.got_bits);
    finding.want = std::bit_cast<float>(sample.want_bits);
    finding.bound = 0;
    finding.message = fmt::format(
        "layer {} {}, prompt {}, position {}, channel {}: bits {:08x}, "
        "replayed {:08x}",
        done.call.layer.value, op, row.request.value + 1, row.position, sample.column,
        sample.got_bits, sample.want_bits);
    finding.operation = std::make_shared<trace::OpCompleted>(done);
  }

  FindingList findings_;
  std::uint64_t checked_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> mma_replay() { return std::make_unique<MmaReplay>(); }

}  // namespace lockstep::oracles
