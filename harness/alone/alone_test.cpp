// One operation alone: probes name what a kernel reads, and a failing operation shrinks to what
// still fails. The subject that goes wrong is the engine at other numbers than the model's.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "harness/alone/parts.h"
#include "harness/alone/probe.h"
#include "harness/alone/shrink.h"
#include "model/tiny.h"

namespace lockstep::harness {
namespace {

using model::DType;
using model::WeightRole;
using trace::Op;

struct Case {
  const char* device;
  model::Arch arch;
  DType weights, operands;
  std::uint32_t kv_heads = 0;
};

struct TinyRun {
  model::Model model;
  trace::Scenario scenario;
  device::DeviceOptions options;
  std::map<std::tuple<Op, bool, std::optional<WeightRole>>, trace::OpCall> calls;

  RecordedOperation operation(Op op, bool prefill, std::optional<WeightRole> weight = {}) const {
    return cut_out(calls.at({op, prefill, weight}), 0, model, scenario, options).value();
  }
};

TinyRun run_tiny(const Case& of) {
  TinyRun run;
  model::TinyOptions tiny;
  tiny.arch = of.arch;
  tiny.seed = 7;
  tiny.dtype = of.weights;
  tiny.window = of.arch == model::Arch::Gemma3 ? 5 : 0;
  tiny.vocab_size = 320;
  tiny.layer_count = 2;
  tiny.head_count = of.kv_heads * 2;
  tiny.kv_head_count = of.kv_heads;
  run.model = model::make_tiny(tiny);
  run.scenario.device = of.device;
  run.scenario.engine.block_size = 3;
  run.scenario.engine.operand_format = of.operands;
  run.scenario.requests.resize(2);
  run.scenario.requests[0].prompt = {1, 5, 9, 2, 7, 7, 3};
  run.scenario.requests[1].prompt = {4, 2};
  for (trace::RequestSpec& request : run.scenario.requests) request.max_tokens = 3;
  const base::Status status =
      run_engine(run.model, run.scenario, {true, run.options}, [&](const trace::Event& event) {
        const auto* done = std::get_if<trace::OpCompleted>(&event);
        if (done == nullptr) return;
        const trace::OpCall& call = done->call;
        const bool attends =
            call.contract.op == Op::AttentionPrefill || call.contract.op == Op::AttentionDecode;
        if (attends && run.model.config.layers[call.layer.value].window != tiny.window) return;
        run.calls[{call.contract.op, call.prefill, call.weight}] = call;
      });
  EXPECT_TRUE(status.ok()) << status.error().message();
  return run;
}

// The engine runs what `change` makes of the operation; the results count as the operation's.
template <class Change>
OperationRunner engine_with(const Change& change) {
  return [change](const RecordedOperation& operation, const std::string& device,
                  const device::DeviceOptions& options, const EventSink& sink) {
    RecordedOperation changed = operation;
    change(changed);
    return run_operation(changed, device, options, [&](trace::Event event) {
      if (auto* done = std::get_if<trace::OpCompleted>(&event)) {
        done->call.reads = operation.call.reads;
        for (std::size_t i = 0; i < done->call.writes.size(); ++i) {
          done->call.writes[i].rows = operation.call.writes[i].rows;
        }
      }
      sink(std::move(event));
    });
  };
}

OperationRunner engine_with_window(std::uint32_t keys) {
  return engine_with(
      [keys](RecordedOperation& o) { o.config.layers[o.call.layer.value].window = keys; });
}

oracles::Finding first_finding(const RecordedOperation& operation, const OperationRunner& runner) {
  const OperationReplay replay = replay_on(operation, operation.device, runner).value();
  for (const oracles::Verdict& verdict : replay.outcome.verdicts) {
    if (!verdict.findings.empty()) return verdict.findings.front();
  }
  ADD_FAILURE() << "no finding";
  return {};
}

class Probes : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Runs, Probes,
    testing::Values(Case{"vgpu:sm_80", model::Arch::Llama, DType::Q4_0, DType::F16, 2},
                    Case{"vgpu:sm_90", model::Arch::Gemma3, DType::Q4_K, DType::F16, 2},
                    Case{"vgpu:sm_90", model::Arch::Llama, DType::Q6_K, DType::F16, 3},
                    Case{"vgpu:sm_90", model::Arch::Gemma3, DType::F16, DType::BF16, 1},
                    Case{"vgpu:sm_90", model::Arch::Llama, DType::F32, DType::F32, 1}));

TEST_P(Probes, OfACorrectKernelShowNothingWrong) {
  const TinyRun run = run_tiny(GetParam());
  ASSERT_GE(run.calls.size(), 15u);
  std::size_t probed = 0;
  for (const auto& [kind, call] : run.calls) {
    const RecordedOperation operation =
        cut_out(call, 0, run.model, run.scenario, run.options).value();
    const std::string line = probe(operation, {run.scenario.device});
    const Op op = call.contract.op;
    const bool has_probe = op != Op::Gate && op != Op::ResidualAdd && op != Op::Argmax;
    EXPECT_EQ(line.starts_with("probe shows the right"), has_probe)
        << trace::name(op) << (call.prefill ? " prefill: " : " decode: ") << line;
    probed += has_probe;
  }
  EXPECT_GE(probed, 12u);
}

const Case kGemma{"vgpu:sm_90", model::Arch::Gemma3, DType::F16, DType::F16, 2};
const Case kLlama{"vgpu:sm_90", model::Arch::Llama, DType::F32, DType::F16, 2};

TEST(ProbeAttention, NamesAKeyTooManyAndAKeyTooFew) {
  const TinyRun run = run_tiny(kGemma);
  for (const bool prefill : {true, false}) {
    const Op op = prefill ? Op::AttentionPrefill : Op::AttentionDecode;
    const RecordedOperation operation = run.operation(op, prefill);
    const std::string more = probe(operation, {run.scenario.device, engine_with_window(6)});
    EXPECT_TRUE(more.ends_with(": one key too many")) << more;
    const std::string fewer = probe(operation, {run.scenario.device, engine_with_window(4)});
    EXPECT_TRUE(fewer.ends_with(": one key too few")) << fewer;
  }
  const std::string line = probe(run.operation(Op::AttentionPrefill, true),
                                 {run.scenario.device, engine_with_window(6)});
  EXPECT_EQ(line,
            "query 5, head 0, of prompt 1 reads keys 0 to 5, query 6, head 0, of prompt 1 "
            "reads keys 1 to 6: one key too many");
}

TEST(ProbeAttention, NamesAKeyWeighedByAnothersScore) {
  const TinyRun run = run_tiny(kLlama);
  const auto swap = engine_with([](RecordedOperation& o) {
    trace::TapTensor& keys = o.call.reads[1];
    const auto size = static_cast<std::ptrdiff_t>(keys.bytes.size() / keys.rows.size());
    std::swap_ranges(keys.bytes.begin(), keys.bytes.begin() + size, keys.bytes.begin() + size);
  });
  const std::string line =
      probe(run.operation(Op::AttentionPrefill, true), {run.scenario.device, swap});
  EXPECT_NE(line.find("weighs key 0 by the K of key 1"), std::string::npos) << line;
}

TEST(ProbeAttention, NamesTheHeadThatIsRead) {
  const TinyRun run = run_tiny(kLlama);
  const auto swap = engine_with([](RecordedOperation& o) {
    const std::uint32_t size = o.config.head_size;
    for (std::size_t i = 1; i < 3; ++i) {
      trace::TapTensor& cells = o.call.reads[i];
      const std::size_t element = cells.bytes.size() / cells.rows.size() / cells.width;
      for (std::size_t row = 0; row < cells.rows.size(); ++row) {
        const auto at =
            cells.bytes.begin() + static_cast<std::ptrdiff_t>(row * cells.width * element);
        const auto head = static_cast<std::ptrdiff_t>(size * element);
        std::swap_ranges(at, at + head, at + head);
      }
    }
  });
  const std::string line =
      probe(run.operation(Op::AttentionPrefill, true), {run.scenario.device, swap});
  EXPECT_NE(line.find("of KV head 1"), std::string::npos) << line;
  EXPECT_NE(line.find("; must be key 0 of KV head 0"), std::string::npos) << line;
}

TEST(ProbeWeight, NamesColumnsAndRows) {
  const TinyRun run = run_tiny(kLlama);
  const auto without_the_last = engine_with([](RecordedOperation& o) {
    trace::TapTensor& read = o.call.reads[0];
    const std::size_t element = read.bytes.size() / read.rows.size() / read.width;
    for (std::size_t row = 0; row < read.rows.size(); ++row) {
      const std::size_t end = (row + 1) * read.width * element;
      std::fill(read.bytes.begin() + static_cast<std::ptrdiff_t>(end - 8 * element),
                read.bytes.begin() + static_cast<std::ptrdiff_t>(end), std::byte{0});
    }
  });
  const auto rows_swapped = engine_with([](RecordedOperation& o) {
    const auto size = static_cast<std::ptrdiff_t>(o.weights[0].bytes.size() / o.weights[0].rows);
    const auto row = o.weights[0].bytes.begin();
    std::swap_ranges(row, row + size, row + 2 * size);
  });
  for (const bool prefill : {true, false}) {
    const RecordedOperation operation =
        run.operation(prefill ? Op::Gemm : Op::Gemv, prefill, WeightRole::Query);
    const std::uint32_t width = operation.call.reads[0].width;
    EXPECT_EQ(probe(operation, {run.scenario.device, without_the_last}),
              "columns " + std::to_string(width - 8) + " to " + std::to_string(width - 1) + " of " +
                  std::to_string(width) + " take no part in any output");
    EXPECT_EQ(probe(operation, {run.scenario.device, rows_swapped}),
              "output 0 holds the weights of row 2, output 2 holds the weights of row 0");
  }
  EXPECT_EQ(probe(run.operation(Op::EmbedRows, true, WeightRole::TokenEmbedding),
                  {run.scenario.device, rows_swapped}),
            "token 0 holds the weights of row 2, token 2 holds the weights of row 0");
}

TEST(ProbeNorm, NamesEpsilonAndAChannel) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation operation = run.operation(Op::RmsNorm, true, WeightRole::AttnNorm);
  const std::string none =
      probe(operation, {run.scenario.device,
                        engine_with([](RecordedOperation& o) { o.config.rms_norm_epsilon = 0; })});
  EXPECT_NE(none.find("sqrt(mean), without epsilon"), std::string::npos) << none;
}

