// One operation alone: probes name what a kernel reads, and a failing operation shrinks to what
// still fails. The subject that goes wrong is the engine at other numbers than the model's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness/alone/keep.h"
#include "harness/alone/parts.h"
#include "harness/alone/probe.h"
#include "harness/alone/shrink.h"
#include "harness/alone/tiny_run_test.h"
#include "harness/report/operation_file.h"
#include "harness/report/report.h"

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
  std::uint32_t hidden_size = 0;
};

TinyRun run_tiny(const Case& of) {
  model::TinyOptions tiny = tiny_options(of.arch, of.weights);
  tiny.layer_count = 2;
  tiny.hidden_size = of.hidden_size;
  if (of.hidden_size > 0) tiny.layer_count = 1, tiny.ffn_size = 256, tiny.vocab_size = 32;
  tiny.head_count = of.kv_heads * 2;
  tiny.kv_head_count = of.kv_heads;
  // Of attention the calls of layers that have the window.
  return run_tiny_model(tiny, of.device, of.operands, device::ApproximationMode::Nominal,
                        [&](const model::Model& model, const trace::OpCall& call) {
                          return !trace::is_attention(call.contract.op) ||
                                 model.config.layers[call.layer.value].window == tiny.window;
                        });
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

TEST(ProbeAttention, NamesAScaleAndADenominator) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation operation = run.operation(Op::AttentionDecode, false);
  const std::string scale = probe(
      operation, {run.scenario.device,
                  engine_with([](RecordedOperation& o) { o.config.attention_scale *= 1.001; })});
  EXPECT_TRUE(scale.starts_with("probe shows the right keys; query 8, head 0, weighs key "))
      << scale;
  EXPECT_TRUE(scale.ends_with(": scores times 1.001")) << scale;
  // Recorded scores, and a result that is 0.1 % too large: so is what the weights add up to.
  const auto larger = [&](const RecordedOperation& asked, const std::string& device,
                          const device::DeviceOptions& options, const EventSink& sink) {
    const bool recorded = asked.call.reads[0].bytes == operation.call.reads[0].bytes;
    return run_operation(asked, device, options, [&](trace::Event event) {
      if (auto* done = std::get_if<trace::OpCompleted>(&event); done != nullptr && recorded) {
        std::vector<std::byte>& bytes = done->call.writes[0].bytes;
        for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
          float value = 0;
          std::memcpy(&value, bytes.data() + i, sizeof value);
          value *= 1.001f;
          std::memcpy(bytes.data() + i, &value, sizeof value);
        }
      }
      sink(std::move(event));
    });
  };
  const std::string sum = probe(operation, {run.scenario.device, larger});
  EXPECT_EQ(
      sum, "probe shows the right keys; the weights of query 8, head 0, add up to 1.001, not to 1");
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

void swap_rows(RecordedOperation& o) {
  const auto size = static_cast<std::ptrdiff_t>(o.weights[0].bytes.size() / o.weights[0].rows);
  const auto row = o.weights[0].bytes.begin();
  std::swap_ranges(row, row + size, row + 2 * size);
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
  const OperationRunner rows_swapped = engine_with(swap_rows);
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

// Long rows are asked for in part: what tells rows apart is among it, in every format.
TEST(ProbeWeight, TellsRowsOfLongRowsApart) {
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q4_1,
                            DType::Q5_0, DType::Q8_0, DType::Q4_K, DType::Q6_K}) {
    const bool plain = model::layout(dtype).block_elements == 1;
    for (const DType operands : {DType::F16, DType::BF16}) {
      if (plain && operands == DType::BF16 && dtype != DType::F32) continue;
      Case of{"vgpu:sm_90", model::Arch::Llama, dtype, operands, 1};
      of.hidden_size = 768;
      const TinyRun run = run_tiny(of);
      for (const bool prefill : {true, false}) {
        if (!prefill && operands == DType::BF16) continue;  // decode reads f32 in any case
        const RecordedOperation operation =
            run.operation(prefill ? Op::Gemm : Op::Gemv, prefill, WeightRole::Query);
        ASSERT_EQ(operation.weights[0].dtype, dtype);
        const std::string name = std::string(model::name(dtype)) + (prefill ? " gemm" : " gemv");
        EXPECT_EQ(probe(operation, {run.scenario.device}),
                  "probe shows the right rows and columns; the numbers differ")
            << name;
        EXPECT_EQ(probe(operation, {run.scenario.device, engine_with(swap_rows)}),
                  "output 0 holds the weights of row 2, output 2 holds the weights of row 0")
            << name;
      }
    }
  }
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

TEST(ProbeRope, NamesAChannelThatShouldBeZero) {
  const TinyRun run = run_tiny(kLlama);
  const auto more = [](const RecordedOperation& operation, const std::string& device,
                       const device::DeviceOptions& options, const EventSink& sink) {
    return run_operation(operation, device, options, [&](trace::Event event) {
      if (auto* done = std::get_if<trace::OpCompleted>(&event)) {
        set(done->call.writes[2], 0, 1, 1);  // V of the first row
      }
      sink(std::move(event));
    });
  };
  EXPECT_EQ(probe(run.operation(Op::RopeKvWrite, true), {run.scenario.device, more}),
            "V channel 0 goes to channels 0 and 1");
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
  EXPECT_NE(finding_of(replay.outcome, finding.key), nullptr);
  // What is left holds with the right kernel.
  const OperationReplay right = replay_on(shrunk.operation, run.scenario.device).value();
  EXPECT_EQ(finding_of(right.outcome, finding.key), nullptr);
}

