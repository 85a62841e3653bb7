// An operation cut out of a run, through a file, alone: the bits of the run; and what a file may
// not say.
#include "harness/commands/replay_operation.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "harness/alone/tiny_run_test.h"
#include "harness/subjects/op_subject.h"

namespace lockstep::harness {
namespace {

using model::DType;
using trace::Op;

struct Case {
  const char* device;
  model::Arch arch;
  DType weights, operands;
};

TinyRun run_tiny(const Case& of) {
  return run_tiny_model(tiny_options(of.arch, of.weights), of.device, of.operands,
                        device::ApproximationMode::Hashed);
}

RecordedOperation through_a_file(const RecordedOperation& operation) {
  oracles::Finding finding;
  finding.key = "op_bounds.x";
  const auto bytes = trace::encode_trace(trace_of(operation, finding), "test.lstrace").value();
  const trace::Trace read = trace::decode_trace(bytes, "test.lstrace").value();
  EXPECT_TRUE(holds_operation(read));
  return operation_of(read, "test.lstrace").value();
}

class OperationAlone : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Runs, OperationAlone,
    testing::Values(Case{"vgpu:sm_80", model::Arch::Llama, DType::Q4_0, DType::F16},
                    Case{"vgpu:sm_90", model::Arch::Gemma3, DType::Q4_K, DType::F16},
                    Case{"vgpu:sm_90", model::Arch::Gemma3, DType::F16, DType::BF16},
                    Case{"vgpu:sm_90", model::Arch::Llama, DType::F32, DType::F32}));

TEST_P(OperationAlone, HasTheBitsOfItsRunAndHolds) {
  const TinyRun run = run_tiny(GetParam());
  ASSERT_GE(run.calls.size(), 15u);
  for (const bool cut : {false, true}) {
    for (const auto& [kind, call] : run.calls) {
      const CutOptions options = cut ? CutOptions{0, 32} : CutOptions{};
      const auto made = cut_out(call, 70, run.model, run.scenario, run.options, options);
      const std::string name(trace::name(call.contract.op));
      ASSERT_TRUE(made.ok()) << name << ": " << made.error().message();
      const RecordedOperation operation = through_a_file(*made);
      const auto replay = replay_on(operation, run.scenario.device);
      ASSERT_TRUE(replay.ok()) << name << ": " << replay.error().message();
      EXPECT_EQ(replay->same, replay->values) << name;
      for (const oracles::Verdict& verdict : replay->outcome.verdicts) {
        EXPECT_TRUE(verdict.findings.empty()) << name << ": " << verdict.findings.front().key
                                              << ": " << verdict.findings.front().message;
        if (verdict.law == "op_bounds") {
          EXPECT_EQ(verdict.checked, replay->values) << name << ": " << verdict.reason;
        }
      }
    }
  }
}

TEST(OperationFile, OtherRecordedBitsShow) {
  const TinyRun run = run_tiny({"vgpu:sm_90", model::Arch::Llama, DType::F16, DType::F16});
  RecordedOperation operation = run.operation(Op::ResidualAdd, false);
  operation.call.writes.front().bytes.front() ^= std::byte{1};
  const OperationReplay replay = replay_on(through_a_file(operation), "vgpu:sm_90").value();
  EXPECT_EQ(replay.same + 1, replay.values);
}

// What gets past the reader runs and is judged: to a verdict or an Error, never to a failed check.
TEST(OperationFile, AnotherCharacterInTheDescriptionIsRefusedOrRuns) {
  const TinyRun run = run_tiny({"vgpu:sm_90", model::Arch::Gemma3, DType::Q4_0, DType::F16});
  base::Prng prng(3);
  std::uint64_t refused = 0, ran = 0;
  for (const auto& [kind, call] : run.calls) {
    const auto operation = cut_out(call, 0, run.model, run.scenario, run.options).value();
    const trace::Trace sound = trace_of(operation, {});
    for (int i = 0; i < 15; ++i) {
      trace::Trace changed = sound;
      std::vector<std::byte>& text = changed.blobs.front().bytes;
      text[prng.below(text.size())] = static_cast<std::byte>("0123456789-.e"[prng.below(13)]);
      const auto read = operation_of(changed, "test.lstrace");
      if (!read) {
        ++refused;
      } else if (device::open(read->device).ok()) {
        (void)replay_on(*read, read->device);
        ++ran;
      }
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(ran, 0u);
}

TEST(OperationFile, WhatCannotRunIsRefused) {
  const TinyRun run = run_tiny({"vgpu:sm_90", model::Arch::Llama, DType::F16, DType::F16});
  const auto refused = [&](Op op, bool prefill, std::optional<model::WeightRole> weight,
                           const auto& change) {
    RecordedOperation operation = run.operation(op, prefill, weight);
    change(operation);
    const trace::Trace trace = trace_of(operation, {});
    const auto read = operation_of(trace, "test.lstrace");
    return !read.ok() && read.error().exit_status() == 2;
  };
  using R = RecordedOperation;
  const auto role = model::WeightRole::Query;
  EXPECT_FALSE(refused(Op::Gemm, true, role, [](R&) {}));
  EXPECT_FALSE(refused(Op::AttentionDecode, false, {}, [](R&) {}));
  EXPECT_FALSE(refused(Op::EmbedRows, true, model::WeightRole::TokenEmbedding, [](R&) {}));
  EXPECT_FALSE(refused(Op::Argmax, false, {}, [](R&) {}));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.weights.clear(); }));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.weights[0].bytes.pop_back(); }));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.weights[0].columns += 1; }));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.call.weight.reset(); }));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.call.reads[0].rows.pop_back(); }));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.config.layers.resize(0); }));
  EXPECT_TRUE(refused(Op::Gemm, true, role, [](R& o) { o.config.head_count = 0; }));
  EXPECT_TRUE(refused(Op::AttentionDecode, false, {}, [](R& o) { o.block_size = 0; }));
  EXPECT_TRUE(refused(Op::AttentionDecode, false, {}, [](R& o) {
    // The first cell of the first request.
    for (std::size_t i = 1; i < 3; ++i) {
      trace::TapTensor& cells = o.call.reads[i];
      cells.bytes.erase(cells.bytes.begin(),
                        cells.bytes.begin() +
                            static_cast<std::ptrdiff_t>(cells.bytes.size() / cells.rows.size()));
      cells.rows.erase(cells.rows.begin());
    }
  }));
  EXPECT_TRUE(refused(Op::EmbedRows, true, model::WeightRole::TokenEmbedding,
                      [](R& o) { o.call.reads[0].bytes[3] = std::byte{1}; }));
  EXPECT_TRUE(refused(Op::Argmax, false, {},
                      [](R& o) { o.call.writes[0].rows[0].position = o.config.context_length; }));
}

}  // namespace
}  // namespace lockstep::harness
