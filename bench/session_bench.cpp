// Speed of the chained reference on one core, on Gemma 3 270M (Q4_K_M) from the cache: a prefill of
// 128 tokens with the logits of the last, and decode steps after it. Calibration as in
// reference_bench.cpp: divide by it to compare machines or a loaded machine with itself.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "model/model.h"
#include "reference/session.h"

namespace lockstep {
namespace {

const model::Model* gemma() {
  static const std::unique_ptr<model::Model> model = [] {
    const char* own = std::getenv("LOCKSTEP_CACHE");
    const char* home = std::getenv("HOME");
    const std::string cache = own != nullptr    ? own
                              : home != nullptr ? std::string(home) + "/.cache/lockstep"
                                                : std::string(".");
    auto loaded = model::load(cache + "/models/gemma-3-270m-q4_k_m.gguf");
    return loaded ? std::make_unique<model::Model>(std::move(loaded).value()) : nullptr;
  }();
  return model.get();
}

std::vector<trace::TokenId> prompt() {
  base::Prng prng(1);
  std::vector<trace::TokenId> tokens(128);
  for (trace::TokenId& token : tokens) token = static_cast<trace::TokenId>(prng.below(262144));
  return tokens;
}

void calibration(benchmark::State& state) {
  std::uint64_t x = 1;
  for (auto _ : state) {
    for (int i = 0; i < 10'000'000; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
    benchmark::DoNotOptimize(x);
  }
}
BENCHMARK(calibration)->Unit(benchmark::kMillisecond);

void session_prefill(benchmark::State& state) {
  if (gemma() == nullptr) return state.SkipWithError("the model is not in the cache");
  auto session = reference::Session::open(*gemma(), {reference::WeightPrecision::F32, {}, 1});
  const std::vector<trace::TokenId> tokens = prompt();
  for (auto _ : state) {
    session->truncate(0);
    benchmark::DoNotOptimize(session->append(tokens, {tokens.size() - 1}));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(tokens.size()));
}
BENCHMARK(session_prefill)->Unit(benchmark::kMillisecond);

void session_decode(benchmark::State& state) {
  if (gemma() == nullptr) return state.SkipWithError("the model is not in the cache");
  auto session = reference::Session::open(*gemma(), {reference::WeightPrecision::F32, {}, 1});
  session->append(prompt(), {128});
  for (auto _ : state) {
    session->truncate(128);
    benchmark::DoNotOptimize(session->append(std::vector<trace::TokenId>{5}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(session_decode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