// A wrong scale needs two keys to show.
TEST(Shrink, LeavesTwoKeysOfAWrongScale) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation whole = run.operation(Op::AttentionDecode, false);
  const auto runner = engine_with([](RecordedOperation& o) { o.config.attention_scale *= 1.5; });
  const Shrunk shrunk = shrink(whole, first_finding(whole, runner), {}, runner).value();
  EXPECT_TRUE(shrunk.repeats) << shrunk.reason;
  EXPECT_EQ(shrunk.operation.call.reads[1].rows, (std::vector<trace::RowId>{{{0}, 0}, {{0}, 1}}));
  EXPECT_EQ(shrunk.operation.call.writes[0].rows, (std::vector<trace::RowId>{{{0}, 1}}));
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

// --- What a run keeps and reports. ---

class KeptFindings : public testing::Test {
 protected:
  KeptFindings() : run_(run_tiny(kGemma)) {}

  // The report of a run in which the prompts' attention went wrong as `runner` does, or, where it
  // repeats nothing, in a way that does not come again.
  RunReport report_of(const OperationRunner& wrong, const OperationRunner& again) {
    const RecordedOperation whole = run_.operation(Op::AttentionPrefill, true);
    oracles::Finding finding = first_finding(whole, wrong);
    auto done = std::make_shared<trace::OpCompleted>();
    done->call = replay_on(whole, whole.device, wrong).value().call;
    finding.operation = done;
    RunReport report;
    report.scenario = run_.scenario;
    report.repeat = "./lockstep run";
    report.devices.push_back({run_.scenario.device, {}, {}});
    DeviceReport& device = report.devices[0];
    device.outcome.verdicts.push_back({});
    device.outcome.verdicts[0].law = "op_bounds";
    device.outcome.verdicts[0].kind = oracles::VerdictKind::Finding;
    device.outcome.verdicts[0].findings.push_back(finding);
    device.kept = keep_operations(device.outcome, run_.model, run_.scenario, run_.options,
                                  testing::TempDir() + "kept_findings", again)
                      .value();
    return report;
  }

  TinyRun run_;
};

TEST_F(KeptFindings, StandInTheReportAsTextAndAsJson) {
  const OperationRunner wrong = engine_with_window(6);
  const RunReport report = report_of(wrong, wrong);
  const KeptOperation& kept = report.devices[0].kept.at(0);
  EXPECT_EQ(kept.needle, "query 5 reads keys 0 to 5, query 6 reads keys 1 to 6: one key too many");
  EXPECT_TRUE(kept.smallest.starts_with("this operation alone, 1 query, 6 keys, 1 head of "));
  EXPECT_TRUE(kept.smallest.ends_with("KiB with its operands, no model needed"));
  const std::string text = text_report(report, {});
  EXPECT_NE(text.find("\n  needle     " + kept.needle + "\n  smallest   " + kept.smallest +
                      "\n  replay     ./lockstep replay " + kept.file + "\n"),
            std::string::npos)
      << text;
  const nlohmann::json finding = json_report(report)["laws"][0]["findings"][0];
  EXPECT_EQ(finding["needle"], kept.needle);
  EXPECT_EQ(finding["smallest"], kept.smallest);
  EXPECT_EQ(finding["from"], kept.from);
  EXPECT_EQ(finding["file"], kept.file);

  // The file says the same, and where it came from: the place in the run, not the shrunk one.
  const trace::Trace trace = trace::read_trace(kept.file).value();
  const RecordedOperation operation = operation_of(trace, kept.file).value();
  EXPECT_EQ(trace.finding_key, "op_bounds.attention_prefill");
  EXPECT_EQ(operation.from, kept.from);
  EXPECT_NE(kept.from.find("prompt 1, position 5"), std::string::npos) << kept.from;
  EXPECT_NE(kept.from.find("; of a call of 9 queries, 9 keys, "), std::string::npos) << kept.from;
  EXPECT_EQ(probe(operation, {operation.device, wrong}), kept.needle);
}

TEST_F(KeptFindings, ThatDoNotRepeatAloneSaySoAndKeepTheCall) {
  const RunReport report = report_of(engine_with_window(6), run_operation);
  const KeptOperation& kept = report.devices[0].kept.at(0);
  EXPECT_TRUE(kept.needle.empty()) << kept.needle;
  EXPECT_TRUE(kept.smallest.starts_with("does not repeat alone: there all ")) << kept.smallest;
  EXPECT_NE(kept.smallest.find("the whole call is kept, 9 queries"), std::string::npos)
      << kept.smallest;
  const trace::Trace trace = trace::read_trace(kept.file).value();
  EXPECT_EQ(operation_of(trace, kept.file).value().call.writes[0].rows.size(), 9u);
  EXPECT_EQ(text_report(report, {}).find("needle"), std::string::npos);
}

// --- Parts: rows and heads alone have the bits that they have together. ---

TEST(Parts, HoldTheHeadsThatTheyName) {
  const TinyRun run = run_tiny(kLlama);
  const RecordedOperation whole = run.operation(Op::AttentionDecode, false);
  ASSERT_EQ(whole.config.head_count, 4u);
  // Of each KV head the second query head.
  const RecordedOperation part = keep_heads(whole, {0, 2, 1, 1});
  const trace::TapTensor &from = whole.call.reads[0], &to = part.call.reads[0];
  const std::size_t bytes = whole.config.head_size * sizeof(float);
  ASSERT_EQ(to.bytes.size(), to.rows.size() * 2 * bytes);
  for (std::size_t row = 0; row < to.rows.size(); ++row) {
    for (std::size_t head = 0; head < 2; ++head) {
      EXPECT_EQ(std::memcmp(to.bytes.data() + (row * 2 + head) * bytes,
                            from.bytes.data() + (row * 4 + head * 2 + 1) * bytes, bytes),
                0);
    }
  }
}

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
