// Laws of gemm: exact probes, a bound for tensor-core sums, rows independent of the batch.
#include "kernels/gemm.h"

#include "kernels/test_weights.h"

namespace lockstep::kernels {
namespace {

using model::DType;

class Gemm : public EachGeneration {
 protected:
  // Products a block and fraction bits of mma.sync with 16-bit operands on this generation.
  double products() const { return std::string(GetParam()) == "vgpu:sm_80" ? 8 : 16; }
  double fraction_bits() const { return std::string(GetParam()) == "vgpu:sm_80" ? 24 : 25; }
};
INSTANTIATE_TEST_SUITE_P(Generations, Gemm, generations(), generation_name);

constexpr DType kFormats[] = {DType::F16, DType::BF16};

std::vector<double> run(TestDevice& device, const DeviceWeight& weight, DType format,
                        const std::vector<double>& x) {
  const auto rows = static_cast<std::uint32_t>(x.size() / weight.columns);
  const device::Buffer input = device.upload(format, x);
  const device::Buffer y = device.allocate(std::size_t{rows} * weight.rows * 4);
  device.expect_clean(
      launch_gemm(device.context(), {input.address(), weight, y.address(), rows, format}));
  return device.download(DType::F32, y);
}

struct Want {
  std::vector<double> value, absolute;
};
// Plain loops in double over the rounded operands.
Want want_of(TestWeights& weights, DType format, const std::vector<double>& x) {
  std::vector<double> w = weight_values(weights);
  for (double& value : w) value = round_to(format, value);
  const std::size_t columns = weights.columns, rows = x.size() / columns;
  Want want;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < weights.rows; ++o) {
      double sum = 0, absolute = 0;
      for (std::size_t k = 0; k < columns; ++k) {
        const double term = w[o * columns + k] * x[r * columns + k];
        sum += term;
        absolute += std::abs(term);
      }
      want.value.push_back(sum);
      want.absolute.push_back(absolute);
    }
  }
  return want;
}

std::string label(DType dtype, DType format, std::uint32_t rows, std::uint32_t outputs,
                  std::uint32_t columns) {
  return std::string(model::name(dtype)) + " as " + std::string(model::name(format)) + ", " +
         std::to_string(rows) + " rows, " + std::to_string(outputs) + " x " +
         std::to_string(columns);
}

// Order-free bound: each of N blocks cuts L + 1 terms below 2^-F of the largest, and its sum to 24
// bits; every exponent is at most that of sum |w x| (operands of normal numbers: products of two
// significands below 2 carry into the next power of two, hence the factor 2).
TEST_P(Gemm, StaysWithinATensorCoreSumsBound) {
  TestDevice device(GetParam());
  base::Prng prng(1);
  for (const DType dtype : kWeightTypes) {
    for (const DType format : kFormats) {
      for (const std::uint32_t columns : column_counts(dtype)) {
        const std::uint32_t rows = columns % 3 == 0 ? 33 : 18;
        TestWeights weights = random_weights(prng, dtype, 27, columns);
        const UploadedWeights uploaded = upload(device, weights);
        const std::vector<double> x = random_values(prng, format, std::size_t{rows} * columns);
        const Want want = want_of(weights, format, x);
        const double blocks = std::ceil(columns / products());
        const double unit =
            (products() + 1) * std::ldexp(1.0, -static_cast<int>(fraction_bits())) + 0x1p-23;
        std::vector<double> radius = want.absolute;
        for (double& each : radius) {
          each = 2 * blocks * unit * each + 0x1p-53 * (columns + 1.0) * each +
                 blocks * (products() + 1) * 0x1p-149;
        }
        expect_within(run(device, uploaded.weight, format, x), want.value, radius,
                      label(dtype, format, rows, 27, columns));
      }
    }
  }
}

TEST_P(Gemm, IsExactOnSmallIntegers) {
  TestDevice device(GetParam());
  base::Prng prng(2);
  for (const DType dtype : kWeightTypes) {
    for (const DType format : kFormats) {
      for (const std::uint32_t columns : column_counts(dtype)) {
        const std::uint32_t outputs = columns % 5 + 63;
        TestWeights weights = integer_weights(prng, dtype, outputs, columns);
        const UploadedWeights uploaded = upload(device, weights);
        std::vector<double> x(std::size_t{5} * columns);
        for (double& value : x) value = static_cast<double>(prng.below(17)) - 8;
        EXPECT_EQ(run(device, uploaded.weight, format, x), want_of(weights, format, x).value)
            << label(dtype, format, 5, outputs, columns);
      }
    }
  }
}

// A row of x that is 1 at one k and 0 elsewhere reads that column of the rounded matrix.
TEST_P(Gemm, OneHotRowsReadEachColumn) {
  TestDevice device(GetParam());
  base::Prng prng(3);
  for (const DType dtype : kWeightTypes) {
    const std::uint32_t block = model::layout(dtype).block_elements;
    const std::uint32_t columns = block == 256 ? 256 : block == 32 ? 288 : 139;
    TestWeights weights = random_weights(prng, dtype, 17, columns);
    const UploadedWeights uploaded = upload(device, weights);
    const std::vector<double> w = weight_values(weights);
    for (const DType format : kFormats) {
      std::vector<double> x(std::size_t{columns} * columns), want;
      for (std::uint32_t k = 0; k < columns; ++k) {
        x[std::size_t{k} * columns + k] = 1;
        for (std::uint32_t o = 0; o < 17; ++o) want.push_back(round_to(format, w[o * columns + k]));
      }
      EXPECT_EQ(run(device, uploaded.weight, format, x), want)
          << label(dtype, format, columns, 17, columns);
    }
  }
}

TEST_P(Gemm, RowsBitsDoNotDependOnTheBatch) {
  TestDevice device(GetParam());
  base::Prng prng(4);
  for (const DType dtype : {DType::F16, DType::Q4_K, DType::Q8_0}) {
    for (const std::uint32_t columns : {256u, 1024u}) {
      TestWeights weights = random_weights(prng, dtype, 24, columns);
      const UploadedWeights uploaded = upload(device, weights);
      const std::uint32_t rows = 131;  // 64 + 64 + 3
      const std::vector<double> x = random_values(prng, DType::F16, std::size_t{rows} * columns);
      const std::vector<double> all = run(device, uploaded.weight, DType::F16, x);
      // {first, count}: rows alone and in passes of each size.
      const std::uint32_t cuts[][2] = {{0, 1},  {130, 1}, {77, 1}, {3, 9},
                                       {1, 16}, {40, 33}, {60, 64}};
      for (const auto& [first, count] : cuts) {
        const std::vector<double> y =
            run(device, uploaded.weight, DType::F16,
                {x.begin() + first * columns, x.begin() + (first + count) * columns});
        EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * 24))
            << label(dtype, DType::F16, count, 24, columns) << " from row " << first;
      }
    }
  }
}

TEST_P(Gemm, NoScheduleChangesABit) {
  base::Prng prng(5);
  TestWeights weights = random_weights(prng, DType::Q4_K, 70, 512);
  const std::vector<double> x = random_values(prng, DType::F16, 20 * 512);
  std::vector<double> first;
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    device::DeviceOptions options;
    options.schedule_seed = seed;
    TestDevice device(GetParam(), options);
    const UploadedWeights uploaded = upload(device, weights);
    const std::vector<double> y = run(device, uploaded.weight, DType::F16, x);
    if (seed == 0) first = y;
    EXPECT_EQ(y, first) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lockstep::kernels