TEST(ProbeRope, NamesThePartnerAndThePosition) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation operation = run.operation(Op::RopeKvWrite, true);
  const std::string pairs =
      probe(operation, {run.scenario.device, engine_with([](RecordedOperation& o) {
                          const bool half = o.config.rope_pairing == model::RopePairing::Half;
                          o.config.rope_pairing =
                              half ? model::RopePairing::Interleaved : model::RopePairing::Half;
                        })});
  const std::string far = std::to_string(operation.config.head_size / 2);
  const bool half = operation.config.rope_pairing == model::RopePairing::Half;
  EXPECT_EQ(pairs, "q channel 0 is rotated with channel " + (half ? "1" : far) +
                       "; must be channel " + (half ? far : "1"));
  const std::string late =
      probe(operation, {run.scenario.device, engine_with([](RecordedOperation& o) {
                          for (auto* taps : {&o.call.reads, &o.call.writes}) {
                            for (trace::TapTensor& tap : *taps) {
                              for (trace::RowId& row : tap.rows) ++row.position;
                            }
                          }
                        })});
  EXPECT_EQ(late, "position 1 is rotated as position 2");
}

// --- Shrinking. ---

TEST(Shrink, KeepsTheFindingTheBitsAndLittleElse) {
  const TinyRun run = run_tiny(kGemma);
  const RecordedOperation whole = run.operation(Op::AttentionPrefill, true);
  const OperationRunner runner = engine_with_window(6);
  const oracles::Finding finding = first_finding(whole, runner);
  ASSERT_EQ(finding.key, "op_bounds.attention_prefill");
  const Shrunk shrunk = shrink(whole, finding, {}, runner).value();
  EXPECT_TRUE(shrunk.repeats) << shrunk.reason;
  EXPECT_EQ(shrunk.operation.call.writes[0].rows.size(), 1u);
  EXPECT_EQ(shrunk.operation.call.reads[1].rows.size(), 6u);  // one more than the window
  EXPECT_EQ(shrunk.operation.config.head_count, 1u);
  EXPECT_LT(shrunk.operation.size_bytes() * 4, whole.size_bytes());
  const OperationReplay replay = replay_on(shrunk.operation, run.scenario.device, runner).value();
  EXPECT_EQ(replay.same, replay.values);
  EXPECT_NE(finding_of(replay, finding.key), nullptr);
  // What is left holds with the right kernel.
  const OperationReplay right = replay_on(shrunk.operation, run.scenario.device).value();
  EXPECT_EQ(finding_of(right, finding.key), nullptr);
}

