// GenerationSpec: what distinguishes one GPU generation from another: limits, which tensor-core
// instructions exist, and how each of them computes. One file each (sm_NN.cpp); all.cpp lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "device/vgpu/numeric/mma.h"

namespace lockstep::device::vgpu::generation {

// Source: CUDA C++ Programming Guide, table of technical specifications per compute capability;
// multiprocessors and memory are those of the named part.
struct Limits {
  std::uint32_t shared_bytes_per_block = 48 * 1024;  // without opting in
  std::uint32_t shared_bytes_per_block_optin = 0;
  std::uint32_t shared_bytes_per_multiprocessor = 0;
  std::uint32_t shared_bytes_reserved_per_block = 0;  // by the system, out of the multiprocessor's
  std::uint32_t registers_per_thread = 255;
  std::uint32_t registers_per_block = 65536;
  std::uint32_t registers_per_multiprocessor = 65536;
  std::uint32_t threads_per_block = 1024;
  std::uint32_t threads_per_multiprocessor = 0;
  std::uint32_t blocks_per_multiprocessor = 0;
  std::uint32_t warps_per_multiprocessor() const { return threads_per_multiprocessor / 32; }
  std::uint32_t grid_x = 0x7fffffff, grid_y = 65535, grid_z = 65535;
  std::uint32_t block_x = 1024, block_y = 1024, block_z = 64;
  std::uint32_t multiprocessor_count = 0;
  std::uint64_t memory_bytes = 0;
};

// Which unit a tensor-core instruction drives.
enum class MmaUnit : std::uint8_t {
  MmaSync,    // mma.sync.m16n8kK
  MmaM8n8k4,  // mma.sync.m8n8k4 with f16 operands
  Wgmma,      // wgmma.mma_async
  Tcgen05,    // tcgen05.mma
};
// Operands and modifiers that share an implementation.
enum class MmaKind : std::uint8_t {
  F16,
  BF16,
  TF32,
  FP8,       // e4m3 and e5m2 in any mix, without .kind (wgmma's FP8 too)
  F8F6F4,    // .kind::f8f6f4: any mix of e4m3 e5m2 e3m2 e2m3 e2m1 (FP8 alone: fp8_only)
  MxF8F6F4,  // .kind::mxf8f6f4.block_scale
  MxF4,      // .kind::mxf4.block_scale
  MxF4Nvf4,  // .kind::mxf4nvf4.block_scale
  Int8,      // s8 and u8 in any mix
};
enum class MmaAccumulator : std::uint8_t { F32, F16, S32 };

// Where a row's numbers come from.
enum class Evidence : std::uint8_t {
  Hardware,  // equals results measured on silicon
  Model,     // as in a published model that its authors compared with hardware
};

// One row: all instructions of a unit with these operands, accumulator and any of these K.
struct MmaRule {
  MmaUnit unit;
  MmaKind kind;
  MmaAccumulator accumulator;
  std::uint32_t k[2];  // allowed K; 0: none
  numeric::MmaScheme scheme;
  numeric::MmaBlock block;
  Evidence evidence;
  bool fp8_only = false;    // of F8F6F4: FP6 and FP4 operands are illegal here
  bool ue4m3_only = false;  // of MxF4Nvf4: ue8m0 scales are illegal here
};

struct GenerationSpec {
  std::uint32_t sm;               // 75, 80, ...
  std::string_view name;          // "sm_90"
  std::string_view architecture;  // "Hopper"
  std::string_view part;          // the GPU whose multiprocessors and memory these are
  Limits limits;
  std::span<const MmaRule> mma;
  // mma.sync with 16-bit operands and f32 accumulator: what contracts and bounds need.
  const numeric::MmaBlock& f16_block() const;
};

// What a PTX instruction (or a vector file) asks for.
struct MmaQuery {
  MmaUnit unit = MmaUnit::MmaSync;
  numeric::MmaFormat a = numeric::MmaFormat::F16, b = numeric::MmaFormat::F16;
  numeric::MmaFormat c = numeric::MmaFormat::F32;  // of C and D
  std::uint32_t k = 16;
  bool kind_f8f6f4 = false;  // .kind::f8f6f4 spelled out
  bool satfinite = false;    // of integer forms
  bool scaled = false;       // .block_scale; then:
  numeric::MmaFormat scale = numeric::MmaFormat::UE8M0;
  std::uint32_t scale_block = 32;  // 64 / scale_vec of K = 64, 32 for mxf8f6f4
};

// The arithmetic of an instruction, or an Unsupported error whose text says that this generation
// has no such instruction (where = the instruction).
base::Result<numeric::MmaForm> mma_form(const GenerationSpec& generation, const MmaQuery& query);

// All generations, oldest first.
std::span<const GenerationSpec* const> all();
// By number (90); nullptr if there is none.
const GenerationSpec* find(std::uint32_t sm);
const GenerationSpec* find(std::string_view name);  // "sm_90"

extern const GenerationSpec kSm75, kSm80, kSm89, kSm90, kSm100, kSm120;

}  // namespace lockstep::device::vgpu::generation
