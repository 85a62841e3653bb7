// Matrix products: bits and bounds.
#include "reference/ops/matmul.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/prng.h"
#include "reference/ops/matmul_functions.h"

namespace lockstep::reference {
namespace {

struct TestWeight {
  TestWeight(std::size_t outputs, std::size_t inputs, std::vector<float> values_in)
      : values(std::move(values_in)) {
    tensor.name = std::string("w");
    tensor.dtype = model::DType::F32;
    tensor.shape = {outputs, inputs};
    tensor.data = std::as_bytes(std::span(values));
  }
  Weight open(WeightPrecision precision = WeightPrecision::Exact) const {
    return Weight::open(tensor, precision).value();
  }
  std::vector<float> values;
  model::TensorInfo tensor;
};

TestWeight random_weight(std::size_t outputs, std::size_t inputs, base::Prng& prng) {
  std::vector<float> values(outputs * inputs);
  for (float& value : values) value = static_cast<float>(prng.normal());
  return TestWeight(outputs, inputs, std::move(values));
}

std::vector<double> random_rows(std::size_t count, base::Prng& prng) {
  std::vector<double> values(count);
  for (double& value : values) value = prng.normal();
  return values;
}

// The sum that matmul.h states, written out.
double stated_sum(const double* x, const float* w, std::size_t inputs, bool magnitude) {
  double sums[8] = {};
  for (std::size_t i = 0; i < inputs; ++i) {
    const double product = x[i] * static_cast<double>(w[i]);
    sums[i % 8] += magnitude ? std::abs(product) : product;
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

TEST(Matmul, BitsAreTheStatedSumForEveryShape) {
  base::Prng prng(1);
  for (const std::size_t inputs : {1u, 7u, 8u, 9u, 64u, 100u, 640u}) {
    for (const std::size_t rows : {0u, 1u, 2u, 3u, 4u, 5u, 9u}) {
      for (const std::size_t outputs : {1u, 3u, 5u, 17u}) {
        const TestWeight weight = random_weight(outputs, inputs, prng);
        const std::vector<double> x = random_rows(rows * inputs, prng);
        std::vector<double> y(rows * outputs), with(y), magnitude(y);
        matmul(x, rows, weight.open(), y);
        matmul(x, rows, weight.open(), with, magnitude);
        EXPECT_EQ(y, with);
        for (std::size_t r = 0; r < rows; ++r) {
          for (std::size_t o = 0; o < outputs; ++o) {
            const double* row = x.data() + r * inputs;
            const float* weights = weight.values.data() + o * inputs;
            EXPECT_EQ(y[r * outputs + o], stated_sum(row, weights, inputs, false));
            EXPECT_EQ(magnitude[r * outputs + o], stated_sum(row, weights, inputs, true));
          }
        }
      }
    }
  }
}

TEST(Matmul, HostVectorWidthsAndThreadCountsAgreeToTheBit) {
  base::Prng prng(2);
  const std::size_t rows = 7, outputs = 301, inputs = 520;
  const TestWeight weight = random_weight(outputs, inputs, prng);
  const std::vector<double> x = random_rows(rows * inputs, prng);
  std::vector<double> want(rows * outputs), want_magnitude(want.size());
  matmul(x, rows, weight.open(), want, want_magnitude);
  std::vector<double> w(outputs * inputs);
  weight.open().rows(0, outputs, w);
  for (const HostVectors vectors :
       {HostVectors::Baseline, HostVectors::Avx2, HostVectors::Avx512}) {
    if (vectors > host_vectors()) continue;
    std::vector<double> y(want.size()), magnitude(want.size());
    matmul_function(vectors)(
        {x.data(), rows, w.data(), outputs, inputs, y.data(), magnitude.data(), outputs});
    EXPECT_EQ(y, want);
    EXPECT_EQ(magnitude, want_magnitude);
    matmul_function(vectors)(
        {x.data(), rows, w.data(), outputs, inputs, y.data(), nullptr, outputs});
    EXPECT_EQ(y, want);
  }
  for (const std::size_t threads : {1u, 2u, 5u}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    std::vector<double> y(want.size());
    matmul(x, rows, weight.open(), y);
    EXPECT_EQ(y, want);
  }
}

TEST(Matmul, ErrorIsWithinItsStatedBound) {
  base::Prng prng(3);
  const std::size_t rows = 3, outputs = 40, inputs = 2048;
  const TestWeight weight = random_weight(outputs, inputs, prng);
  const std::vector<double> x = random_rows(rows * inputs, prng);
  std::vector<double> y(rows * outputs), magnitude(y.size());
  matmul(x, rows, weight.open(), y, magnitude);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < outputs; ++o) {
      // long double: 64-bit products of 53 x 24 bits round too, 2^11 times finer
      long double exact = 0, exact_magnitude = 0;
      for (std::size_t i = 0; i < inputs; ++i) {
        const long double product =
            static_cast<long double>(x[r * inputs + i]) * weight.values[o * inputs + i];
        exact += product;
        exact_magnitude += std::abs(product);
      }
      const long double slack = exact_magnitude * (static_cast<long double>(inputs) + 1) * 0x1p-64L;
      const double allowed = matmul_relative_error(inputs) * magnitude[r * outputs + o];
      EXPECT_LE(std::abs(y[r * outputs + o] - exact), allowed + slack);
      EXPECT_LE(std::abs(magnitude[r * outputs + o] - exact_magnitude), allowed + slack);
    }
  }
}

TEST(Weight, PrecisionsRoundInTheContractsOrder) {
  // Q5_1 with d = 2^-24 and m = 1 + 2^-10: codes 1 and 3 put the exact value halfway between two
  // float32 numbers, which float16 and bfloat16 see only after that rounding.
  std::vector<std::byte> block(24);
  const std::uint16_t d = 0x0001;         // 2^-24
  const std::uint16_t m = 0x3c00 | 0x01;  // 1 + 2^-10
  std::memcpy(block.data(), &d, 2);
  std::memcpy(block.data() + 2, &m, 2);
  for (std::size_t i = 0; i < 16; ++i) block[8 + i] = static_cast<std::byte>(0x31);
  model::TensorInfo tensor;
  tensor.name = std::string("w");
  tensor.dtype = model::DType::Q5_1;
  tensor.shape = {32};
  tensor.data = block;
  std::vector<double> row(32);
  Weight::open(tensor, WeightPrecision::Exact)->row(0, row);
  EXPECT_EQ(row[0], 1 + 0x1p-10 + 0x1p-24);
  EXPECT_EQ(row[16], 1 + 0x1p-10 + 3 * 0x1p-24);
  Weight::open(tensor, WeightPrecision::F32)->row(0, row);
  EXPECT_EQ(row[0], 1 + 0x1p-10);             // tie to even
  EXPECT_EQ(row[16], 1 + 0x1p-10 + 0x1p-22);  // tie to even, upward
  Weight::open(tensor, WeightPrecision::F16)->row(0, row);
  EXPECT_EQ(row[0], 1 + 0x1p-10);
  Weight::open(tensor, WeightPrecision::BF16)->row(0, row);
  EXPECT_EQ(row[0], 1.0);
}

TEST(Weight, TypeWithoutDecoderIsRefusedByName) {
  model::TensorInfo tensor;
  tensor.name = std::string("blk.0.attn_q.weight");
  tensor.dtype = model::DType::IQ2_XS;
  tensor.shape = {1, 256};
  const auto weight = Weight::open(tensor, WeightPrecision::Exact);
  ASSERT_FALSE(weight);
  EXPECT_EQ(weight.error().kind, base::ErrorKind::Unsupported);
  EXPECT_NE(weight.error().message().find("blk.0.attn_q.weight"), std::string::npos);
  EXPECT_NE(weight.error().message().find("IQ2_XS"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::reference
