// Laws of residual_add: one rounding, every length.
#include "kernels/residual_add.h"

#include "kernels/test_device.h"

namespace lockstep::kernels {
namespace {

using model::DType;

class ResidualAdd : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, ResidualAdd, generations(), generation_name);

TEST_P(ResidualAdd, IsTheRoundedSum) {
  TestDevice device(GetParam());
  for (const std::size_t count : {1u, 3u, 4u, 6u, 1024u, 1025u, 5003u}) {
    base::Prng prng(count);
    const std::vector<double> a = random_values(prng, DType::F32, count, 1e4);
    const std::vector<double> b = random_values(prng, DType::F32, count);
    const device::Buffer left = device.upload(DType::F32, a), right = device.upload(DType::F32, b);
    const device::Buffer out = device.allocate(4 * count);
    device.expect_clean(launch_residual_add(
        device.context(),
        {.a = left.address(), .b = right.address(), .out = out.address(), .count = count}));
    const std::vector<double> got = device.download(DType::F32, out);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(got[i], round_to(DType::F32, a[i] + b[i])) << i << " of " << count;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
