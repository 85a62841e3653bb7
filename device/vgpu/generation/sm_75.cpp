// Turing. Tensor-core numbers: as in the published models; the m8n8k4 form is Volta's.
#include "device/vgpu/generation/rules.h"

namespace lockstep::device::vgpu::generation {
namespace {

using enum MmaUnit;
using enum Evidence;
using enum MmaScheme;

constexpr MmaRule kRules[] = {
    row(MmaSync, MmaKind::F16, MmaAccumulator::F32, {8, 0}, f32_block(8, 24, -132), Model),
    row(MmaSync, MmaKind::F16, MmaAccumulator::F16, {8, 0}, f16_block(8, 24, -20), Model),
    // Measured on V100; a zero sum of f16 products never reaches the f32 floor.
    row(MmaM8n8k4, MmaKind::F16, MmaAccumulator::F32, {4, 0}, f32_block(4, 23, -131), Hardware),
    row(MmaM8n8k4, MmaKind::F16, MmaAccumulator::F16, {4, 0}, f16_block(4, 23, -19), Hardware),
    // Its integer form is m8n8k16, not built.
};

}  // namespace

const GenerationSpec kSm75 = {
    .sm = 75,
    .name = "sm_75",
    .architecture = "Turing",
    .part = "T4",
    .limits = {.shared_bytes_per_block_optin = 64 * 1024,
               .shared_bytes_per_multiprocessor = 64 * 1024,
               .threads_per_multiprocessor = 1024,
               .blocks_per_multiprocessor = 16,
               .multiprocessor_count = 40,
               .memory_bytes = std::uint64_t{16} << 30},
    .mma = kRules,
};

}  // namespace lockstep::device::vgpu::generation
