// The local check on a simulated engine: an engine that keeps its contracts passes everywhere, and
// each planted error fails first at the operation that makes it.
#include "reference/local.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "model/tiny.h"
#include "reference/formats/ieee.h"
#include "reference/simulated_engine_test.h"

namespace lockstep::reference {
namespace {

using model::Arch;
using model::DType;
using trace::Op;
using trace::OpCall;
using trace::OpReference;
using trace::TapTensor;
using trace::TokenId;

const trace::DeviceInfo kSm80 = {"sm_80", 80, {8, 24, -132}};
const trace::DeviceInfo kSm90 = {"sm_90", 90, {16, 25, -133}};

struct Failure {
  Op op = Op::EmbedRows;
  std::set<std::string> laws;
  std::uint32_t layer = 0;
  double ratio = 0;  // worst |got - want| / allowed of f32 results
};

std::vector<double> values_of(const TapTensor& tap) {
  std::vector<double> values(tap.rows.size() * tap.width);
  if (tap.dtype == DType::I32) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int32_t id = 0;
      std::memcpy(&id, tap.bytes.data() + 4 * i, 4);
      values[i] = id;
    }
  } else {
    decode_values(tap.dtype, tap.bytes, values);
  }
  return values;
}

// What the laws op_bounds, links and mma_replay say of one call.
Failure judge(const OpCall& call, const OpReference& reference) {
  Failure failure{call.contract.op, {}, call.layer.value, 0};
  if (!reference.computed) failure.laws.insert("not computed: " + reference.reason);
  for (std::size_t w = 0; w < reference.expected.size(); ++w) {
    const std::vector<double> got = values_of(call.writes[w]);
    const trace::Expected& expected = reference.expected[w];
    EXPECT_EQ(expected.want.size(), got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!(expected.low[i] <= got[i] && got[i] <= expected.high[i])) {
        failure.laws.insert("op_bounds");
      }
      const double allowed =
          std::max(expected.high[i] - expected.want[i], expected.want[i] - expected.low[i]);
      if (allowed > 0 && call.writes[w].dtype == DType::F32) {
        failure.ratio = std::max(failure.ratio, std::fabs(got[i] - expected.want[i]) / allowed);
      }
    }
  }
  for (const TapTensor& operand : reference.operands) {
    const auto read = std::find_if(call.reads.begin(), call.reads.end(),
                                   [&](const auto& tap) { return tap.point == operand.point; });
    const bool token = operand.point == trace::TapPoint::Token;
    if (read == call.reads.end() ||
        (!token && (read->rows != operand.rows || read->bytes != operand.bytes))) {
      failure.laws.insert("links");
    }
  }
  for (const trace::ReplaySample& sample : reference.replayed) {
    if (sample.want_bits != sample.got_bits) failure.laws.insert("mma_replay");
  }
  return failure;
}

struct Run {
  const model::Model& model;
  trace::DeviceInfo device = kSm90;
  DType operands = DType::F16, cells = DType::F16;
  std::uint64_t seed = 1;
  Planted planted = Planted::None;
  std::vector<std::uint32_t> prompts = {19, 7};  // lengths
  std::uint32_t steps = 3;
};

struct Outcome {
  std::optional<Failure> first;
  std::uint64_t calls = 0, replayed = 0;
  std::map<Op, double> tightness;
};

