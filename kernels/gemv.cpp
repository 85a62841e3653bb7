// Launch and contract of gemv.
#include "kernels/gemv.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"
#include "kernels/lib/formats.h"
#include "kernels/weights.h"

namespace lockstep::kernels {
namespace {

constexpr std::uint32_t kWarps = 4;  // as in gemv.cu
constexpr std::uint32_t kMaxRows = 8;
constexpr std::uint32_t kFullGrid = 1024;
constexpr std::uint32_t kMaxTurns = 16;

// Warps that share a tile's columns, by the matrix alone: more where tiles are too few to fill a
// GPU, as long as each part keeps 4 chunks.
std::uint32_t split(const DeviceWeight& weight) {
  const std::uint32_t tiles = divide_up(weight.rows, kTileOutputs);
  const std::uint32_t chunks = divide_up(weight.columns, kChunkColumns);
  std::uint32_t parts = 1;
  while (parts < kWarps && tiles * parts < 2048 && chunks >= 4 * 2 * parts) parts *= 2;
  return parts;
}

}  // namespace

trace::Contract gemv_contract(const GemvArgs& args) {
  const std::uint32_t parts = split(args.weight);
  const std::uint32_t chunks = divide_up(args.weight.columns, kChunkColumns);
  // fmaf chain of a lane: 4 columns of each chunk of its part; 5 levels in the warp; the parts.
  const std::uint32_t chain = kSlotColumns * divide_up(chunks, parts);
  return {.op = trace::Op::Gemv,
          .kernel = std::string("gemv_") + weight_suffix(args.weight.dtype),
          .sum = trace::SumKind::F32Chains,
          .rounding_depth = chain + 5 + (parts - 1)};
}

base::Status launch_gemv(const LaunchContext& context, const GemvArgs& args) {
  const DeviceWeight& weight = args.weight;
  if (!weight_supported(weight.dtype)) {
    return base::unsupported_error({}, "gemv",
                                   "no kernel decodes " + std::string(name(weight.dtype)));
  }
  LS_CHECK(weight.rows > 0 && weight.columns > 0);
  LS_CHECK(args.x % 16 == 0 && args.y % 4 == 0 && weight.data % 16 == 0);
  const std::uint64_t tile_bytes = weight_tile_bytes(weight.dtype, weight.columns);
  LS_CHECK(tile_bytes < (std::uint64_t{1} << 32));
  const std::uint32_t parts = split(weight);
  const std::uint32_t tiles = divide_up(weight.rows, kTileOutputs);
  // As many blocks as a large GPU holds at a time; more tiles come in turns.
  const std::uint32_t turns =
      parts == 1 ? std::clamp(tiles / kWarps / kFullGrid, 1u, kMaxTurns) : 1;
  const std::uint32_t blocks = divide_up(tiles, kWarps / parts * turns);
  // Passes of 8 rows, then the rest by the next larger kernel: the same chains in each.
  for (std::uint32_t first = 0; first < args.rows;) {
    const std::uint32_t left = args.rows - first;
    const std::uint32_t width = left >= kMaxRows ? kMaxRows : left > 4 ? 8 : left > 2 ? 4 : left;
    const std::uint32_t passes = std::clamp(left / width, 1u, 65535u);
    const std::uint32_t rows = std::min(left, passes * width);
    LS_ASSIGN(const device::Kernel kernel,
              context.kernels.find("gemv", std::string("gemv_") + weight_suffix(weight.dtype) +
                                               "_r" + std::to_string(width)));
    device::Parameters parameters;
    parameters.add(args.x + std::uint64_t{first} * weight.columns * 4).add(weight.data);
    parameters.add(args.y + std::uint64_t{first} * weight.rows * 4).add(rows).add(weight.rows);
    parameters.add(weight.columns).add(static_cast<std::uint32_t>(tile_bytes));
    parameters.add(static_cast<std::uint32_t>(std::countr_zero(parts)));
    LS_TRY(context.kernels.device().launch(
        kernel, {.grid = {blocks, passes}, .block = {32, kWarps}, .stream = context.stream},
        parameters.bytes()));
    first += rows;
  }
  return base::Ok{};
}

}  // namespace lockstep::kernels
