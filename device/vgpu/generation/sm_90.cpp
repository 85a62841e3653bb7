// Hopper. mma.sync has no FP8 unit here: ptxas unpacks to f16 and adds c last; wgmma has one, with
// 13 fraction bits.
#include "device/vgpu/generation/rules.h"

namespace lockstep::device::vgpu::generation {
namespace {

using enum MmaUnit;
using enum Evidence;
using enum MmaScheme;

constexpr MmaRule kRules[] = {
    row(MmaSync, MmaKind::F16, MmaAccumulator::F32, {16, 8}, f32_block(16, 25, -133), Hardware),
    row(MmaSync, MmaKind::F16, MmaAccumulator::F16, {16, 8}, f16_block(16, 25, -21), Hardware),
    row(MmaSync, MmaKind::BF16, MmaAccumulator::F32, {16, 8}, f32_block(16, 25, -133), Hardware),
    row(MmaSync, MmaKind::TF32, MmaAccumulator::F32, {8, 4}, f32_block(8, 25, -133), Hardware),
    row(MmaSync, MmaKind::FP8, MmaAccumulator::F32, {32, 16}, f32_block(16, 25, -133), Hardware,
        EmulatedFp8),
    row(MmaSync, MmaKind::FP8, MmaAccumulator::F16, {32, 16}, f16_block(16, 25, -21), Hardware,
        EmulatedFp8),
    int8_rule(MmaSync, Model),
    row(Wgmma, MmaKind::F16, MmaAccumulator::F32, {16, 0}, f32_block(16, 25, -133), Model),
    row(Wgmma, MmaKind::F16, MmaAccumulator::F16, {16, 0}, f16_block(16, 25, -21), Model),
    row(Wgmma, MmaKind::BF16, MmaAccumulator::F32, {16, 0}, f32_block(16, 25, -133), Model),
    row(Wgmma, MmaKind::TF32, MmaAccumulator::F32, {8, 0}, f32_block(8, 25, -133), Model),
    // Measured with c = 0.
    row(Wgmma, MmaKind::FP8, MmaAccumulator::F32, {32, 0}, e8m13_block(32, -133), Hardware),
    row(Wgmma, MmaKind::FP8, MmaAccumulator::F16, {32, 0}, f16_block(32, 13, -21), Model),
    row(Wgmma, MmaKind::Int8, MmaAccumulator::S32, {32, 0}, MmaBlock{}, Model, IntegerWrap),
};

}  // namespace

const GenerationSpec kSm90 = {
    .sm = 90,
    .name = "sm_90",
    .architecture = "Hopper",
    .part = "H100 SXM",
    .limits = {.shared_bytes_per_block_optin = 227 * 1024,
               .shared_bytes_per_multiprocessor = 228 * 1024,
               .shared_bytes_reserved_per_block = 1024,
               .threads_per_multiprocessor = 2048,
               .blocks_per_multiprocessor = 32,
               .multiprocessor_count = 132,
               .memory_bytes = std::uint64_t{80} << 30},
    .mma = kRules,
};

}  // namespace lockstep::device::vgpu::generation
