// Laws of rms_norm: bound of the contract, exact symmetries, rows independent of the batch.
#include "kernels/rms_norm.h"

#include "kernels/test_device.h"

namespace lockstep::kernels {
namespace {

using model::DType;

struct Problem {
  std::uint32_t rows = 1, hidden = 1;
  double epsilon = 1e-6f;
  DType out_format = DType::F32;
  std::vector<double> x = {}, weight = {};
};

Problem random_problem(std::uint32_t rows, std::uint32_t hidden, DType out_format,
                       std::uint64_t seed) {
  base::Prng prng(seed);
  Problem problem{.rows = rows, .hidden = hidden, .out_format = out_format};
  problem.x = random_values(prng, DType::F32, std::size_t{rows} * hidden);
  problem.weight = random_values(prng, DType::F32, hidden);
  return problem;
}

RmsNormArgs arguments(const Problem& problem) {
  return {.out_format = problem.out_format,
          .rows = problem.rows,
          .hidden = problem.hidden,
          .epsilon = static_cast<float>(problem.epsilon)};
}

// 1/2 (d + 3) u for the mean and its root, the root's own error, two products.
double relative_bound(const Problem& problem) {
  return 0.5 * (rms_norm_contract(arguments(problem)).rounding_depth + 3) * kU +
         std::max(std::exp2(-22.9), 2 * kU) + 2 * kU;
}

std::vector<double> run(TestDevice& device, const Problem& problem,
                        const std::vector<std::uint32_t>& source_rows = {}) {
  const device::Buffer x = device.upload(DType::F32, problem.x);
  const device::Buffer weight = device.upload(DType::F32, problem.weight);
  const device::Buffer sources = device.upload_integers(source_rows);
  RmsNormArgs args = arguments(problem);
  if (!source_rows.empty()) args.rows = static_cast<std::uint32_t>(source_rows.size());
  const device::Buffer out =
      device.allocate(std::size_t{args.rows} * problem.hidden * bytes_of(problem.out_format));
  args.x = x.address();
  args.weight = weight.address();
  args.source_rows = source_rows.empty() ? 0 : sources.address();
  args.out = out.address();
  device.expect_clean(launch_rms_norm(device.context(), args));
  return device.download(problem.out_format, out);
}

class RmsNorm : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, RmsNorm, generations(), generation_name);

TEST_P(RmsNorm, StaysWithinItsContractsBound) {
  for (const device::ApproximationMode mode :
       {device::ApproximationMode::Nominal, device::ApproximationMode::Low,
        device::ApproximationMode::High, device::ApproximationMode::Hashed}) {
    device::DeviceOptions options;
    options.approximation = mode;
    TestDevice device(GetParam(), options);
    for (const std::uint32_t hidden :
         {1u, 3u, 16u, 31u, 64u, 65u, 128u, 576u, 640u, 1023u, 2048u, 5120u, 16386u}) {
      const DType format = hidden % 3 == 0   ? DType::F16
                           : hidden % 3 == 1 ? DType::F32
                                             : DType::BF16;
      const Problem problem = random_problem(2, hidden, format, hidden);
      const std::vector<double> got = run(device, problem);
      const double factor = relative_bound(problem);
      double sum = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (i % hidden == 0) {
          sum = 0;
          for (std::size_t k = i; k < i + hidden; ++k) sum += problem.x[k] * problem.x[k];
        }
        const double y =
            problem.x[i] * problem.weight[i % hidden] / std::sqrt(sum / hidden + problem.epsilon);
        const double radius = std::abs(y) * factor;
        ASSERT_GE(got[i], round_to(format, y - radius)) << "hidden " << hidden << " at " << i;
        ASSERT_LE(got[i], round_to(format, y + radius)) << "hidden " << hidden << " at " << i;
      }
    }
  }
}

TEST_P(RmsNorm, IsOddAndScalesByPowersOfFourWithoutEpsilon) {
  TestDevice device(GetParam());
  Problem problem = random_problem(1, 640, DType::F32, 7);
  problem.epsilon = 0;
  const std::vector<double> plain = run(device, problem);
  Problem changed = problem;
  for (double& x : changed.x) x *= -16;
  std::vector<double> negated = run(device, changed);
  for (double& y : negated) y = -y;
  EXPECT_EQ(negated, plain);
}

TEST_P(RmsNorm, TakesItsEpsilonInsideTheRoot) {
  TestDevice device(GetParam());
  Problem problem = random_problem(1, 64, DType::F32, 3);
  problem.x.assign(64, 0x1p-40);  // mean x^2 is far below epsilon
  problem.weight.assign(64, 1);
  problem.epsilon = 0x1p-20;
  const double want = 0x1p-40 / std::sqrt(0x1p-80 + 0x1p-20);
  for (const double y : run(device, problem)) EXPECT_NEAR(y, want, want * relative_bound(problem));
}

TEST_P(RmsNorm, ReadsTheRowsThatItIsTold) {
  TestDevice device(GetParam());
  const Problem problem = random_problem(5, 96, DType::F16, 11);
  const std::vector<double> all = run(device, problem);
  const std::vector<std::uint32_t> sources = {4, 0, 4, 2};
  const std::vector<double> picked = run(device, problem, sources);
  ASSERT_EQ(picked.size(), sources.size() * 96);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    EXPECT_EQ(picked[i], all[sources[i / 96] * 96 + i % 96]) << i;
  }
}

TEST_P(RmsNorm, RowsDoNotDependOnTheirNeighbours) {
  TestDevice device(GetParam());
  Problem problem = random_problem(3, 577, DType::F32, 13);
  const std::vector<double> together = run(device, problem);
  Problem alone = problem;
  alone.rows = 1;
  alone.x.assign(problem.x.begin() + 577, problem.x.begin() + 2 * 577);
  const std::vector<double> one = run(device, alone);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), together.begin() + 577));
}

}  // namespace
}  // namespace lockstep::kernels
