// Each law on hand-made events: what passes, what it must find and under which key, and that
// nothing (no data, a NaN) passes unseen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "oracles/oracle.h"

namespace lockstep::oracles {
namespace {

using trace::OpCompleted;
using trace::RequestId;
using trace::TapPoint;
using trace::TapTensor;

TapTensor tap(TapPoint point, const std::vector<float>& values, std::uint32_t layer = 0) {
  TapTensor tensor{
      point, {layer}, model::DType::F32, static_cast<std::uint32_t>(values.size()), {{{0}, 3}}, {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

OpCompleted completed(const std::vector<float>& got, const std::vector<double>& want,
                      double radius) {
  OpCompleted done;
  done.call.contract.op = trace::Op::Gate;
  done.call.contract.kernel = "gate_silu";
  done.call.writes = {tap(TapPoint::Act, got)};
  done.reference.computed = true;
  trace::Expected expected{want, want, want};
  for (double& low : expected.low) low -= radius;
  for (double& high : expected.high) high += radius;
  done.reference.expected = {expected};
  return done;
}

Verdict judge(std::unique_ptr<Oracle> law, const std::vector<trace::Event>& events,
              const std::vector<Verdict>& earlier = {}) {
  for (const trace::Event& event : events) law->on_event(event);
  return law->finish(earlier);
}

std::string first_key(const Verdict& verdict) {
  return verdict.findings.empty() ? std::string() : verdict.findings.front().key;
}

TEST(OpBounds, PassesInsideAndReportsTheWorstRatio) {
  const Verdict verdict = judge(op_bounds(), {completed({1, 2}, {1, 2.25}, 0.5)});
  EXPECT_EQ(verdict.kind, VerdictKind::Pass);
  EXPECT_EQ(verdict.checked, 2u);
  EXPECT_EQ(verdict.worst, 0.5);
}

TEST(OpBounds, NamesTheFirstValueOutside) {
  const Verdict verdict = judge(op_bounds(), {completed({1, 3}, {1, 2}, 0.5)});
  ASSERT_EQ(first_key(verdict), "op_bounds.gate");
  const Finding& finding = verdict.findings.front();
  EXPECT_EQ(finding.where.index, 1u);
  EXPECT_EQ(finding.where.position, 3u);
  EXPECT_EQ(finding.ratio, 2.0);
  EXPECT_EQ(finding.count, 1u);
  ASSERT_NE(finding.operation, nullptr);
}

TEST(OpBounds, ANaNIsOutsideOfEveryInterval) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(judge(op_bounds(), {completed({nan}, {0}, 1e30)}).kind, VerdictKind::Finding);
  EXPECT_EQ(judge(op_bounds(), {completed({0}, {std::nan("")}, 1)}).kind, VerdictKind::Finding);
  EXPECT_EQ(judge(op_bounds(), {completed({0}, {0}, std::nan(""))}).kind, VerdictKind::Finding);
}

TEST(OpBounds, WhereNothingIsAllowedARatioIsNone) {
  const Verdict verdict = judge(op_bounds(), {completed({1}, {2}, 0)});
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_FALSE(verdict.findings.front().ratio.has_value());
}

TEST(OpBounds, WithoutAReferenceItIsNotApplicable) {
  OpCompleted done = completed({1}, {1}, 0);
  done.reference.computed = false;
  done.reference.reason = "no tap";
  const Verdict verdict = judge(op_bounds(), {done});
  EXPECT_EQ(verdict.kind, VerdictKind::NotApplicable);
  EXPECT_EQ(verdict.reason, "no tap");
  EXPECT_EQ(verdict.written, 1u);
  EXPECT_EQ(judge(op_bounds(), {}).kind, VerdictKind::NotApplicable);
}

OpCompleted linked(const TapTensor& read, const TapTensor& operand) {
  OpCompleted done = completed({1}, {1}, 0);
  done.call.reads = {read};
  done.reference.operands = {operand};
  return done;
}

TEST(Links, ReadBitsAreWrittenBits) {
  const TapTensor written = tap(TapPoint::Gate, {1, 2});
  EXPECT_EQ(judge(links(), {linked(written, written)}).kind, VerdictKind::Pass);
  EXPECT_EQ(first_key(judge(links(), {linked(tap(TapPoint::Gate, {1, 2.5f}), written)})),
            "links.gate.gate");
  // -0 and +0 are other bits.
  EXPECT_EQ(
      judge(links(), {linked(tap(TapPoint::Gate, {-0.0f}), tap(TapPoint::Gate, {0.0f}))}).kind,
      VerdictKind::Finding);
}

TEST(Links, ARowThatTheOperationCannotReachIsAFinding) {
  TapTensor operand = tap(TapPoint::KCell, {1});
  TapTensor read = operand;
  read.rows.front().position = 4;
  EXPECT_EQ(first_key(judge(links(), {linked(read, operand)})), "links.gate.k_cell");
  OpCompleted none = linked(read, operand);
  none.call.reads.clear();
  EXPECT_EQ(judge(links(), {none}).kind, VerdictKind::Finding);
}

TEST(MmaReplay, OtherBitsAreAFinding) {
  OpCompleted done = completed({1}, {1}, 0);
  done.reference.replayed = {{0, 0, 0x3f800000, 0x3f800000}};
  EXPECT_EQ(judge(mma_replay(), {done}).kind, VerdictKind::Pass);
  done.reference.replayed.front().got_bits ^= 1;
  EXPECT_EQ(first_key(judge(mma_replay(), {done})), "mma_replay.gate");
  EXPECT_EQ(judge(mma_replay(), {}).kind, VerdictKind::NotApplicable);
}

std::vector<trace::Event> flip(double margin, double sigma) {
  return {trace::TokenSampled{{0}, 5, 1, 1}, trace::TokenReferenced{{0}, 5, 2, margin, sigma}};
}
Verdict earlier(const char* law, VerdictKind kind) {
  Verdict verdict;
  verdict.law = law;
  verdict.kind = kind;
  if (kind == VerdictKind::Finding) {
    verdict.findings.emplace_back();
    verdict.findings.back().key = std::string(law) + ".x";
  }
  return verdict;
}

TEST(TokenIdentity, AFlipWithinTenSigmaIsANearTieOnlyIfEveryOperationPassed) {
  const std::vector<Verdict> passed{earlier("op_bounds", VerdictKind::Pass)};
  const std::vector<Verdict> failed{earlier("op_bounds", VerdictKind::Finding)};
  EXPECT_EQ(judge(token_identity(), flip(0.9, 0.1), passed).kind, VerdictKind::Pass);
  EXPECT_EQ(first_key(judge(token_identity(), flip(1.1, 0.1), passed)),
            "token_identity.unexplained");
  EXPECT_EQ(first_key(judge(token_identity(), flip(0.9, 0.1), failed)), "token_identity.wrong");
  EXPECT_EQ(first_key(judge(token_identity(), flip(std::nan(""), 0.1), passed)),
            "token_identity.unexplained");
  EXPECT_EQ(judge(token_identity(), {flip(0, 1).front()}).kind, VerdictKind::NotApplicable);
}

TEST(BatchInvariance, OtherBitsAloneAreAFinding) {
  trace::Scenario scenario;
  scenario.requests.resize(2);
  for (const bool same : {true, false}) {
    std::unique_ptr<Oracle> law = batch_invariance();
    const std::vector<FurtherRun> runs = law->further_runs(scenario);
    ASSERT_EQ(runs.size(), 3u);  // each alone, and all in chunks
    ASSERT_EQ(runs[1].requests, std::vector<std::uint32_t>{1});
    const trace::RowHashed row{{{1}, 4}, {2}, TapPoint::Logits, {5, 6}};
    law->on_event(row);
    trace::RowHashed alone = row;
    alone.row.request = {0};  // the only request of its run
    if (!same) alone.hash.low ^= 1;
    law->on_further_event(1, alone);
    const Verdict verdict = law->finish({});
    EXPECT_EQ(verdict.kind, same ? VerdictKind::Pass : VerdictKind::Finding);
    EXPECT_EQ(first_key(verdict), same ? "" : "batch_invariance.logits");
  }
}

TEST(BatchInvariance, TheFirstOperationThatDiffersIsTheOneFinding) {
  trace::Scenario scenario;
  scenario.requests.resize(1);
  std::unique_ptr<Oracle> law = batch_invariance();
  ASSERT_EQ(law->further_runs(scenario).size(), 1u);
  const auto operation = [](trace::Op op) {
    trace::OpCompleted done = completed({1}, {1}, 0);
    done.call.contract.op = op;
    return done;
  };
  const trace::RowHashed attention{{{0}, 4}, {2}, TapPoint::Attn, {5, 6}};
  const trace::RowHashed logits{{{0}, 4}, {0}, TapPoint::Logits, {7, 8}};
  for (const trace::RowHashed& row : {attention, logits}) {
    law->on_event(row);
    trace::RowHashed other = row;
    other.hash.low ^= 1;
    law->on_further_event(0, other);
    law->on_further_event(
        0, operation(row.point == TapPoint::Attn ? trace::Op::AttentionDecode : trace::Op::Gemv));
  }
  const Verdict verdict = law->finish({});
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(first_key(verdict), "batch_invariance.attention_decode");
  EXPECT_EQ(verdict.findings.front().count, 2u);
  EXPECT_EQ(verdict.findings.front().notes.back(), "after it   1 other operation: gemv");
}

// A request that takes page 7, writes positions 0 and 1 and reads them.
std::vector<trace::Event> sound_pages() {
  return {trace::PagesTaken{{0}, {{7}}},
          trace::CellWritten{{0}, {{0}, 0}, {7}, 0},
          trace::CellWritten{{0}, {{0}, 1}, {7}, 1},
          trace::CellsRead{{0}, {0}, {{7}}, 4, 2},
          trace::PoolBalance{8, 7, 1},
          trace::PagesReturned{{0}, {{7}}}};
}

TEST(KvPages, PassesASoundRun) {
  const Verdict verdict = judge(kv_pages(), sound_pages());
  EXPECT_EQ(verdict.kind, VerdictKind::Pass);
  EXPECT_EQ(verdict.where, "1 of 8 pages at most, all returned");
}

TEST(KvPages, EachMisuseHasItsKey) {
  const auto with = [](std::size_t index, trace::Event event) {
    std::vector<trace::Event> events = sound_pages();
    events[index] = std::move(event);
    return first_key(judge(kv_pages(), events));
  };
  EXPECT_EQ(with(2, trace::CellWritten{{0}, {{0}, 1}, {6}, 1}), "kv_pages.write_foreign");
  EXPECT_EQ(with(2, trace::CellWritten{{0}, {{0}, 2}, {7}, 1}), "kv_pages.read_foreign");
  EXPECT_EQ(with(3, trace::CellsRead{{0}, {0}, {{7}}, 4, 3}), "kv_pages.read_unwritten");
  EXPECT_EQ(with(3, trace::CellsRead{{0}, {0}, {}, 4, 2}), "kv_pages.read_missing");
  EXPECT_EQ(with(4, trace::PagesTaken{{1}, {{7}}}), "kv_pages.double_take");
  EXPECT_EQ(with(4, trace::PoolBalance{8, 8, 0}), "kv_pages.balance");
  EXPECT_EQ(with(4, trace::PagesReturned{{1}, {{7}}}), "kv_pages.double_return");
  EXPECT_EQ(with(5, trace::PoolBalance{8, 7, 1}), "kv_pages.not_returned");
}

TEST(KvPages, OfARunThatWasBrokenOffNothingNeedsToComeBack) {
  std::vector<trace::Event> events = sound_pages();
  events.back() = trace::DeviceReported{"racecheck", "shared", "k", "a race", "k.cu:3", "", 1};
  EXPECT_EQ(first_key(judge(kv_pages(), events)), "");
  events.back() = trace::SubjectFailed{"engine/a.cpp", "f", "m"};
  EXPECT_EQ(first_key(judge(kv_pages(), events)), "");
}

TEST(DeviceChecks, ADiagnosticIsAFindingAndNoCheckIsNotAPass) {
  trace::DeviceReported report{"racecheck", "shared", "k", "a race", "k.cu:3", "k.cu:5", 4};
  const Verdict verdict = judge(device_checks(), {report, trace::DeviceCounted{1, 1, 100}});
  EXPECT_EQ(first_key(verdict), "device_checks.racecheck.shared");
  EXPECT_EQ(verdict.findings.front().count, 4u);
  EXPECT_EQ(judge(device_checks(), {trace::DeviceCounted{1, 1, 100}}).kind, VerdictKind::Pass);
  EXPECT_EQ(judge(device_checks(), {trace::DeviceCounted{1, 1, 0}}).kind,
            VerdictKind::NotApplicable);
}

TEST(SubjectChecks, AFailedInvariantIsAFinding) {
  EXPECT_EQ(first_key(judge(subject_checks(), {trace::SubjectFailed{"engine/a.cpp", "f", "m"}})),
            "check:engine/a.cpp:f");
}

}  // namespace
}  // namespace lockstep::oracles
