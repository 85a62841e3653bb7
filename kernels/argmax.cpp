// Launch and contract of argmax.
#include "kernels/argmax.h"

#include "base/check.h"

namespace lockstep::kernels {

trace::Contract argmax_contract(const ArgmaxArgs& args) {
  return {.op = trace::Op::Argmax,
          .kernel = args.vocab % 4 == 0 ? "argmax_vector4" : "argmax_vector1"};
}

base::Status launch_argmax(const LaunchContext& context, const ArgmaxArgs& args) {
  LS_CHECK(args.vocab > 0 && args.vocab < (1u << 31));
  LS_CHECK(args.logits % 16 == 0 && args.tokens % 4 == 0);
  if (args.rows == 0) return base::Ok{};
  LS_ASSIGN(const device::Kernel kernel,
            context.kernels.find("argmax", argmax_contract(args).kernel));
  device::Parameters parameters;
  parameters.add(args.logits).add(args.tokens).add(args.vocab);
  return context.kernels.device().launch(
      kernel, {.grid = {args.rows}, .block = {512}, .stream = context.stream}, parameters.bytes());
}

}  // namespace lockstep::kernels
