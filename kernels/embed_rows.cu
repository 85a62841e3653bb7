// out[r, i] = fl32(w[tokens[r], i] * scale), w = fl32(exact value of the block's code).
//
// Layout: table in tiles of 8 outputs (kernels/weights.h), tokens u32 [rows], out f32
// [rows, columns]. Grid rule: one block of 4 warps a row; warp w decodes the chunks of 128 columns
// w, w + 4, ... of the tile that holds the token's row, 8 outputs at once, and keeps one.
// Limits: every token is below the table's rows. 16-byte stores where columns % 4 == 0.
//
// Bound by latency: reads the tile, 8 times the row's own bytes (a few KiB), and writes 4 bytes a
// column; a step of the engine runs it once.
#include "kernels/lib/weight_tiles.cuh"

namespace lockstep::kernels {
namespace {

template <class Tile>
__device__ __forceinline__ void embed_rows(const unsigned char* __restrict__ table,
                                           const std::uint32_t* __restrict__ tokens,
                                           float* __restrict__ out, unsigned columns,
                                           unsigned tile_bytes, float scale) {
  const unsigned lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y;
  const unsigned token = tokens[blockIdx.x];
  const int wanted = static_cast<int>(token % kTileOutputs);
  auto cursor =
      Tile::start(table + std::uint64_t{token / kTileOutputs} * tile_bytes, columns, warp, lane);
  for (unsigned chunk = warp; chunk * kChunkColumns < columns; chunk += warps) {
    const unsigned column = chunk * kChunkColumns + lane * kSlotColumns;
    float w[4] = {};
    Tile::decode(Tile::template load<true>(cursor, chunk, lane, column < columns),
                 [&](int o, int i, float value) {
                   if (o == wanted) w[i] = value;
                 });
    Tile::advance(cursor, warps);
    float* to = out + std::uint64_t{blockIdx.x} * columns + column;
    if (columns % 4 == 0) {
      if (column < columns) {
        *reinterpret_cast<float4*>(to) =
            float4{w[0] * scale, w[1] * scale, w[2] * scale, w[3] * scale};
      }
    } else {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        if (column + i < columns) to[i] = w[i] * scale;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_EMBED_ROWS(suffix, decoder)                                                   \
  extern "C" __global__ void __launch_bounds__(128)                                            \
      embed_rows_##suffix(const unsigned char* table, const std::uint32_t* tokens, float* out, \
                          unsigned columns, unsigned tile_bytes, float scale) {                \
    lockstep::kernels::embed_rows<lockstep::kernels::decoder>(table, tokens, out, columns,     \
                                                              tile_bytes, scale);              \
  }
LOCKSTEP_WEIGHT_TILES(LOCKSTEP_EMBED_ROWS)
