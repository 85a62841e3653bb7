// Laws of gate: bound of the contract over the whole range, exact points, tails.
#include "kernels/gate.h"

#include "kernels/test_device.h"

namespace lockstep::kernels {
namespace {

using model::Activation;
using model::DType;

std::vector<double> run(TestDevice& device, Activation activation, DType format,
                        const std::vector<double>& g, const std::vector<double>& up) {
  const device::Buffer gate = device.upload(DType::F32, g);
  const device::Buffer other = device.upload(DType::F32, up);
  const device::Buffer out = device.allocate(g.size() * bytes_of(format));
  device.expect_clean(launch_gate(device.context(), {.gate = gate.address(),
                                                     .up = other.address(),
                                                     .out = out.address(),
                                                     .out_format = format,
                                                     .activation = activation,
                                                     .count = g.size()}));
  return device.download(format, out);
}

class Gate : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, Gate, generations(), generation_name);

// y and its radius: exp carries the error of its argument, 8 u of 2 |z| (3 u of |g| for SiLU).
void expect_bound(Activation activation, DType format, double g, double up, double got) {
  const bool gelu = activation == Activation::GeluTanh;
  const double z2 = gelu ? 2 * std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g) : g;
  const double sigmoid = 1 / (1 + std::exp(-z2));
  const double y = g * sigmoid * up;
  const double radius =
      std::abs(y) *
          ((std::abs(z2) * (gelu ? 8 : 3) * kU + 0x1p-22) * (1 - sigmoid) + (gelu ? 5 : 4) * kU) +
      std::abs(g * up) * 0x1p-126 + 0x1p-149;
  ASSERT_GE(got, round_to(format, y - radius)) << "g " << g << " up " << up;
  ASSERT_LE(got, round_to(format, y + radius)) << "g " << g << " up " << up;
}

TEST_P(Gate, StaysWithinItsContractsBound) {
  for (const device::ApproximationMode mode :
       {device::ApproximationMode::Nominal, device::ApproximationMode::Low,
        device::ApproximationMode::High, device::ApproximationMode::Hashed}) {
    device::DeviceOptions options;
    options.approximation = mode;
    TestDevice device(GetParam(), options);
    for (const Activation activation : {Activation::Silu, Activation::GeluTanh}) {
      for (const DType format : {DType::F32, DType::F16, DType::BF16}) {
        base::Prng prng(17);
        std::vector<double> g, up;
        for (int i = 0; i < 1021; ++i) {
          const double scale = std::exp2(static_cast<double>(prng.below(24)) - 16);
          g.push_back(round_to(DType::F32, scale * prng.normal()));
          up.push_back(round_to(DType::F32, prng.normal()));
        }
        const std::vector<double> got = run(device, activation, format, g, up);
        for (std::size_t i = 0; i < g.size(); ++i) {
          expect_bound(activation, format, g[i], up[i], got[i]);
        }
      }
    }
  }
}

TEST_P(Gate, ZeroGivesPlusZeroAndLargeOnesSaturate) {
  TestDevice device(GetParam());
  for (const Activation activation : {Activation::Silu, Activation::GeluTanh}) {
    const std::vector<double> g = {0, 1e4, 1e30, -1e4, -1e30, 200, -200};
    const std::vector<double> got =
        run(device, activation, DType::F32, g, std::vector<double>(g.size(), 2));
    EXPECT_EQ(got[0], 0);
    EXPECT_FALSE(std::signbit(got[0]));
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double want = g[i] > 0 ? round_to(DType::F32, g[i]) * 2 : 0;
      EXPECT_EQ(got[i], want) << g[i];
    }
  }
}

TEST_P(Gate, EveryLengthIsWrittenAndNothingBeyondIt) {
  TestDevice device(GetParam());
  for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 7u, 1023u, 1024u, 1027u}) {
    base::Prng prng(count);
    const std::vector<double> g = random_values(prng, DType::F32, count);
    const std::vector<double> up = random_values(prng, DType::F32, count);
    const std::vector<double> got = run(device, Activation::Silu, DType::F16, g, up);
    ASSERT_EQ(got.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      expect_bound(Activation::Silu, DType::F16, g[i], up[i], got[i]);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
