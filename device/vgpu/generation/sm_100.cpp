// Blackwell for data centres. mma.sync is Hopper's, FP8 emulated; tcgen05 has its own units.
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
    // .kind::f8f6f4 is accepted for FP8 operands only, and emulated in the same way.
    fp8_only(row(MmaSync, MmaKind::F8F6F4, MmaAccumulator::F32, {32, 0}, f32_block(16, 25, -133),
                 Hardware, EmulatedFp8)),
    fp8_only(row(MmaSync, MmaKind::F8F6F4, MmaAccumulator::F16, {32, 0}, f16_block(16, 25, -21),
                 Hardware, EmulatedFp8)),
    int8_rule(MmaSync, Model),
    row(Tcgen05, MmaKind::F16, MmaAccumulator::F32, {16, 0}, f32_block(16, 25, -133), Model),
    row(Tcgen05, MmaKind::F16, MmaAccumulator::F16, {16, 0}, f16_block(16, 25, -21), Model),
    row(Tcgen05, MmaKind::BF16, MmaAccumulator::F32, {16, 0}, f32_block(16, 25, -133), Model),
    row(Tcgen05, MmaKind::TF32, MmaAccumulator::F32, {8, 0}, f32_block(8, 25, -133), Model),
    row(Tcgen05, MmaKind::F8F6F4, MmaAccumulator::F32, {32, 0}, f32_block(32, 25, -133), Model),
    row(Tcgen05, MmaKind::F8F6F4, MmaAccumulator::F16, {32, 0}, f16_block(32, 25, -21), Model),
    row(Tcgen05, MmaKind::MxF8F6F4, MmaAccumulator::F32, {32, 0}, f32_block(32, 25, -133), Model),
    row(Tcgen05, MmaKind::MxF4, MmaAccumulator::F32, {64, 0}, f32_block(4, 35, -139), Model,
        GroupedFp4),
    row(Tcgen05, MmaKind::MxF4Nvf4, MmaAccumulator::F32, {64, 0}, f32_block(4, 35, -139), Model,
        GroupedFp4),
    row(Tcgen05, MmaKind::Int8, MmaAccumulator::S32, {32, 0}, MmaBlock{}, Model, IntegerWrap),
};

}  // namespace

const GenerationSpec kSm100 = {
    .sm = 100,
    .name = "sm_100",
    .architecture = "Blackwell",
    .part = "B200",
    .limits = {.shared_bytes_per_block_optin = 227 * 1024,
               .shared_bytes_per_multiprocessor = 228 * 1024,
               .shared_bytes_reserved_per_block = 1024,
               .threads_per_multiprocessor = 2048,
               .blocks_per_multiprocessor = 32,
               .multiprocessor_count = 148,
               .memory_bytes = std::uint64_t{180} << 30},
    .mma = kRules,
};

}  // namespace lockstep::device::vgpu::generation
