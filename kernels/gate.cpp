// Launch and contract of gate.
#include "kernels/gate.h"

#include "base/check.h"
#include "kernels/lib/formats.h"

namespace lockstep::kernels {
namespace {

std::string entry(model::Activation activation) {
  switch (activation) {
    case model::Activation::GeluTanh:
      return "gate_gelu";
    case model::Activation::Silu:
      return "gate_silu";
  }
  LS_CHECK(false);
  return {};
}

}  // namespace

trace::Contract gate_contract(const GateArgs& args) {
  return {.op = trace::Op::Gate,
          .kernel = entry(args.activation),
          .approximate = {.ex2 = true},
          .output_format = args.out_format};
}

base::Status launch_gate(const LaunchContext& context, const GateArgs& args) {
  LS_CHECK(args.gate % 16 == 0 && args.up % 16 == 0 && args.out % 16 == 0);
  LS_CHECK(args.out != args.gate && args.out != args.up);
  LS_CHECK(args.count < (std::uint64_t{1} << 40));
  if (args.count == 0) return base::Ok{};
  LS_ASSIGN(const device::Kernel kernel, context.kernels.find("gate", entry(args.activation)));
  const std::uint64_t threads = args.count / 4 + args.count % 4;
  device::Parameters parameters;
  parameters.add(args.gate).add(args.up).add(args.out).add(format_code(args.out_format));
  parameters.add(args.count);
  return context.kernels.device().launch(
      kernel,
      {.grid = {static_cast<std::uint32_t>((threads + 255) / 256)},
       .block = {256},
       .stream = context.stream},
      parameters.bytes());
}

}  // namespace lockstep::kernels
