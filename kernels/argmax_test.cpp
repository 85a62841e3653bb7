// Laws of argmax: exact, the lowest index of a tie, NaN first.
#include "kernels/argmax.h"

#include "kernels/test_device.h"

namespace lockstep::kernels {
namespace {

using model::DType;

class Argmax : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, Argmax, generations(), generation_name);

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::uint32_t> run(TestDevice& device, std::uint32_t vocab,
                               std::span<const std::byte> logits) {
  const auto rows = static_cast<std::uint32_t>(logits.size() / 4 / vocab);
  const device::Buffer input = device.upload(logits);
  const device::Buffer tokens = device.allocate(std::size_t{rows} * 4);
  device.expect_clean(
      launch_argmax(device.context(), {input.address(), tokens.address(), rows, vocab}));
  std::vector<std::uint32_t> result(rows);
  std::memcpy(result.data(), device.download(tokens).data(), std::size_t{rows} * 4);
  return result;
}
std::vector<std::uint32_t> run(TestDevice& device, std::uint32_t vocab,
                               const std::vector<double>& logits) {
  return run(device, vocab, to_bytes(DType::F32, logits));
}

std::uint32_t want_of(std::span<const double> row) {
  std::uint32_t best = 0;
  for (std::uint32_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) return i;
    if (row[i] > row[best]) best = i;
  }
  return best;
}

TEST_P(Argmax, EqualsAPlainScan) {
  TestDevice device(GetParam());
  base::Prng prng(1);
  for (const std::uint32_t vocab :
       {1u, 2u, 3u, 4u, 5u, 31u, 64u, 1000u, 2047u, 2048u, 2052u, 8191u, 8192u, 8196u, 49152u}) {
    std::vector<double> logits;
    std::vector<std::uint32_t> want;
    for (int row = 0; row < 6; ++row) {
      // Few different values in some rows: many ties.
      std::vector<double> values(vocab);
      const auto levels = row % 2 == 0 ? 1u << 20 : 1u + static_cast<unsigned>(row);
      for (double& value : values) value = static_cast<double>(prng.below(levels)) - levels / 2.0;
      if (row == 4) values[prng.below(vocab)] = kNan;
      if (row == 5) std::ranges::fill(values, -kInfinity);
      want.push_back(want_of(values));
      logits.insert(logits.end(), values.begin(), values.end());
    }
    EXPECT_EQ(run(device, vocab, logits), want) << vocab;
  }
}

TEST_P(Argmax, FindsANeedleAtEveryPlace) {
  TestDevice device(GetParam());
  const std::uint32_t vocab = 300;
  std::vector<double> logits;
  std::vector<std::uint32_t> want;
  for (std::uint32_t i = 0; i < vocab; ++i) {
    std::vector<double> row(vocab, -3);
    row[i] = -2.5;
    logits.insert(logits.end(), row.begin(), row.end());
    want.push_back(i);
  }
  EXPECT_EQ(run(device, vocab, logits), want);
}

TEST_P(Argmax, LowestOfTiesNanFirstZerosEqual) {
  TestDevice device(GetParam());
  for (const std::uint32_t vocab : {257u, 20000u, 262144u}) {
    std::vector<std::vector<double>> rows(6, std::vector<double>(vocab, -1));
    rows[0][vocab - 1] = rows[0][vocab / 2] = 7;  // tie
    rows[1][vocab - 1] = 0.0;                     // +0 behind -0: equal
    rows[1][3] = -0.0;
    rows[2][vocab - 1] = kNan;  // above Inf
    rows[2][0] = kInfinity;
    rows[3][5] = -kNan;  // a NaN's sign does not matter
    rows[3][2] = kNan;
    rows[4][vocab - 2] = kInfinity;
    rows[5].assign(vocab, -kInfinity);
    std::vector<double> logits;
    for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
    EXPECT_EQ(run(device, vocab, logits),
              (std::vector<std::uint32_t>{vocab / 2, 3, vocab - 1, 2, vocab - 2, 0}))
        << vocab;
  }
}

}  // namespace
}  // namespace lockstep::kernels
