// Launch and contract of attention_decode.
#include "kernels/attention_decode.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/lib/formats.h"

namespace lockstep::kernels {
namespace {

constexpr std::uint32_t kTileKeys = 32, kSplitKeys = 256;  // as in attention_decode.cu
constexpr std::uint32_t kWarps = 4, kHeadsMax = 4;

std::uint32_t splits_of(std::uint32_t max_context_length, std::uint32_t window) {
  const std::uint32_t all = std::max(1u, divide_up(max_context_length, kSplitKeys));
  // A window of w keys touches at most this many splits.
  return window == 0 ? all : std::min(all, divide_up(window - 1, kSplitKeys) + 1);
}

// The query heads of a kv head, in passes of at most kHeadsMax.
struct Packing {
  std::uint32_t passes, heads;
};
Packing packing(const AttentionDecodeArgs& args) {
  const std::uint32_t group = args.head_count / args.kv.kv_head_count;
  const std::uint32_t passes = divide_up(group, kHeadsMax);
  return {passes, divide_up(group, passes)};
}

std::string entry(const AttentionDecodeArgs& args) {
  const char* formats[] = {"f32", "f16", "bf16"};
  return std::string("attention_decode_") + formats[format_code(args.kv.cell_format)] + "_heads_" +
         std::to_string(packing(args).heads);
}

}  // namespace

std::uint64_t attention_decode_workspace_bytes(std::uint32_t rows, std::uint32_t head_count,
                                               std::uint32_t head_size,
                                               std::uint32_t max_context_length) {
  const std::uint32_t splits = splits_of(max_context_length, 0);
  return std::uint64_t{rows} * head_count * splits * (std::uint64_t{head_size} + 2) * 4;
}

trace::Contract attention_decode_contract(const AttentionDecodeArgs& args) {
  const std::uint32_t head_size = args.kv.head_size;
  std::uint32_t lanes_of_key = 1;
  while (8 * lanes_of_key < head_size) lanes_of_key *= 2;
  const std::uint32_t tiles_of_warp = kSplitKeys / (kTileKeys * kWarps);
  return {.op = trace::Op::AttentionDecode,
          .kernel = entry(args),
          .weight_format = args.kv.cell_format,
          .sum = trace::SumKind::F32Chains,
          .tile_keys = kTileKeys,
          .split_keys = kSplitKeys,
          .probability_format = model::DType::F32,
          // 4 lanes a key, 8 elements of every 32 each, then 2 levels.
          .depth_scores = 8 * divide_up(head_size, 32) + 2,
          // A lane's keys of its warp's tiles, a rescale between tiles, then the block's parts: 4
          // warps, 32 / lanes_of_key each.
          .depth_output =
              tiles_of_warp * lanes_of_key + (tiles_of_warp - 1) + kWarps * (32 / lanes_of_key),
          // One fmaf a tile, 5 levels in the warp, 4 warps.
          .depth_sum = tiles_of_warp + 5 + kWarps,
          .rescales = (tiles_of_warp - 1) + 1 + 1,  // in the chain, over the warps, over the splits
          .approximate = {.ex2 = true}};
}

base::Status launch_attention_decode(const LaunchContext& context,
                                     const AttentionDecodeArgs& args) {
  const KvLayout& kv = args.kv;
  LS_CHECK(kv.kv_head_count > 0 && args.head_count % kv.kv_head_count == 0 && kv.page_size > 0);
  LS_CHECK(args.q % 16 == 0 && args.k_pool % 16 == 0 && args.v_pool % 16 == 0);
  LS_CHECK(args.out % 16 == 0 && args.workspace % 16 == 0);
  LS_CHECK(std::uint64_t{args.table_stride} * kv.page_size >= args.max_context_length);
  if (kv.head_size == 0 || kv.head_size > 256 || kv.head_size % 8 != 0) {
    return base::unsupported_error("attention_decode", "head size " + std::to_string(kv.head_size),
                                   "must be a multiple of 8, at most 256");
  }
  if (args.rows == 0) return base::Ok{};
  const std::uint32_t splits = splits_of(args.max_context_length, args.window);
  const Packing packed = packing(args);
  LS_CHECK(args.rows <= 65535 && kv.kv_head_count * packed.passes <= 65535);
  LS_CHECK(splits == 1 || args.workspace != 0);
  // scale * log2(e), rounded once.
  const float scale_log2e =
      static_cast<float>(static_cast<double>(args.scale) * 1.4426950408889634074);
  LS_ASSIGN(const device::Kernel kernel, context.kernels.find("attention_decode", entry(args)));
  device::Parameters parameters;
  parameters.add(args.q).add(args.k_pool).add(args.v_pool).add(args.block_tables);
  parameters.add(args.context_lengths).add(splits > 1 ? args.workspace : DevicePointer{0});
  parameters.add(args.out).add(args.table_stride).add(args.head_count).add(kv.kv_head_count);
  parameters.add(kv.head_size).add(kv.page_size).add(args.window).add(scale_log2e);
  LS_TRY(context.kernels.device().launch(
      kernel,
      {.grid = {splits, kv.kv_head_count * packed.passes, args.rows},
       .block = {kWarps * 32},
       .stream = context.stream},
      parameters.bytes()));
  if (splits == 1) return base::Ok{};
  LS_ASSIGN(const device::Kernel merge,
            context.kernels.find("attention_decode", "attention_decode_merge"));
  device::Parameters merge_parameters;
  merge_parameters.add(args.workspace).add(args.out).add(args.rows * args.head_count);
  merge_parameters.add(splits).add(kv.head_size);
  return context.kernels.device().launch(
      merge,
      {.grid = {divide_up(args.rows * args.head_count * (kv.head_size / 4), 128)},
       .block = {128},
       .stream = context.stream},
      merge_parameters.bytes());
}

}  // namespace lockstep::kernels
