// Speed of the reference at the shape of Gemma 3 270M (Q4_K_M): matrix products of one decode step
// and of a prefill of 128 tokens (the head for the last one only), tensor-core balls and replay,
// and block decoding, each on one core. Calibration is a fixed loop of dependent integer
// operations: divide by it to compare machines or a loaded machine with itself.
#include <benchmark/benchmark.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "reference/formats/decoder.h"
#include "reference/formats/ieee.h"
#include "reference/ops/matmul.h"
#include "reference/tensor_core.h"

namespace lockstep {
namespace {

using model::DType;
using reference::Weight;
using reference::WeightPrecision;

// A matrix of random codes; 16-bit words where blocks keep float16 scales are set near 2^-7.
struct RandomMatrix {
  RandomMatrix(DType dtype, std::uint64_t outputs, std::uint64_t inputs, base::Prng& prng) {
    const model::DTypeLayout& layout = model::layout(dtype);
    bytes.resize(outputs * inputs / layout.block_elements * layout.block_bytes);
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const std::uint64_t word = prng.next();
      std::memcpy(bytes.data() + i, &word, sizeof word);
    }
    const std::size_t scale_at = dtype == DType::Q6_K ? 208 : 0;
    const bool has_minimum = dtype == DType::Q4_K || dtype == DType::Q4_1;
    for (std::size_t b = 0; b < bytes.size(); b += layout.block_bytes) {
      const auto scale = static_cast<std::uint16_t>(0x2000 | (prng.next() & 0x83ff));
      std::memcpy(bytes.data() + b + scale_at, &scale, 2);
      if (has_minimum) std::memcpy(bytes.data() + b + scale_at + 2, &scale, 2);
    }
    tensor.name = std::string("w");
    tensor.dtype = dtype;
    tensor.shape = {outputs, inputs};
    tensor.data = bytes;
  }
  std::vector<std::byte> bytes;
  model::TensorInfo tensor;
};

struct GemmaShape {
  GemmaShape() : head(DType::Q8_0, 262144, 640, prng) {
    for (int layer = 0; layer < 18; ++layer) {
      const bool larger = layer % 2 == 0;  // half of the layers have Q8_0 and Q6_K
      add(DType::Q5_0, 1024, 640);
      add(DType::Q5_0, 256, 640);
      add(larger ? DType::Q8_0 : DType::Q5_0, 256, 640);
      add(DType::Q4_K, 640, 1024);
      add(DType::Q5_0, 2048, 640);
      add(DType::Q5_0, 2048, 640);
      add(larger ? DType::Q6_K : DType::Q4_K, 640, 2048);
    }
  }
  void add(DType dtype, std::uint64_t outputs, std::uint64_t inputs) {
    layers.push_back(std::make_unique<RandomMatrix>(dtype, outputs, inputs, prng));
  }
  base::Prng prng{1};
  RandomMatrix head;
  std::vector<std::unique_ptr<RandomMatrix>> layers;
};

const GemmaShape& gemma() {
  static const GemmaShape shape;
  return shape;
}

std::vector<double> random_values(std::size_t count, DType format) {
  base::Prng prng(2);
  std::vector<double> values(count);
  for (double& value : values) value = reference::round_to(format, prng.normal());
  return values;
}

Weight open(const RandomMatrix& matrix, WeightPrecision precision) {
  return Weight::open(matrix.tensor, precision).value();
}

void multiply(const RandomMatrix& matrix, std::size_t rows, bool magnitude) {
  const Weight w = open(matrix, WeightPrecision::F32);
  static const std::vector<double> x = random_values(128 * 2048, DType::F32);
  static std::vector<double> y(262144), a(262144);
  y.resize(std::max(y.size(), rows * w.outputs()));
  a.resize(y.size());
  const std::span<const double> inputs = std::span(x).first(rows * w.inputs());
  const std::span<double> outputs = std::span(y).first(rows * w.outputs());
  if (magnitude) {
    reference::matmul(inputs, rows, w, outputs, std::span(a).first(outputs.size()));
  } else {
    reference::matmul(inputs, rows, w, outputs);
  }
  benchmark::DoNotOptimize(y.data());
}

void calibration(benchmark::State& state) {
  for (auto _ : state) {
    std::uint64_t value = 1;
    for (int i = 0; i < 1'000'000; ++i) {
      value ^= value << 13;
      value ^= value >> 7;
      value ^= value << 17;
    }
    benchmark::DoNotOptimize(value);
  }
}
BENCHMARK(calibration)->Unit(benchmark::kMillisecond);

// Args: threads, magnitudes too.
void decode_step(benchmark::State& state) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(state.range(0)));
  const GemmaShape& shape = gemma();
  for (auto _ : state) {
    for (const auto& matrix : shape.layers) multiply(*matrix, 1, state.range(1) != 0);
    multiply(shape.head, 1, state.range(1) != 0);
  }
  state.counters["tok/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
// One thread is measured in CPU time, which a busy machine stretches less than real time.
BENCHMARK(decode_step)->Args({1, 0})->Args({1, 1})->Unit(benchmark::kMillisecond);
BENCHMARK(decode_step)->Args({2, 0})->Unit(benchmark::kMillisecond)->UseRealTime();

void prefill(benchmark::State& state) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(state.range(0)));
  const GemmaShape& shape = gemma();
  for (auto _ : state) {
    for (const auto& matrix : shape.layers) multiply(*matrix, 128, state.range(1) != 0);
    multiply(shape.head, 1, state.range(1) != 0);
  }
  state.counters["tok/s"] = benchmark::Counter(128 * static_cast<double>(state.iterations()),
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(prefill)->Args({1, 0})->Args({1, 1})->Unit(benchmark::kMillisecond);
BENCHMARK(prefill)->Args({2, 0})->Unit(benchmark::kMillisecond)->UseRealTime();

// Balls of all outputs of 26 rows. Args: L, F.
void tensor_core_balls(benchmark::State& state) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  const trace::TensorCoreInfo info{static_cast<std::uint32_t>(state.range(0)),
                                   static_cast<std::uint32_t>(state.range(1)), -132};
  trace::Contract contract;
  contract.input_format = contract.weight_format = DType::F16;
  const std::size_t rows = 26;
  const std::vector<double> x = random_values(rows * 2048, DType::F16);
  std::vector<double> value(rows * 2048), radius(value.size());
  for (auto _ : state) {
    for (const auto& matrix : gemma().layers) {
      const Weight w = open(*matrix, WeightPrecision::F16);
      const std::size_t outputs = rows * w.outputs();
      reference::tensor_core_products(contract, info, std::span(x).first(rows * w.inputs()), rows,
                                      w, std::span(value).first(outputs),
                                      std::span(radius).first(outputs));
    }
    benchmark::DoNotOptimize(radius.data());
  }
  state.counters["products/s"] = benchmark::Counter(
      26 * 100.3e6 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(tensor_core_balls)->Args({16, 25})->Args({8, 24})->Unit(benchmark::kMillisecond);

void tensor_core_replays(benchmark::State& state) {
  const trace::TensorCoreInfo info{static_cast<std::uint32_t>(state.range(0)), 25, -133};
  base::Prng prng(3);
  std::vector<std::uint16_t> a(2048), b(2048);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = reference::f16_bits(prng.normal());
    b[i] = reference::f16_bits(prng.normal());
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(reference::tensor_core_chain(info, DType::F16, 16, a, b, 0));
  }
  state.counters["products/s"] = benchmark::Counter(2048 * static_cast<double>(state.iterations()),
                                                    benchmark::Counter::kIsRate);
}
BENCHMARK(tensor_core_replays)->Arg(16)->Arg(8);

// Widening alone; one row of 2048 values, in cache.
void decode_blocks(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  base::Prng prng(4);
  const RandomMatrix matrix(dtype, 1, 2048, prng);
  const Weight w = open(matrix, static_cast<WeightPrecision>(state.range(1)));
  std::vector<double> row(2048);
  for (auto _ : state) {
    w.row(0, row);
    benchmark::DoNotOptimize(row.data());
  }
  std::string label(model::name(dtype));
  if (state.range(1) != static_cast<int>(WeightPrecision::F32)) label += " to f16";
  state.SetLabel(label);
  state.counters["values/s"] = benchmark::Counter(2048 * static_cast<double>(state.iterations()),
                                                  benchmark::Counter::kIsRate);
}
void decode_arguments(benchmark::internal::Benchmark* decode) {
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q4_1,
                            DType::Q5_0, DType::Q8_0, DType::Q4_K, DType::Q6_K}) {
    decode->Args({static_cast<int>(dtype), static_cast<int>(WeightPrecision::F32)});
  }
  decode->Args({static_cast<int>(DType::Q4_K), static_cast<int>(WeightPrecision::F16)});
}
BENCHMARK(decode_blocks)->Apply(decode_arguments);

}  // namespace
}  // namespace lockstep
