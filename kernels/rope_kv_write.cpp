// Launch and contract of rope_kv_write.
#include "kernels/rope_kv_write.h"

#include "base/check.h"
#include "kernels/lib/formats.h"

namespace lockstep::kernels {
namespace {

constexpr std::uint32_t kWarps = 4;

// How a warp cuts a head: neighbouring pairs a lane, and rounds.
struct Shape {
  std::uint32_t vector, iterations;
};
Shape shape(std::uint32_t head_size) {
  const std::uint32_t half = head_size / 2;
  if (half <= 32) return {1, 1};
  if (half <= 64 && half % 2 == 0) return {2, 1};
  if (half % 4 == 0) return {4, 1};
  return {1, 4};
}

std::string entry(const RopeKvWriteArgs& args) {
  const Shape cut = shape(args.kv.head_size);
  std::string pairing;
  switch (args.pairing) {
    case model::RopePairing::Half:
      pairing = "half";
      break;
    case model::RopePairing::Interleaved:
      pairing = "interleaved";
      break;
  }
  return "rope_kv_write_" + pairing + "_" + std::to_string(cut.vector) + "x" +
         std::to_string(cut.iterations);
}

}  // namespace

trace::Contract rope_kv_write_contract(const RopeKvWriteArgs& args) {
  const bool norm = args.q_norm != 0;
  const Shape cut = shape(args.kv.head_size);
  return {.op = trace::Op::RopeKvWrite,
          .kernel = entry(args),
          .sum = norm ? trace::SumKind::F32Chains : trace::SumKind::None,
          .rounding_depth = norm ? 2 * cut.vector * cut.iterations + 5 : 0,
          .approximate = {.rsqrt = norm},
          .output_format = args.q_format,
          .second_output_format = args.kv.cell_format};
}

base::Status launch_rope_kv_write(const LaunchContext& context, const RopeKvWriteArgs& args) {
  const KvLayout& kv = args.kv;
  LS_CHECK(kv.head_size >= 2 && kv.head_size <= 256 && kv.head_size % 2 == 0);
  LS_CHECK(kv.page_size > 0 && kv.kv_head_count > 0 && args.head_count > 0);
  LS_CHECK((args.q_norm == 0) == (args.k_norm == 0));
  LS_CHECK(args.q_raw % 16 == 0 && args.k_raw % 16 == 0 && args.v_raw % 16 == 0);
  LS_CHECK(args.q_norm % 16 == 0 && args.k_norm % 16 == 0 && args.cos_sin % 16 == 0);
  LS_CHECK(args.q_out % 16 == 0 && args.k_pool % 16 == 0 && args.v_pool % 16 == 0);
  if (args.rows == 0) return base::Ok{};
  LS_ASSIGN(const device::Kernel kernel, context.kernels.find("rope_kv_write", entry(args)));
  device::Parameters parameters;
  parameters.add(args.q_raw).add(args.k_raw).add(args.v_raw).add(args.q_norm).add(args.k_norm);
  parameters.add(args.cos_sin).add(args.positions).add(args.slots);
  parameters.add(args.q_out).add(args.k_pool).add(args.v_pool);
  parameters.add(format_code(args.q_format)).add(format_code(kv.cell_format));
  parameters.add(args.head_count).add(kv.kv_head_count).add(kv.head_size).add(kv.page_size);
  parameters.add(1.0f / static_cast<float>(kv.head_size)).add(args.epsilon);
  const std::uint32_t jobs = args.head_count + 2 * kv.kv_head_count;
  return context.kernels.device().launch(kernel,
                                         {.grid = {args.rows, divide_up(jobs, kWarps)},
                                          .block = {kWarps * 32},
                                          .stream = context.stream},
                                         parameters.bytes());
}

}  // namespace lockstep::kernels
