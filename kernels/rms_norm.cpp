// Launch and contract of rms_norm.
#include "kernels/rms_norm.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/lib/formats.h"

namespace lockstep::kernels {
namespace {

// How a row is cut, by its size alone: up to 4 elements of a lane in a row before another warp
// joins.
struct Shape {
  std::uint32_t vector, warps;
};
Shape shape(std::uint32_t hidden) {
  return {hidden % 4 == 0 ? 4u : 1u, std::clamp(divide_up(hidden, 512), 1u, 16u)};
}

}  // namespace

trace::Contract rms_norm_contract(const RmsNormArgs& args) {
  const Shape cut = shape(args.hidden);
  // fmaf chain of a thread, its 4 parts, 5 levels in the warp, one add a further warp.
  const std::uint32_t chain = divide_up(args.hidden, cut.vector * cut.warps * 32);
  return {.op = trace::Op::RmsNorm,
          .kernel = cut.vector == 4 ? "rms_norm_vector4" : "rms_norm_vector1",
          .sum = trace::SumKind::F32Chains,
          .rounding_depth = chain + (cut.vector == 4 ? 2 : 0) + 5 + (cut.warps - 1),
          .approximate = {.rsqrt = true},
          .output_format = args.out_format};
}

base::Status launch_rms_norm(const LaunchContext& context, const RmsNormArgs& args) {
  LS_CHECK(args.hidden > 0 && args.hidden < (1u << 31));
  LS_CHECK(args.x % 16 == 0 && args.weight % 16 == 0 && args.out % 16 == 0);
  if (args.rows == 0) return base::Ok{};
  const Shape cut = shape(args.hidden);
  LS_ASSIGN(const device::Kernel kernel,
            context.kernels.find("rms_norm", rms_norm_contract(args).kernel));
  device::Parameters parameters;
  parameters.add(args.x).add(args.weight).add(args.source_rows).add(args.out);
  parameters.add(format_code(args.out_format)).add(args.hidden);
  parameters.add(1.0f / static_cast<float>(args.hidden)).add(args.epsilon);
  return context.kernels.device().launch(
      kernel, {.grid = {args.rows}, .block = {cut.warps * 32}, .stream = context.stream},
      parameters.bytes());
}

}  // namespace lockstep::kernels
