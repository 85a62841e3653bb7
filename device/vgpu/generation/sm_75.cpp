// Turing. Tensor-core numbers: as in the published models; the m8n8k4 form is Volta's.
#include "device/vgpu/generation/rules.h"

namespace lockstep::device::vgpu::generation {
namespace {

constexpr auto kBlocks = MmaScheme::Blocks;

constexpr MmaRule kRules[] = {
    {MmaUnit::MmaSync,
     MmaKind::F16,
     MmaAccumulator::F32,
     {8, 0},
     kBlocks,
     f32_block(8, 24, -132),
     Evidence::Model},
    {MmaUnit::MmaSync,
     MmaKind::F16,
     MmaAccumulator::F16,
     {8, 0},
     kBlocks,
     f16_block(8, 24, -20),
     Evidence::Model},
    // Measured on V100; a zero sum of f16 products never reaches the f32 floor.
    {MmaUnit::MmaM8n8k4,
     MmaKind::F16,
     MmaAccumulator::F32,
     {4, 0},
     kBlocks,
     f32_block(4, 23, -131),
     Evidence::Hardware},
    {MmaUnit::MmaM8n8k4,
     MmaKind::F16,
     MmaAccumulator::F16,
     {4, 0},
     kBlocks,
     f16_block(4, 23, -19),
     Evidence::Hardware},
    {MmaUnit::MmaSync,
     MmaKind::Int8,
     MmaAccumulator::S32,
     {16, 0},
     MmaScheme::IntegerWrap,
     {},
     Evidence::Model},
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
