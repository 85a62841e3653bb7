// Launch and contract of residual_add.
#include "kernels/residual_add.h"

#include "base/check.h"

namespace lockstep::kernels {

trace::Contract residual_add_contract(const ResidualAddArgs&) {
  return {.op = trace::Op::ResidualAdd, .kernel = "residual_add"};
}

base::Status launch_residual_add(const LaunchContext& context, const ResidualAddArgs& args) {
  LS_CHECK(args.a % 16 == 0 && args.b % 16 == 0 && args.out % 16 == 0);
  LS_CHECK(args.out != args.a && args.out != args.b);
  LS_CHECK(args.count < (std::uint64_t{1} << 40));
  if (args.count == 0) return base::Ok{};
  LS_ASSIGN(const device::Kernel kernel, context.kernels.find("residual_add", "residual_add"));
  const std::uint64_t threads = args.count / 4 + args.count % 4;
  device::Parameters parameters;
  parameters.add(args.a).add(args.b).add(args.out).add(args.count);
  return context.kernels.device().launch(
      kernel,
      {.grid = {static_cast<std::uint32_t>((threads + 255) / 256)},
       .block = {256},
       .stream = context.stream},
      parameters.bytes());
}

}  // namespace lockstep::kernels
