// RTX Blackwell: mma.sync has FP8, FP6, FP4 and block scales in hardware.
#include "device/vgpu/generation/rules.h"

namespace lockstep::device::vgpu::generation {
namespace {

using enum MmaUnit;
using enum Evidence;
using enum MmaScheme;

constexpr MmaRule kRules[] = {
    row(MmaSync, MmaKind::F16, MmaAccumulator::F32, {16, 8}, f32_block(16, 25, -133), Model),
    row(MmaSync, MmaKind::F16, MmaAccumulator::F16, {16, 8}, f16_block(16, 25, -21), Model),
    row(MmaSync, MmaKind::BF16, MmaAccumulator::F32, {16, 8}, f32_block(16, 25, -133), Model),
    row(MmaSync, MmaKind::TF32, MmaAccumulator::F32, {8, 4}, f32_block(8, 25, -133), Model),
    row(MmaSync, MmaKind::FP8, MmaAccumulator::F32, {32, 16}, f32_block(32, 25, -133), Model),
    row(MmaSync, MmaKind::FP8, MmaAccumulator::F16, {32, 16}, f16_block(32, 25, -21), Model),
    row(MmaSync, MmaKind::F8F6F4, MmaAccumulator::F32, {32, 0}, f32_block(32, 25, -133), Model),
    row(MmaSync, MmaKind::F8F6F4, MmaAccumulator::F16, {32, 0}, f16_block(32, 25, -21), Model),
    row(MmaSync, MmaKind::MxF8F6F4, MmaAccumulator::F32, {32, 0}, f32_block(32, 25, -133), Model),
    row(MmaSync, MmaKind::MxF4, MmaAccumulator::F32, {64, 0}, f32_block(4, 35, -139), Model,
        GroupedFp4),
    // ptxas rejects 16-blocks with ue8m0 scales here (all.cpp: scale format).
    ue4m3_only(row(MmaSync, MmaKind::MxF4Nvf4, MmaAccumulator::F32, {64, 0}, f32_block(4, 35, -139),
                   Model, GroupedFp4)),
    int8_rule(MmaSync, Model),
};

}  // namespace

const GenerationSpec kSm120 = {
    .sm = 120,
    .name = "sm_120",
    .architecture = "RTX Blackwell",
    .part = "RTX 5090",
    .limits = {.shared_bytes_per_block_optin = 99 * 1024,
               .shared_bytes_per_multiprocessor = 100 * 1024,
               .shared_bytes_reserved_per_block = 1024,
               .threads_per_multiprocessor = 1536,
               .blocks_per_multiprocessor = 24,
               .multiprocessor_count = 170,
               .memory_bytes = std::uint64_t{32} << 30},
    .mma = kRules,
};

}  // namespace lockstep::device::vgpu::generation
