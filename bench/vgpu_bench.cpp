// Speed of the virtual GPU on one core: warp instructions a second on this project's own kernels,
// without checks and with all of them, for each host instruction set. Calibration is a fixed loop
// of dependent additions, one a cycle: divide by it to compare machines, or a loaded machine with
// itself. Goals on an idle AVX-512 core: 7 G lane instructions a second unchecked on gemv and
// rms_norm; at most three times slower with all checks.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "device/device.h"
#include "kernels/gemm.h"
#include "kernels/gemv.h"
#include "kernels/kernel_set.h"
#include "kernels/rms_norm.h"
#include "kernels/weights.h"

namespace lockstep {
namespace {

using device::Buffer;
using model::DType;

void Calibration(benchmark::State& state) {
  constexpr int kAdditions = 1 << 20;
  std::uint64_t sum = 1;
  for (auto unused : state) {
    for (int k = 0; k < kAdditions; ++k) asm volatile("add $1, %0" : "+r"(sum));
    benchmark::DoNotOptimize(sum);
  }
  state.counters["cycles/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * kAdditions, benchmark::Counter::kIsRate);
}
BENCHMARK(Calibration);

enum class Host : std::int64_t { Scalar, Avx2, Avx512 };
enum class Checks : std::int64_t { Off, Memory, All };

struct Subject {
  Subject(const benchmark::State& state, base::Prng& prng_in) : prng(prng_in) {
    device::DeviceOptions options;
    const char* names[] = {"scalar", "avx2", "avx512"};
    options.instruction_set = names[state.range(0)];
    options.memcheck = state.range(1) >= static_cast<std::int64_t>(Checks::Memory);
    options.initcheck = options.racecheck = options.synccheck =
        state.range(1) == static_cast<std::int64_t>(Checks::All);
    options.host_threads = 1;
    auto opened = device::open("vgpu:sm_90", options);
    if (opened) device = std::move(opened).value();
    if (device) kernels = std::make_unique<kernels::KernelSet>(*device);
  }
  Buffer bytes(std::size_t count, const std::vector<std::byte>& from) {
    Buffer buffer = device->allocate(count, "bench").value();
    LS_CHECK(device->copy_to_device(buffer.address(), from).ok());
    return buffer;
  }
  Buffer floats(std::size_t count) {
    std::vector<std::byte> data(count * 4);
    for (std::size_t k = 0; k < count; ++k) {
      const auto value = static_cast<float>(prng.unit() * 2 - 1);
      std::memcpy(data.data() + 4 * k, &value, 4);
    }
    return bytes(data.size(), data);
  }
  Buffer halves(std::size_t count) {
    std::vector<std::byte> data(count * 2);
    for (std::size_t k = 0; k < count; ++k) {
      const auto bits = static_cast<std::uint16_t>(0x3000 | (prng.next() & 0x8fff));
      std::memcpy(data.data() + 2 * k, &bits, 2);
    }
    return bytes(data.size(), data);
  }
  // Random codes; words that hold f16 scales are set near 2^-7.
  kernels::DeviceWeight weight(DType dtype, std::uint32_t rows, std::uint32_t columns) {
    const model::DTypeLayout& layout = model::layout(dtype);
    std::vector<std::byte> file(std::size_t{rows} * columns / layout.block_elements *
                                layout.block_bytes);
    for (std::byte& byte : file) byte = static_cast<std::byte>(prng.next());
    const std::size_t scale_at = dtype == DType::Q6_K ? 208 : 0;
    for (std::size_t b = 0; b < file.size(); b += layout.block_bytes) {
      const std::uint16_t scale = 0x2000;
      std::memcpy(file.data() + b + scale_at, &scale, 2);
      if (dtype == DType::Q4_K) std::memcpy(file.data() + b + 2, &scale, 2);
    }
    const auto packed = kernels::repack(dtype, rows, columns, file);
    weights.push_back(bytes(packed.size(), packed));
    return {dtype, rows, columns, weights.back().address()};
  }
  kernels::LaunchContext context() { return {*kernels, {}}; }

  base::Prng& prng;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<kernels::KernelSet> kernels;
  std::vector<Buffer> weights;
};

template <class Launch>
void run(benchmark::State& state, Subject& subject, const Launch& launch) {
  LS_CHECK(launch().ok());  // loads the kernel, warms the arenas
  for (const device::Diagnostic& diagnostic : subject.device->take_diagnostics()) {
    state.SkipWithError((diagnostic.checker + ": " + diagnostic.message).c_str());
    return;
  }
  const std::uint64_t before = subject.device->counters().warp_instructions;
  for (auto unused : state) LS_CHECK(launch().ok());
  const auto executed = static_cast<double>(subject.device->counters().warp_instructions - before);
  state.counters["lane/s"] = benchmark::Counter(executed * 32, benchmark::Counter::kIsRate);
  state.counters["ns/warp"] = benchmark::Counter(
      executed * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["warp_instructions"] = executed / static_cast<double>(state.iterations());
}

void RmsNorm(benchmark::State& state) {
  base::Prng prng(1);
  Subject subject(state, prng);
  if (!subject.device) return state.SkipWithError("not on this host");
  constexpr std::uint32_t kRows = 64, kHidden = 2048;
  const Buffer x = subject.floats(kRows * kHidden), w = subject.floats(kHidden);
  const Buffer out = subject.floats(kRows * kHidden);
  run(state, subject, [&] {
    return kernels::launch_rms_norm(subject.context(), {.x = x.address(),
                                                        .weight = w.address(),
                                                        .out = out.address(),
                                                        .rows = kRows,
                                                        .hidden = kHidden,
                                                        .epsilon = 1e-6f});
  });
}

template <DType kType>
void Gemv(benchmark::State& state) {
  base::Prng prng(2);
  Subject subject(state, prng);
  if (!subject.device) return state.SkipWithError("not on this host");
  constexpr std::uint32_t kOutputs = 1024, kInputs = 2048;
  const auto weight = subject.weight(kType, kOutputs, kInputs);
  const Buffer x = subject.floats(kInputs), y = subject.floats(kOutputs);
  run(state, subject, [&] {
    return kernels::launch_gemv(subject.context(), {x.address(), weight, y.address(), 1});
  });
}

void Gemm(benchmark::State& state) {
  base::Prng prng(3);
  Subject subject(state, prng);
  if (!subject.device) return state.SkipWithError("not on this host");
  constexpr std::uint32_t kRows = 64, kOutputs = 256, kInputs = 512;
  const auto weight = subject.weight(DType::Q8_0, kOutputs, kInputs);
  const Buffer x = subject.halves(kRows * kInputs), y = subject.floats(kRows * kOutputs);
  run(state, subject, [&] {
    return kernels::launch_gemm(subject.context(),
                                {x.address(), weight, y.address(), kRows, DType::F16});
  });
}

void arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"host", "checks"});
  for (const Host host : {Host::Avx512, Host::Avx2, Host::Scalar}) {
    for (const Checks checks : {Checks::Off, Checks::Memory, Checks::All}) {
      if (host != Host::Avx512 && checks == Checks::Memory) continue;
      bench->Args({static_cast<std::int64_t>(host), static_cast<std::int64_t>(checks)});
    }
  }
}
BENCHMARK(RmsNorm)->Apply(arguments);
BENCHMARK_TEMPLATE(Gemv, DType::Q8_0)->Apply(arguments);
BENCHMARK_TEMPLATE(Gemv, DType::Q4_K)->Apply(arguments);
BENCHMARK_TEMPLATE(Gemv, DType::F16)->Apply(arguments);
BENCHMARK(Gemm)->Apply(arguments);

}  // namespace
}  // namespace lockstep
