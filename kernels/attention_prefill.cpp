// Launch and contract of attention_prefill.
#include "kernels/attention_prefill.h"

#include "base/check.h"
#include "kernels/lib/formats.h"

namespace lockstep::kernels {
namespace {

constexpr std::uint32_t kBlockM = 64, kThreads = 128;  // as in attention_prefill.cu

// The smallest instance that holds a head: its padded size, and keys of a tile.
struct Instance {
  std::uint32_t head = 0, tile = 0;
};
Instance instance(std::uint32_t head_size) {
  for (const Instance each : {Instance{32, 64}, {64, 64}, {96, 64}, {128, 64}, {256, 32}}) {
    if (head_size <= each.head) return each;
  }
  LS_CHECK(false, "head size");
  return {};
}

std::string entry(const AttentionPrefillArgs& args) {
  const std::string format = args.kv.cell_format == model::DType::F16 ? "f16" : "bf16";
  return "attention_prefill_" + format + "_head_" +
         std::to_string(instance(args.kv.head_size).head);
}

base::Status supported(const KvLayout& kv) {
  if (kv.cell_format != model::DType::F16 && kv.cell_format != model::DType::BF16) {
    return base::unsupported_error("attention_prefill",
                                   "cells of " + std::string(model::name(kv.cell_format)),
                                   "tensor cores take F16 or BF16 here");
  }
  if (kv.head_size == 0 || kv.head_size > 256 || kv.head_size % 8 != 0) {
    return base::unsupported_error("attention_prefill", "head size " + std::to_string(kv.head_size),
                                   "must be a multiple of 8, at most 256");
  }
  return base::Ok{};
}

}  // namespace

trace::Contract attention_prefill_contract(const AttentionPrefillArgs& args) {
  return {.op = trace::Op::AttentionPrefill,
          .kernel = entry(args),
          .input_format = args.kv.cell_format,
          .weight_format = args.kv.cell_format,
          .sum = trace::SumKind::TensorCore,
          .mma_k = 16,
          .k_segments = 1,
          .tile_keys = instance(args.kv.head_size).tile,
          .probability_format = args.kv.cell_format,
          .sum_of_rounded_probabilities = true,
          .approximate = {.ex2 = true},
          .output_format = args.out_format};
}

base::Status launch_attention_prefill(const LaunchContext& context,
                                      const AttentionPrefillArgs& args) {
  const KvLayout& kv = args.kv;
  LS_CHECK(kv.kv_head_count > 0 && args.head_count % kv.kv_head_count == 0 && kv.page_size > 0);
  LS_CHECK(args.q % 16 == 0 && args.k_pool % 16 == 0 && args.v_pool % 16 == 0);
  LS_CHECK(args.out % 16 == 0);
  LS_TRY(supported(kv));
  if (args.segments == 0 || args.max_segment_rows == 0) return base::Ok{};
  LS_CHECK(args.segments <= 65535 && kv.kv_head_count <= 65535);
  const Instance sizes = instance(kv.head_size);
  const std::uint32_t row_bytes = (sizes.head / 8 + 1) * 16;
  const std::uint32_t shared_bytes = (kBlockM + 2 * sizes.tile) * row_bytes;
  const device::DeviceProperties& properties = context.kernels.device().properties();
  LS_CHECK(shared_bytes <= properties.shared_bytes_per_block_optin);
  const std::uint32_t group = args.head_count / kv.kv_head_count;
  // scale * log2(e), rounded once.
  const float scale_log2e =
      static_cast<float>(static_cast<double>(args.scale) * 1.4426950408889634074);
  // key / page_size as a product: exact for key * page_size <= 2^32. Of one key: 2^32, which is 0.
  LS_CHECK(std::uint64_t{args.table_stride} * kv.page_size * kv.page_size <=
           (std::uint64_t{1} << 32));
  const std::uint32_t page_reciprocal =
      static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + kv.page_size - 1) / kv.page_size);
  LS_ASSIGN(const device::Kernel kernel, context.kernels.find("attention_prefill", entry(args)));
  device::Parameters parameters;
  parameters.add(args.q).add(args.k_pool).add(args.v_pool).add(args.block_tables);
  parameters.add(args.query_starts).add(args.first_positions).add(args.out);
  parameters.add(format_code(args.out_format)).add(args.table_stride).add(args.head_count);
  parameters.add(kv.kv_head_count).add(kv.head_size).add(kv.page_size).add(page_reciprocal);
  parameters.add(args.window).add(scale_log2e);
  return context.kernels.device().launch(
      kernel,
      {.grid = {divide_up(args.max_segment_rows * group, kBlockM), kv.kv_head_count, args.segments},
       .block = {kThreads},
       .dynamic_shared_bytes = shared_bytes,
       .stream = context.stream},
      parameters.bytes());
}

}  // namespace lockstep::kernels
