// Launch and contract of gemm.
#include "kernels/gemm.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "kernels/lib/formats.h"
#include "kernels/weights.h"

namespace lockstep::kernels {
namespace {

constexpr std::uint32_t kBlockOutputs = 64;  // as in gemm.cu

std::string entry(const GemmArgs& args) {
  return std::string("gemm_") + weight_suffix(args.weight.dtype) +
         (args.operand_format == model::DType::F16 ? "_f16" : "_bf16");
}

}  // namespace

trace::Contract gemm_contract(const GemmArgs& args) {
  return {.op = trace::Op::Gemm,
          .kernel = entry(args),
          .input_format = args.operand_format,
          .weight_format = args.operand_format,
          .sum = trace::SumKind::TensorCore,
          .mma_k = 16,
          .k_segments = 1,
          .segment_k = args.weight.columns};
}

base::Status launch_gemm(const LaunchContext& context, const GemmArgs& args) {
  const DeviceWeight& weight = args.weight;
  if (!weight_supported(weight.dtype)) {
    return base::unsupported_error({}, "gemm",
                                   "no kernel decodes " + std::string(name(weight.dtype)));
  }
  LS_CHECK(args.operand_format == model::DType::F16 || args.operand_format == model::DType::BF16);
  LS_CHECK(weight.rows > 0 && weight.columns > 0);
  LS_CHECK(args.x % 16 == 0 && args.y % 8 == 0 && weight.data % 16 == 0);
  const std::uint64_t tile_bytes = weight_tile_bytes(weight.dtype, weight.columns);
  LS_CHECK(tile_bytes < (std::uint64_t{1} << 32));
  // Passes of 64 rows, then the rest by smaller kernels: no more than 15 rows of nothing, and the
  // same sums in each.
  for (std::uint32_t first = 0; first < args.rows;) {
    const std::uint32_t left = args.rows - first;
    const std::uint32_t height = left > 48 ? 64 : left > 16 ? 32 : 16;
    const std::uint32_t passes = std::clamp(left / height, 1u, 65535u);
    const std::uint32_t rows = std::min(left, passes * height);
    LS_ASSIGN(const device::Kernel kernel,
              context.kernels.find("gemm", entry(args) + "_m" + std::to_string(height)));
    device::Parameters parameters;
    parameters.add(args.x + std::uint64_t{first} * weight.columns * 2).add(weight.data);
    parameters.add(args.y + std::uint64_t{first} * weight.rows * 4).add(rows).add(weight.rows);
    parameters.add(weight.columns).add(static_cast<std::uint32_t>(tile_bytes));
    LS_TRY(context.kernels.device().launch(kernel,
                                           {.grid = {divide_up(weight.rows, kBlockOutputs), passes},
                                            .block = {32, 2},
                                            .stream = context.stream},
                                           parameters.bytes()));
    first += rows;
  }
  return base::Ok{};
}

}  // namespace lockstep::kernels
