// y[r, o] = sum_i w[o, i] x[r, i], w = fl32(exact value of the block's code), all sums in float32.
//
// Layout: x f32 [rows, columns], weight tiles of 8 outputs (kernels/weights.h), y f32
// [rows, outputs]. A warp owns a tile, or one of `split` parts of its columns (part p has the
// chunks of 128 columns p, p + split, ...), and kRows rows of x. In a chunk a lane has 4 columns:
// it decodes 8 x 4 weights once and uses them for each row, one fmaf chain for each (row, output)
// in ascending columns. Then a tree over the 32 lanes and, in ascending order, over the parts.
// Grid rule: blocks of 4 warps, x over tiles (a warp takes several, one behind the other, where
// there are many), y over passes of kRows rows. split depends on the matrix alone and a row's chain
// on nothing else: its bits don't depend on the rows beside it.
// Limits: columns a multiple of the type's block; 16-byte loads of x where columns % 4 == 0, single
// elements otherwise.
//
// Bound by the weights' bytes for few rows: each is read once for 8 rows, 16 bytes a lane and
// contiguous over the warp (Q4_K 148 bytes for the file's 144, all others the file's own size,
// outputs filled up to a multiple of 8). x stays in L1/L2 (read once for 8 outputs). By
// instructions for more: of a lane for 32 weights 20 (F32), 58 (F16), 90 (Q8_0) to 150 (Q6_K) once
// and 34 a row, in PTX.
#include "kernels/lib/weight_tiles.cuh"

namespace lockstep::kernels {
namespace {

inline constexpr unsigned kWarps = 4;

// One lane's 4 columns of a row.
template <bool kGuarded>
__device__ __forceinline__ float4 load_x(const float* from, unsigned column, unsigned columns) {
  if (!kGuarded) return __ldg(reinterpret_cast<const float4*>(from));
  float4 x{};
  if (columns % 4 == 0) {
    if (column < columns) x = __ldg(reinterpret_cast<const float4*>(from));
    return x;
  }
  if (column < columns) x.x = __ldg(from);
  if (column + 1 < columns) x.y = __ldg(from + 1);
  if (column + 2 < columns) x.z = __ldg(from + 2);
  if (column + 3 < columns) x.w = __ldg(from + 3);
  return x;
}

// x of the lane whose number differs in the bits of kMask; by all lanes.
template <int kMask>
__device__ __forceinline__ float from_other(float x) {
  float result;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=f"(result)
               : "f"(x), "n"(kMask));
  return result;
}

// Sum of 8 numbers over a warp's lanes: lanes 4 o to 4 o + 3 get that of output o, all four the
// same bits. Halving the outputs a lane keeps at each of the first levels: 9 shuffles, not 40.
__device__ __forceinline__ float sum_outputs(const float (&x)[8], unsigned lane) {
  float four[4], two[2];
  const bool upper16 = lane & 16, upper8 = lane & 8, upper4 = lane & 4;
#pragma unroll
  for (int o = 0; o < 4; ++o) {
    const float keep = upper16 ? x[o + 4] : x[o], give = upper16 ? x[o] : x[o + 4];
    four[o] = keep + from_other<16>(give);
  }
#pragma unroll
  for (int o = 0; o < 2; ++o) {
    const float keep = upper8 ? four[o + 2] : four[o], give = upper8 ? four[o] : four[o + 2];
    two[o] = keep + from_other<8>(give);
  }
  const float keep = upper4 ? two[1] : two[0], give = upper4 ? two[0] : two[1];
  float sum = keep + from_other<4>(give);
  sum += from_other<2>(sum);
  return sum + from_other<1>(sum);
}

// What one warp sums of one tile: acc[r][o].
template <class Tile, int kRows>
struct WarpSums {
  float acc[kRows][8] = {};

