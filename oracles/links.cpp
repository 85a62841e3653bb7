// links: what an operation read is, bit for bit, what the producer that the reference's graph names
// wrote. Without it a wrong page, layer, row or head could pass every bound.
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "oracles/findings.h"
#include "oracles/oracle.h"
#include "oracles/values.h"

namespace lockstep::oracles {
namespace {

using trace::OpCompleted;
using trace::TapTensor;

class Links : public Oracle {
 public:
  std::string_view law() const override { return "links"; }

  void on_event(const trace::Event& event) override {
    const auto* done = std::get_if<OpCompleted>(&event);
    if (!done) return;
    for (const TapTensor& operand : done->reference.operands) judge(*done, operand);
  }

  Verdict finish(const std::vector<Verdict>&) override {
    Verdict verdict = verdict_of(law(), checked_, "rows", findings_, "no operand was tapped");
    if (verdict.kind == VerdictKind::Pass) verdict.where = "each operand is its producer's output";
    return verdict;
  }

 private:
  void judge(const OpCompleted& done, const TapTensor& operand) {
    const TapTensor* read = nullptr;
    for (const TapTensor& candidate : done.call.reads) {
      if (candidate.point == operand.point) read = &candidate;
    }
    if (!read || read->dtype != operand.dtype || read->width != operand.width) {
      findings_.add(key(done, operand), "the operation read no such operand", where(done, {}));
      return;
    }
    checked_ += operand.rows.size();
    if (read->rows == operand.rows && read->bytes == operand.bytes) return;
    std::map<trace::RowId, std::size_t> index;
    for (std::size_t i = 0; i < read->rows.size(); ++i) index[read->rows[i]] = i;
    const std::size_t size = row_bytes(operand);
    for (std::size_t i = 0; i < operand.rows.size(); ++i) {
      const auto found = index.find(operand.rows[i]);
      if (found == index.end()) {
        findings_.add(key(done, operand),
                      text(operand.rows[i], operand, "the operation cannot reach it"),
                      where(done, operand.rows[i]));
      } else if (std::memcmp(operand.bytes.data() + i * size,
                             read->bytes.data() + found->second * size, size) != 0) {
        findings_.add(key(done, operand),
                      text(operand.rows[i], operand, "read bits are not the written ones"),
                      where(done, operand.rows[i]));
      }
    }
  }

  static std::string key(const OpCompleted& done, const TapTensor& operand) {
    return fmt::format("links.{}.{}", trace::name(done.call.contract.op),
                       trace::name(operand.point));
  }
  static std::string text(trace::RowId row, const TapTensor& operand, const char* what) {
    return fmt::format("{} of layer {}, prompt {}, position {}: {}", trace::name(operand.point),
                       operand.layer.value, row.request.value + 1, row.position, what);
  }
  static Where where(const OpCompleted& done, trace::RowId row) {
    return {row.request.value,
            done.call.layer.value,
            std::string(trace::name(done.call.contract.op)),
            row.position,
            {}};
  }

  FindingList findings_;
  std::uint64_t checked_ = 0;
};

}  // namespace

std::unique_ptr<Oracle> links() { return std::make_unique<Links>(); }

}  // namespace lockstep::oracles
