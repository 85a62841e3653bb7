// Ada.
#include "device/vgpu/generation/rules.h"

namespace lockstep::device::vgpu::generation {
namespace {

using enum MmaUnit;
using enum Evidence;
using enum MmaScheme;

constexpr MmaRule kRules[] = {
    row(MmaSync, MmaKind::F16, MmaAccumulator::F32, {16, 8}, f32_block(8, 24, -132), Hardware),
    row(MmaSync, MmaKind::F16, MmaAccumulator::F16, {16, 8}, f16_block(8, 24, -20), Hardware),
    row(MmaSync, MmaKind::BF16, MmaAccumulator::F32, {16, 8}, f32_block(8, 24, -132), Hardware),
    row(MmaSync, MmaKind::TF32, MmaAccumulator::F32, {8, 4}, f32_block(4, 24, -132), Hardware),
    // 13 bits are kept: of c too.
    row(MmaSync, MmaKind::FP8, MmaAccumulator::F32, {32, 16}, e8m13_block(16, -132), Hardware),
    row(MmaSync, MmaKind::FP8, MmaAccumulator::F16, {32, 16}, f16_block(16, 13, -20), Hardware),
    int8_rule(MmaSync, Model),
};

}  // namespace

const GenerationSpec kSm89 = {
    .sm = 89,
    .name = "sm_89",
    .architecture = "Ada",
    .part = "L40S",
    .limits = {.shared_bytes_per_block_optin = 99 * 1024,
               .shared_bytes_per_multiprocessor = 100 * 1024,
               .shared_bytes_reserved_per_block = 1024,
               .threads_per_multiprocessor = 1536,
               .blocks_per_multiprocessor = 24,
               .multiprocessor_count = 142,
               .memory_bytes = std::uint64_t{48} << 30},
    .mma = kRules,
};

}  // namespace lockstep::device::vgpu::generation