  template <bool kGuarded>
  __device__ __forceinline__ void step(const typename Tile::Cursor& cursor, unsigned chunk,
                                       unsigned lane, unsigned columns,
                                       const float* const (&from)[kRows]) {
    const unsigned column = chunk * kChunkColumns + lane * kSlotColumns;
    const auto raw = Tile::template load<kGuarded>(cursor, chunk, lane, column < columns);
    float4 x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = load_x<kGuarded>(from[r], column, columns);
    Tile::decode(raw, [&](int o, int i, float w) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float x_i = i == 0 ? x[r].x : i == 1 ? x[r].y : i == 2 ? x[r].z : x[r].w;
        acc[r][o] = fmaf(w, x_i, acc[r][o]);
      }
    });
  }
  // The chunks part, part + parts, ... of the tile at `tile`; x_rows: a lane's first column of each
  // row. Whole chunks, all lanes; then what is left (all of it where x can't be read in vectors).
  __device__ __forceinline__ void run(const unsigned char* tile, unsigned columns, unsigned part,
                                      unsigned parts, unsigned lane,
                                      const float* const (&x_rows)[kRows]) {
    const float* from[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) from[r] = x_rows[r];
    auto cursor = Tile::start(tile, columns, part, lane);
    const unsigned whole = columns % 4 == 0 ? columns / kChunkColumns : 0;
    unsigned chunk = part;
#pragma unroll 1
    for (; chunk < whole; chunk += parts) {
      step<false>(cursor, chunk, lane, columns, from);
      Tile::advance(cursor, parts);
#pragma unroll
      for (int r = 0; r < kRows; ++r) from[r] += parts * kChunkColumns;
    }
#pragma unroll 1
    for (; chunk * kChunkColumns < columns; chunk += parts) {
      step<true>(cursor, chunk, lane, columns, from);
      Tile::advance(cursor, parts);
#pragma unroll
      for (int r = 0; r < kRows; ++r) from[r] += parts * kChunkColumns;
    }
  }
};

template <class Tile, int kRows>
__device__ __forceinline__ void gemv(const float* __restrict__ x,
                                     const unsigned char* __restrict__ weight,
                                     float* __restrict__ y, unsigned rows, unsigned outputs,
                                     unsigned columns, unsigned tile_bytes, unsigned split_log2) {
  const unsigned lane = threadIdx.x, warp = threadIdx.y;
  const unsigned split = 1u << split_log2, part = warp & (split - 1);
  const unsigned tiles = (outputs + kTileOutputs - 1) / kTileOutputs;
  const unsigned step = gridDim.x * (kWarps >> split_log2);  // tiles that the grid has at a time
  const unsigned first_row = blockIdx.y * kRows;
  const float* from[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    // A row beyond the end is the last one again; it is not written.
    const unsigned row = min(first_row + r, rows - 1);
    from[r] = x + std::uint64_t{row} * columns + part * kChunkColumns + lane * kSlotColumns;
  }
  const unsigned first_tile = blockIdx.x * (kWarps >> split_log2) + (warp >> split_log2);
  __shared__ float parts[kWarps][kRows][kTileOutputs];
#pragma unroll 1
  for (unsigned tile = first_tile; tile < tiles; tile += step) {
    WarpSums<Tile, kRows> sums;
    sums.run(weight + std::uint64_t{tile} * tile_bytes, columns, part, split, lane, from);
    const unsigned output = tile * kTileOutputs + lane / 4;
    float* to = y + std::uint64_t{first_row} * outputs + output;
    const bool mine = lane % 4 == 0 && output < outputs;
#pragma unroll
    for (unsigned r = 0; r < kRows; ++r) {
      const float sum = sum_outputs(sums.acc[r], lane);
      if (split_log2 != 0) {
        if (lane % 4 == 0) parts[warp][r][lane / 4] = sum;
      } else if (mine && first_row + r < rows) {
        *to = sum;
      }
      to += outputs;
    }
  }
  if (split_log2 == 0) return;
  // One tile a warp; its parts meet.
  __syncthreads();
  // Lane 8 a + o of the first part's warp: rows a, a + 4, ... of output o.
  const unsigned output = first_tile * kTileOutputs + lane % 8;
  if (part != 0 || output >= outputs) return;
#pragma unroll 1
  for (unsigned r = lane / 8; r < kRows && first_row + r < rows; r += 4) {
    float sum = parts[warp][r][lane % 8];
#pragma unroll 1
    for (unsigned p = 1; p < split; ++p) sum += parts[warp + p][r][lane % 8];
    y[std::uint64_t{first_row + r} * outputs + output] = sum;
  }
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_GEMV_ROWS(suffix, decoder, row_count)                                        \
  extern "C" __global__ void __launch_bounds__(128) gemv_##suffix##_r##row_count(             \
      const float* x, const unsigned char* weight, float* y, unsigned rows, unsigned outputs, \
      unsigned columns, unsigned tile_bytes, unsigned split_log2) {                           \
    using namespace lockstep::kernels;                                                        \
    gemv<decoder, row_count>(x, weight, y, rows, outputs, columns, tile_bytes, split_log2);   \
  }
#define LOCKSTEP_GEMV(suffix, decoder)   \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 1) \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 2) \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 4) \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 8)
LOCKSTEP_WEIGHT_TILES(LOCKSTEP_GEMV)