TEST(Shrink, LeavesOneOutputOfAProduct) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation whole = run.operation(Op::Gemm, true, WeightRole::Query);
  // Output 5 reads the next row.
  const auto runner = engine_with([&](RecordedOperation& o) {
    if (o.first_output > 5 || o.first_output + o.weights[0].rows <= 5) return;
    const auto size = static_cast<std::ptrdiff_t>(o.weights[0].bytes.size() / o.weights[0].rows);
    const auto row = o.weights[0].bytes.begin() + (5 - o.first_output) * size;
    std::fill(row, row + size, std::byte{0});
  });
  const oracles::Finding finding = first_finding(whole, runner);
  ASSERT_EQ(finding.where.index, 5u);
  const Shrunk shrunk = shrink(whole, finding, {}, runner).value();
  EXPECT_TRUE(shrunk.repeats) << shrunk.reason;
  EXPECT_EQ(shrunk.operation.first_output, 5u);
  EXPECT_EQ(shrunk.operation.weights[0].rows, 1u);
  EXPECT_EQ(shrunk.operation.call.writes[0].rows.size(), 1u);
}

// A finding of the run that the operation alone does not show: the whole call stays.
TEST(Shrink, SaysWhereAFaultDoesNotRepeatAlone) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation whole = run.operation(Op::AttentionDecode, false);
  oracles::Finding finding;
  finding.key = "op_bounds.attention_decode";
  const Shrunk shrunk = shrink(whole, finding).value();
  EXPECT_FALSE(shrunk.repeats);
  EXPECT_TRUE(shrunk.reason.starts_with("there all ")) << shrunk.reason;
  EXPECT_EQ(shrunk.operation.size_bytes(), whole.size_bytes());
}