// Prefill of all prompts, the first one cut in two chunks, then decode steps.
Outcome run(const Run& run) {
  SimulatedEngine engine(run.model, run.device, run.operands, run.cells, run.seed, run.planted);
  LocalReference local(run.model, run.device, run.seed);
  EXPECT_TRUE(local.status().ok());
  Outcome outcome;
  base::Prng prng(run.seed + 1);
  std::vector<std::vector<TokenId>> prompts;
  for (const std::uint32_t length : run.prompts) {
    prompts.emplace_back();
    for (std::uint32_t i = 0; i < length; ++i) {
      prompts.back().push_back(static_cast<TokenId>(prng.below(run.model.config.vocab_size)));
    }
  }
  std::uint32_t launch = 0;
  std::vector<TokenId> tokens;
  const auto step = [&](bool prefill, const std::vector<Chunk>& chunks) {
    if (outcome.first) return;  // the first failure is what counts
    for (const Chunk& chunk : chunks) local.tell_tokens(chunk.request, chunk.first, chunk.tokens);
    for (const OpCall& call : engine.step({launch++}, prefill, chunks, tokens)) {
      const OpReference reference = local.judge(call);
      const Failure failure = judge(call, reference);
      ++outcome.calls;
      outcome.replayed += reference.replayed.size();
      outcome.tightness[failure.op] = std::max(outcome.tightness[failure.op], failure.ratio);
      if (failure.laws.empty()) continue;
      outcome.first = failure;
      return;
    }
  };
  const std::vector<TokenId>& first = prompts[0];
  const std::size_t half = first.size() / 2;
  std::vector<Chunk> rest = {{{0},
                              static_cast<std::uint32_t>(half),
                              {first.begin() + static_cast<std::ptrdiff_t>(half), first.end()}}};
  for (std::uint32_t r = 1; r < prompts.size(); ++r) rest.push_back({{r}, 0, prompts[r]});
  step(true, {{{0}, 0, {first.begin(), first.begin() + static_cast<std::ptrdiff_t>(half)}}});
  step(true, rest);
  for (std::uint32_t i = 0; i < run.steps && !outcome.first; ++i) {
    std::vector<Chunk> chunks;
    for (std::uint32_t r = 0; r < prompts.size(); ++r) {
      const auto length = static_cast<std::uint32_t>(prompts[r].size());
      chunks.push_back({{r}, length + i, {tokens[r]}});
    }
    step(false, chunks);
  }
  return outcome;
}

std::string describe(const Failure& failure) {
  std::string text = std::string(trace::name(failure.op)) + " in layer " +
                     std::to_string(failure.layer) + ", ratio " + std::to_string(failure.ratio);
  for (const std::string& law : failure.laws) text += ", " + law;
  return text;
}

TEST(LocalReference, EnginesThatKeepTheirContractsPassEverywhere) {
  std::map<Op, double> tightness;
  std::uint64_t replayed = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const model::Model model = model::make_tiny({seed % 2 == 0 ? Arch::Gemma3 : Arch::Llama, seed,
                                                 seed % 3 == 0 ? DType::Q8_0 : DType::F32, 2, 64});
    const DType operands = seed % 4 < 2 ? DType::F16 : DType::BF16;
    const Outcome outcome = run({model, seed % 3 == 1 ? kSm80 : kSm90, operands, operands, seed});
    ASSERT_FALSE(outcome.first.has_value()) << "seed " << seed << ": " << describe(*outcome.first);
    EXPECT_GT(outcome.calls, 100u);
    replayed += outcome.replayed;
    for (const auto& [op, ratio] : outcome.tightness) {
      tightness[op] = std::max(tightness[op], ratio);
    }
  }
  EXPECT_GT(replayed, 1000u);
  for (const auto& [op, ratio] : tightness) {
    std::printf("%-18s worst ratio %.3f\n", std::string(trace::name(op)).c_str(), ratio);
  }
}

struct Plan {
  const char* name;
  Planted planted;
  Op op;
  std::string law;
  Arch arch = Arch::Gemma3;
  std::uint32_t first_layer = 0;
  double epsilon = 0;  // 0: the model's
};

void PrintTo(const Plan& plan, std::ostream* out) { *out << plan.name; }

class PlantedErrors : public testing::TestWithParam<Plan> {};

TEST_P(PlantedErrors, FailFirstAtTheOperationThatMakesThem) {
  const Plan& plan = GetParam();
  model::Model model = model::make_tiny({plan.arch, 5, DType::F32, 2, 64, 4, 2, 32, 64, 0, 6});
  if (plan.epsilon > 0) model.config.rms_norm_epsilon = plan.epsilon;
  const Outcome outcome = run({model, kSm90, DType::F16, DType::F16, 3, plan.planted, {41, 23}});
  ASSERT_TRUE(outcome.first.has_value());
  EXPECT_EQ(trace::name(outcome.first->op), trace::name(plan.op)) << describe(*outcome.first);
  EXPECT_TRUE(outcome.first->laws.contains(plan.law)) << describe(*outcome.first);
  EXPECT_EQ(outcome.first->layer, plan.first_layer);
}

