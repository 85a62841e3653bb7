// Laws of gemv: exact probes, the contract's bound, rows independent of the batch.
#include "kernels/gemv.h"

#include "kernels/test_weights.h"

namespace lockstep::kernels {
namespace {

using model::DType;

class Gemv : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, Gemv, generations(), generation_name);

std::vector<double> run(TestDevice& device, const DeviceWeight& weight,
                        const std::vector<double>& x) {
  const auto rows = static_cast<std::uint32_t>(x.size() / weight.columns);
  const device::Buffer input = device.upload(DType::F32, x);
  const device::Buffer y = device.allocate(std::size_t{rows} * weight.rows * 4);
  device.expect_clean(launch_gemv(device.context(), {input.address(), weight, y.address(), rows}));
  return device.download(DType::F32, y);
}

// sum w x and sum |w x|, plain loops in double.
struct Want {
  std::vector<double> value, radius;
};
Want want_of(TestWeights& weights, const std::vector<double>& x, double depth) {
  const std::vector<double> w = weight_values(weights);
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
      // The double sum's own error, and results below the normal range.
      want.radius.push_back(gamma(depth) * absolute + 0x1p-53 * (weights.columns + 1.0) * absolute +
                            depth * 0x1p-149);
    }
  }
  return want;
}

std::string label(DType dtype, std::uint32_t outputs, std::uint32_t columns) {
  return std::string(model::name(dtype)) + " " + std::to_string(outputs) + " x " +
         std::to_string(columns);
}

TEST_P(Gemv, StaysWithinItsContractsBound) {
  TestDevice device(GetParam());
  base::Prng prng(1);
  double worst = 0;
  for (const DType dtype : kWeightTypes) {
    for (const std::uint32_t columns : column_counts(dtype)) {
      for (const std::uint32_t outputs : {1u, 13u, 40u}) {
        TestWeights weights = random_weights(prng, dtype, outputs, columns);
        const UploadedWeights uploaded = upload(device, weights);
        const std::vector<double> x = random_values(prng, DType::F32, 3 * columns);
        const trace::Contract contract = gemv_contract({.weight = uploaded.weight, .rows = 3});
        const Want want = want_of(weights, x, contract.rounding_depth);
        worst = std::max(worst, expect_within(run(device, uploaded.weight, x), want.value,
                                              want.radius, label(dtype, outputs, columns)));
      }
    }
  }
  EXPECT_GT(worst, 0);
  RecordProperty("worst_ratio", std::to_string(worst));
}

TEST_P(Gemv, IsExactOnSmallIntegers) {
  TestDevice device(GetParam());
  base::Prng prng(2);
  for (const DType dtype : kWeightTypes) {
    for (const std::uint32_t columns : column_counts(dtype)) {
      TestWeights weights = integer_weights(prng, dtype, 11, columns);
      const UploadedWeights uploaded = upload(device, weights);
      std::vector<double> x(2 * columns);
      for (double& value : x) value = static_cast<double>(prng.below(17)) - 8;
      // |w x| <= 128 * 8, at most 2^11 of them: below 2^24.
      EXPECT_EQ(run(device, uploaded.weight, x), want_of(weights, x, 0).value)
          << label(dtype, 11, columns);
    }
  }
}

// A row of x that is 1 at one k and 0 elsewhere reads that column of the matrix, for every k.
TEST_P(Gemv, OneHotRowsReadEachColumn) {
  TestDevice device(GetParam());
  base::Prng prng(3);
  for (const DType dtype : kWeightTypes) {
    const std::uint32_t block = model::layout(dtype).block_elements;
    const std::uint32_t columns = block == 256 ? 512 : block == 32 ? 288 : 139;
    TestWeights weights = random_weights(prng, dtype, 9, columns);
    const UploadedWeights uploaded = upload(device, weights);
    std::vector<double> x(std::size_t{columns} * columns), want;
    const std::vector<double> w = weight_values(weights);
    for (std::uint32_t k = 0; k < columns; ++k) {
      x[std::size_t{k} * columns + k] = 1;
      for (std::uint32_t o = 0; o < 9; ++o) want.push_back(w[o * columns + k]);
    }
    EXPECT_EQ(run(device, uploaded.weight, x), want) << label(dtype, 9, columns);
  }
}

TEST_P(Gemv, RowsBitsDoNotDependOnTheBatch) {
  TestDevice device(GetParam());
  base::Prng prng(4);
  for (const DType dtype : kWeightTypes) {
    for (const std::uint32_t columns : {256u, 2048u}) {  // one part, and several
      TestWeights weights = random_weights(prng, dtype, 21, columns);
      const UploadedWeights uploaded = upload(device, weights);
      const std::vector<double> x = random_values(prng, DType::F32, 17 * columns);
      std::vector<double> alone;
      for (std::uint32_t r = 0; r < 17; ++r) {
        const std::vector<double> y =
            run(device, uploaded.weight, {x.begin() + r * columns, x.begin() + (r + 1) * columns});
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (const std::uint32_t rows : {2u, 3u, 4u, 5u, 7u, 8u, 9u, 17u}) {
        const std::vector<double> y =
            run(device, uploaded.weight, {x.begin(), x.begin() + rows * columns});
        EXPECT_TRUE(std::equal(y.begin(), y.end(), alone.begin()))
            << label(dtype, 21, columns) << ", " << rows << " rows";
      }
    }
  }
}

// Tiles in turns: more than a grid has at a time, the last one not whole.
TEST_P(Gemv, ManyOutputsAreExactToo) {
  TestDevice device(GetParam());
  base::Prng prng(6);
  const std::uint32_t outputs = 8 * 8192 + 21;
  TestWeights weights = integer_weights(prng, DType::Q8_0, outputs, 32);
  const UploadedWeights uploaded = upload(device, weights);
  std::vector<double> x(2 * 32);
  for (double& value : x) value = static_cast<double>(prng.below(17)) - 8;
  EXPECT_EQ(run(device, uploaded.weight, x), want_of(weights, x, 0).value);
}

TEST_P(Gemv, NoScheduleChangesABit) {
  base::Prng prng(7);
  for (const std::uint32_t columns : {640u, 2048u}) {
    TestWeights weights = random_weights(prng, DType::Q5_0, 40, columns);
    const std::vector<double> x = random_values(prng, DType::F32, 3 * columns);
    std::vector<double> first;
    for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
      device::DeviceOptions options;
      options.schedule_seed = seed;
      TestDevice device(GetParam(), options);
      const UploadedWeights uploaded = upload(device, weights);
      const std::vector<double> y = run(device, uploaded.weight, x);
      if (seed == 0) first = y;
      EXPECT_EQ(y, first) << "seed " << seed;
    }
  }
}

TEST_P(Gemv, ZeroRowsLaunchNothing) {
  TestDevice device(GetParam());
  base::Prng prng(5);
  TestWeights weights = random_weights(prng, DType::Q8_0, 8, 32);
  const UploadedWeights uploaded = upload(device, weights);
  device.expect_clean(launch_gemv(device.context(), {256, uploaded.weight, 256, 0}));
  EXPECT_EQ(device.device().counters().launches, 0u);
}

}  // namespace
}  // namespace lockstep::kernels