// Other bits in each run: nothing is announced.
TEST(Shrink, WantsTheSameBitsTwice) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation whole = run.operation(Op::ResidualAdd, true);
  std::uint8_t runs = 0;
  const OperationRunner runner = [&runs](
                                     const RecordedOperation& operation, const std::string& device,
                                     const device::DeviceOptions& options, const EventSink& sink) {
    ++runs;
    return run_operation(operation, device, options, [&](trace::Event event) {
      if (auto* done = std::get_if<trace::OpCompleted>(&event)) {
        done->call.writes[0].bytes[0] ^= static_cast<std::byte>(runs * 2 + 1);
      }
      sink(std::move(event));
    });
  };
  const oracles::Finding finding = first_finding(whole, runner);
  const Shrunk shrunk = shrink(whole, finding, {}, runner).value();
  EXPECT_FALSE(shrunk.repeats);
  EXPECT_EQ(shrunk.reason, "not the same bits each time");
}

// --- Parts: rows and heads alone have the bits that they have together. ---

TEST(Parts, HaveTheBitsOfTheWhole) {
  const TinyRun run = run_tiny(kGemma);
  for (const auto& [kind, call] : run.calls) {
    const RecordedOperation whole = cut_out(call, 0, run.model, run.scenario, run.options).value();
    std::vector<RecordedOperation> parts = {keep_rows(whole, {call.writes[0].rows.size() - 1})};
    if (has_heads(call.contract.op)) parts.push_back(keep_heads(whole, {1, 1, 1, 1}));
    if (has_outputs(call.contract.op)) parts.push_back(keep_outputs(whole, 4, 3));
    for (const RecordedOperation& part : parts) {
      const std::string name(trace::name(call.contract.op));
      ASSERT_TRUE(check_operation(part, "part").ok()) << name;
      const auto replay = replay_on(part, run.scenario.device);
      ASSERT_TRUE(replay.ok()) << name << ": " << replay.error().message();
      EXPECT_EQ(replay->same, replay->values) << name;
      EXPECT_LT(part.size_bytes(), whole.size_bytes()) << name;
    }
  }
}

}  // namespace
}  // namespace lockstep::harness