INSTANTIATE_TEST_SUITE_P(
    Local, PlantedErrors,
    testing::Values(
        Plan{"EmbedUnscaled", Planted::EmbedUnscaled, Op::EmbedRows, "op_bounds"},
        Plan{"NormScale", Planted::NormScale, Op::RmsNorm, "op_bounds"},
        Plan{"NormBf16Sum", Planted::NormBf16Sum, Op::RmsNorm, "op_bounds"},
        Plan{"NormDropsLast", Planted::NormDropsLast, Op::RmsNorm, "op_bounds"},
        Plan{"NormEpsilonOutside", Planted::NormEpsilonOutside, Op::RmsNorm, "op_bounds",
             Arch::Llama, 0, 1e-4},
        Plan{"NormCountLess", Planted::NormCountLess, Op::RmsNorm, "op_bounds"},
        Plan{"NormOneMore", Planted::NormOneMore, Op::RmsNorm, "op_bounds"},
        Plan{"GemvScale", Planted::GemvScale, Op::Gemv, "op_bounds"},
        Plan{"GemvBf16Sum", Planted::GemvBf16Sum, Op::Gemv, "op_bounds"},
        Plan{"GemvDropsLast", Planted::GemvDropsLast, Op::Gemv, "op_bounds"},
        Plan{"GemvInputF16", Planted::GemvInputF16, Op::Gemv, "op_bounds"},
        Plan{"GemmDropsBlock", Planted::GemmDropsBlock, Op::Gemm, "op_bounds"},
        Plan{"GemmTruncates", Planted::GemmTruncates, Op::Gemm, "op_bounds"},
        Plan{"GemmOtherGeneration", Planted::GemmOtherGeneration, Op::Gemm, "mma_replay"},
        Plan{"RopeNextPosition", Planted::RopeNextPosition, Op::RopeKvWrite, "op_bounds"},
        Plan{"RopePairing", Planted::RopePairing, Op::RopeKvWrite, "op_bounds"},
        Plan{"RopeBase", Planted::RopeBase, Op::RopeKvWrite, "op_bounds"},
        Plan{"RopeBf16Table", Planted::RopeBf16Table, Op::RopeKvWrite, "op_bounds"},
        Plan{"CellsTruncated", Planted::CellsTruncated, Op::RopeKvWrite, "op_bounds"},
        Plan{"DecodeDropsNewest", Planted::DecodeDropsNewest, Op::AttentionDecode, "op_bounds"},
        Plan{"DecodeFirstKeyLost", Planted::DecodeFirstKeyLost, Op::AttentionDecode, "op_bounds"},
        Plan{"DecodeWindowWider", Planted::DecodeWindowWider, Op::AttentionDecode, "op_bounds"},
        Plan{"DecodeWrongHead", Planted::DecodeWrongHead, Op::AttentionDecode, "op_bounds"},
        Plan{"DecodeBf16Sum", Planted::DecodeBf16Sum, Op::AttentionDecode, "op_bounds"},
        Plan{"DecodeScoreScale", Planted::DecodeScoreScale, Op::AttentionDecode, "op_bounds"},
        Plan{"PrefillSeesFuture", Planted::PrefillSeesFuture, Op::AttentionPrefill, "op_bounds"},
        Plan{"PrefillWindowWider", Planted::PrefillWindowWider, Op::AttentionPrefill, "op_bounds"},
        Plan{"PrefillTruncatesP", Planted::PrefillTruncatesP, Op::AttentionPrefill, "op_bounds"},
        Plan{"PrefillValueScale", Planted::PrefillValueScale, Op::AttentionPrefill, "op_bounds"},
        Plan{"PrefillLosesTile", Planted::PrefillLosesTile, Op::AttentionPrefill, "op_bounds",
             Arch::Llama},
        Plan{"PrefillStaleRescale", Planted::PrefillStaleRescale, Op::AttentionPrefill, "op_bounds",
             Arch::Llama},
        Plan{"GateOtherActivation", Planted::GateOtherActivation, Op::Gate, "op_bounds"},
        Plan{"GateTanhApprox", Planted::GateTanhApprox, Op::Gate, "op_bounds"},
        Plan{"GateConstant", Planted::GateConstant, Op::Gate, "op_bounds"},
        Plan{"ResidualF16", Planted::ResidualF16, Op::ResidualAdd, "op_bounds"},
        Plan{"ArgmaxOffByOne", Planted::ArgmaxOffByOne, Op::Argmax, "op_bounds"},
        Plan{"ReadsOtherRequest", Planted::ReadsOtherRequest, Op::AttentionPrefill, "links"},
        Plan{"ReadsStaleGate", Planted::ReadsStaleGate, Op::Gate, "links"},
        Plan{"WrongLayerWeights", Planted::WrongLayerWeights, Op::Gemm, "op_bounds", Arch::Gemma3,
             1}),
    [](const auto& plan) { return std::string(plan.param.name); });

}  // namespace
}  // namespace lockstep::reference
