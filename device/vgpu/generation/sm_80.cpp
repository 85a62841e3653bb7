// Ampere (A100; the 16-bit and tf32 numbers of A2, sm_86, are the same).
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
    int8_rule(MmaSync, Model),
};

}  // namespace

const GenerationSpec kSm80 = {
    .sm = 80,
    .name = "sm_80",
    .architecture = "Ampere",
    .part = "A100",
    .limits = {.shared_bytes_per_block_optin = 163 * 1024,
               .shared_bytes_per_multiprocessor = 164 * 1024,
               .shared_bytes_reserved_per_block = 1024,
               .threads_per_multiprocessor = 2048,
               .blocks_per_multiprocessor = 32,
               .multiprocessor_count = 108,
               .memory_bytes = std::uint64_t{40} << 30},
    .mma = kRules,
};

}  // namespace lockstep::device::vgpu::generation
