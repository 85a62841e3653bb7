// Weights as the kernels want them: repacked once at load where the file's blocks (18, 20, 22, 34,
// 210 bytes) cannot be read by aligned 16-byte loads; the same bits otherwise regrouped.
//
// A matrix is cut in tiles of 8 outputs (rows of the file's matrix; the last tile is filled up with
// zeros), one behind the other. A tile holds one slot for each 4 columns: slot s has columns 4 s to
// 4 s + 3 of all 8 outputs, so that 32 lanes of a warp with a slot each read 128 columns of x and
// of the weights, contiguous and in vectors. o: output of the tile; i: column of the slot; K:
// columns; J = ceil(K / 4): slots. A tile's planes, each a multiple of 16 bytes:
//   F32         8 x [J][i] f32: plane o
//   F16, BF16   4 x [J][o % 2][i] 16-bit numbers: plane o / 2
//   Q8_0        2 x [J][o % 4][i] bytes q + 128: plane o / 4;  [K / 32][o] f16 d
//   Q4_0        [J][i] words, q at bits 4 o;                   [K / 32][o] f16 d
//   Q4_1        [J][i] words, q at bits 4 o;                   [K / 32][o] f16 {d, m}
//   Q5_0        [J][4] words, [J] fifth words: word i has q of outputs 0 .. 5 at bits 5 o; word 4
//               those of outputs 6 and 7, columns 0 .. 2, at bits 10 i and 10 i + 5. Bits 30 and 31
//               of words 0 .. 4, put together, word 0's highest: q(6, 3) + 32 q(7, 3);
//               [K / 32][o] f16 d
//   Q4_K        [J][i] words, q at bits 4 o;  [K / 32][o] u8 {scale, min};  [K / 256][o] f16
//               {d, dmin}. The file packs scale and min in 6 bits: 148 bytes here, 144 there.
//   Q6_K        [J][4] words, [J][2] words: 2 groups of 3 words, each with the q of columns 2 g and
//               2 g + 1. Field f = 8 (i % 2) + o is at bits 6 (f % 5) of word f / 5, field 15 in
//               bits 30 and 31 of the three words, the first word's highest;
//               [K / 16][o] i8 scale;  [K / 256][o] f16 d
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/dtype.h"

namespace lockstep::kernels {

inline constexpr std::uint32_t kTileOutputs = 8;
inline constexpr std::uint32_t kSlotColumns = 4;
inline constexpr std::uint32_t kChunkColumns = 128;  // of a warp: 32 slots

// Whether gemv, gemm and embed_rows decode this type: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K.
bool weight_supported(model::DType dtype);
// The suffix of kernels' names: "q4_k". Supported types only.
const char* weight_suffix(model::DType dtype);
// Bytes of one tile, and of a matrix, on the device. `columns`: a multiple of the type's block.
std::uint64_t weight_tile_bytes(model::DType dtype, std::uint32_t columns);
std::uint64_t weight_bytes(model::DType dtype, std::uint32_t rows, std::uint32_t columns);
// File bytes of [rows, columns] -> device bytes, and back (unpack(repack(x)) == x).
std::vector<std::byte> repack(model::DType dtype, std::uint32_t rows, std::uint32_t columns,
                              std::span<const std::byte> file_bytes);
std::vector<std::byte> unpack(model::DType dtype, std::uint32_t rows, std::uint32_t columns,
                              std::span<const std::byte> device_bytes);

}  // namespace lockstep::kernels
