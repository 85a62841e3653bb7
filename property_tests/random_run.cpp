// Random runs: the draw, and the command that repeats it.
#include "property_tests/random_run.h"

#include <array>
#include <iterator>

#include "base/check.h"
#include "base/prng.h"
#include "harness/open_model.h"

namespace lockstep::property_tests {
namespace {

using base::Prng;
using device::ApproximationMode;
using model::DType;

template <class T, std::size_t kCount>
T pick(Prng& prng, const std::array<T, kCount>& from) {
  return from[prng.below(kCount)];
}

// Mostly short: page, tile and chunk edges are near. One in eight reaches a third tile of keys.
std::vector<std::uint32_t> prompt_lengths(Prng& prng) {
  std::vector<std::uint32_t> lengths(1 + prng.below(4));
  for (std::uint32_t& length : lengths) {
    length = static_cast<std::uint32_t>(1 + prng.below(prng.below(4) == 0 ? 40 : 12));
  }
  if (prng.below(8) == 0) lengths.back() = static_cast<std::uint32_t>(120 + prng.below(20));
  return lengths;
}

void draw_prompts(Prng& prng, std::uint32_t vocab_size, RandomRun& run) {
  const auto steps = static_cast<std::uint32_t>(1 + prng.below(4));
  for (const std::uint32_t length : prompt_lengths(prng)) {
    trace::RequestSpec request;
    request.key = std::to_string(run.scenario.requests.size() + 1);
    request.max_tokens = steps;
    run.command += " --tokens ";
    for (std::uint32_t i = 0; i < length; ++i) {
      request.prompt.push_back(static_cast<trace::TokenId>(prng.below(vocab_size)));
      run.command += (i == 0 ? "" : ",") + std::to_string(request.prompt.back());
    }
    run.scenario.requests.push_back(std::move(request));
  }
  run.command += " --steps " + std::to_string(steps);
}

void draw_engine(Prng& prng, RandomRun& run) {
  trace::EngineSettings& engine = run.scenario.engine;
  engine.block_size = pick(prng, std::array{1u, 2u, 3u, 5u, 8u, 16u, 32u, 64u});
  engine.chunked_prefill_size = pick(prng, std::array{0u, 0u, 0u, 1u, 7u, 16u});
  engine.max_num_seqs = pick(prng, std::array{1u, 2u, 8u, 8u});
  run.command += " --block-size " + std::to_string(engine.block_size) + " --chunked-prefill-size " +
                 std::to_string(engine.chunked_prefill_size) + " --max-num-seqs " +
                 std::to_string(engine.max_num_seqs);
  struct Operands {
    DType format;
    const char* name;
  };
  const Operands operands =
      pick(prng, std::array{Operands{DType::F16, "f16"}, Operands{DType::BF16, "bf16"},
                            Operands{DType::F32, "f32"}});
  engine.operand_format = operands.format;
  struct Mode {
    ApproximationMode mode;
    const char* name;
  };
  const Mode mode = pick(
      prng,
      std::array{Mode{ApproximationMode::Nominal, "nominal"}, Mode{ApproximationMode::Low, "low"},
                 Mode{ApproximationMode::High, "high"}, Mode{ApproximationMode::Hashed, "hashed"}});
  run.options.device.approximation = mode.mode;
  run.command += std::string(" --operands ") + operands.name + " --approximation " + mode.name;
}

}  // namespace

RandomRun random_run(std::uint64_t seed) {
  // Two draws with neighbouring seeds must not share their beginnings.
  Prng prng(seed * 0x9e3779b97f4a7c15u + 1);
  RandomRun run;
  const char* arch = pick(prng, std::array{"llama", "gemma3"});
  const char* dtype =
      pick(prng, std::array{"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q6_K"});
  run.scenario.seed = seed;
  run.scenario.model =
      std::string("tiny:") + arch + ":" + std::to_string(1 + prng.below(1000)) + ":" + dtype;
  run.scenario.device = pick(prng, std::array{"vgpu:sm_80", "vgpu:sm_90"});
  run.options.device.host_threads = 1;  // tests run side by side
  run.command = "./lockstep run " + run.scenario.model + " --device " + run.scenario.device +
                " --seed " + std::to_string(seed);
  draw_engine(prng, run);
  draw_prompts(prng, open(run).config.vocab_size, run);
  return run;
}

model::Model open(const RandomRun& run) {
  auto opened = harness::open_model(run.scenario.model);
  LS_CHECK(opened.ok(), opened.ok() ? "" : opened.error().message());
  return std::move(opened).value();
}

std::string findings(const harness::RunOutcome& outcome) {
  std::string text;
  for (const oracles::Verdict& verdict : outcome.verdicts) {
    for (const oracles::Finding& finding : verdict.findings) {
      text += "FINDING " + finding.key + ": " + finding.message + "\n";
    }
  }
  return text;
}

}  // namespace lockstep::property_tests
