// What the local check keeps, and what it says where it can't judge.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/tiny.h"
#include "reference/local.h"
#include "reference/simulated_engine_test.h"

namespace lockstep::reference {
namespace {

using model::Arch;
using model::DType;
using trace::Op;
using trace::OpCall;
using trace::OpReference;
using trace::TapPoint;

class LocalStore : public testing::Test {
 protected:
  LocalStore()
      : model_(model::make_tiny({Arch::Gemma3, 3, DType::F32, 2, 64, 2, 1, 16, 64, 90, 4})),
        engine_(model_, {}, DType::F16, DType::F16, 1),
        local_(model_, {}, 1) {}
  std::vector<OpCall> step(bool prefill, const std::vector<Chunk>& chunks) {
    return engine_.step({launch_++}, prefill, chunks, tokens_);
  }
  std::size_t cell_bytes(std::size_t positions) const {
    const model::ModelConfig& config = model_.config;
    const std::size_t width = std::size_t{config.kv_head_count} * config.head_size;
    return positions * config.layer_count * 2 * width * (sizeof(std::uint16_t) + sizeof(double));
  }
  model::Model model_;
  SimulatedEngine engine_;
  LocalReference local_;
  std::uint32_t launch_ = 0;
  std::vector<trace::TokenId> tokens_;
};

TEST_F(LocalStore, OnlyCellsOutliveAStep) {
  for (const OpCall& call : step(true, {{{0}, 0, {1, 2, 3}}})) local_.judge(call);
  // Rows that no token was sampled from leave their last residual until the next step.
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (const OpCall& call : step(false, {{{0}, 3 + i, {tokens_[0]}}})) local_.judge(call);
    EXPECT_EQ(local_.stored_bytes(), cell_bytes(4 + i));
  }
  local_.release({0});
  EXPECT_EQ(local_.stored_bytes(), 0u);
}

TEST_F(LocalStore, MissingProducerIsNoTapAndNoPass) {
  for (const OpCall& call : step(true, {{{0}, 0, {1, 2, 3}}})) {
    const bool untapped = call.contract.op == Op::RopeKvWrite && call.layer.value == 1;
    if (untapped) continue;
    const OpReference reference = local_.judge(call);
    const bool needs_it = call.contract.op == Op::AttentionPrefill && call.layer.value == 1;
    EXPECT_EQ(reference.computed, !needs_it) << trace::name(call.contract.op);
    if (needs_it) {
      EXPECT_EQ(reference.reason, "no tap: q_rot of layer 1, request 0, position 0");
      EXPECT_TRUE(reference.expected.empty());
    }
  }
}

TEST_F(LocalStore, UnknownAndMalformedCallsAreRefusedWithAReason) {
  const std::vector<OpCall> calls = step(true, {{{0}, 0, {1, 2, 3}}});
  OpCall call = calls[0];
  call.layer.value = 9;
  EXPECT_EQ(local_.judge(call).reason, "the graph has no such operation: embed_rows in layer 9");
  call = calls[0];
  call.contract.op = Op::Gate;
  EXPECT_FALSE(local_.judge(call).computed);
  call = calls[0];
  call.writes[0].bytes.pop_back();
  EXPECT_EQ(local_.judge(call).reason, "a tap's size is not that of its rows: embed");
  call = calls[0];
  call.writes[0].rows[0].position = 0xfffffff0;
  EXPECT_EQ(local_.judge(call).reason, "a position beyond the model's context length");
  call = calls[0];
  call.writes.clear();
  EXPECT_FALSE(local_.judge(call).computed);
}

TEST_F(LocalStore, ToldTokensDecideOverReadOnes) {
  const std::vector<OpCall> calls = step(true, {{{0}, 0, {1, 2, 3}}});
  const std::vector<trace::TokenId> told = {1, 7, 3};
  local_.tell_tokens({0}, 0, told);
  const OpReference reference = local_.judge(calls[0]);
  ASSERT_TRUE(reference.computed);
  ASSERT_EQ(reference.operands.size(), 1u);
  EXPECT_EQ(reference.operands[0].rows, calls[0].reads[0].rows);
  EXPECT_NE(reference.operands[0].bytes, calls[0].reads[0].bytes);
}

TEST_F(LocalStore, TheReplayedSampleDependsOnTheSeedAlone) {
  LocalReference again(model_, {}, 1);
  LocalReference other(model_, {}, 2);
  std::vector<std::uint32_t> first, second, third;
  const auto collect = [](const OpReference& reference, std::vector<std::uint32_t>& columns) {
    for (const auto& sample : reference.replayed) columns.push_back(sample.column);
  };
  for (const OpCall& call : step(true, {{{0}, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9}}})) {
    collect(local_.judge(call), first);
    collect(again.judge(call), second);
    collect(other.judge(call), third);
  }
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
}

TEST_F(LocalStore, AttentionIsBesideAllCellsThatItsGraphNames) {
  for (OpCall call : step(true, {{{0}, 0, {1, 2, 3, 4, 5, 6}}})) {
    if (call.contract.op == Op::AttentionPrefill) {
      // The subject claims to have read fewer cells, and no values at all.
      call.reads[1].rows.pop_back();
      call.reads[1].bytes.resize(call.reads[1].rows.size() * 2 * call.reads[1].width);
      call.reads.pop_back();
    }
    const OpReference reference = local_.judge(call);
    if (call.contract.op != Op::AttentionPrefill) continue;
    ASSERT_EQ(reference.operands.size(), 3u);
    EXPECT_EQ(reference.operands[1].rows.size(), 6u);
    EXPECT_EQ(reference.operands[2].point, TapPoint::VCell);
    EXPECT_EQ(reference.operands[2].rows.size(), 6u);
  }
}

}  // namespace
}  // namespace lockstep::reference
