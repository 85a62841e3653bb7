// y[r, o] = sum_i w[o, i] x[r, i], w = fl32(exact value of the block's code), all sums in float32.
//
// Layout: x f32 [rows, columns], weight tiles of 8 outputs (kernels/weights.h), y f32
// [rows, outputs]. A warp owns a tile, or one of `split` parts of its columns (part p has the
// chunks of 128 columns p, p + split, ...), and kRows rows of x. In a chunk a lane has 4 columns:
// it decodes 8 x 4 weights once and uses them for each row, one fmaf chain for each (row, output)
// in ascending columns. Then a tree over the 32 lanes and, in ascending order, over the parts.
// Grid rule: blocks of 4 warps, x over tiles, y over passes of kRows rows. split depends on the
// matrix alone and a row's chain on nothing else: its bits don't depend on the rows beside it.
// Limits: columns a multiple of the type's block; 16-byte loads of x where columns % 4 == 0, single
// elements otherwise.
//
// Bound by the weights' bytes for few rows: each is read once for 8 rows, 16 bytes a lane and
// contiguous over the warp (Q4_K 148 bytes for the file's 144, all others the file's own size,
// outputs filled up to a multiple of 8). x stays in L1/L2 (read once for 8 outputs). By
// instructions for more: of a lane for 32 weights about 60 (F16) to 140 (Q6_K) once, 33 a row.
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

// Sum of 8 numbers over a warp's lanes: lane 4 o + anything gets that of output o, all four the
// same bits. Halving the outputs a lane keeps at each of the first levels: 9 shuffles, not 40.
__device__ __forceinline__ float sum_outputs(const float (&x)[8], unsigned lane) {
  float four[4], two[2];
  const bool upper16 = lane & 16, upper8 = lane & 8, upper4 = lane & 4;
#pragma unroll
  for (int o = 0; o < 4; ++o) {
    const float keep = upper16 ? x[o + 4] : x[o], give = upper16 ? x[o] : x[o + 4];
    four[o] = keep + __shfl_xor_sync(kFullWarp, give, 16);
  }
#pragma unroll
  for (int o = 0; o < 2; ++o) {
    const float keep = upper8 ? four[o + 2] : four[o], give = upper8 ? four[o] : four[o + 2];
    two[o] = keep + __shfl_xor_sync(kFullWarp, give, 8);
  }
  const float keep = upper4 ? two[1] : two[0], give = upper4 ? two[0] : two[1];
  float sum = keep + __shfl_xor_sync(kFullWarp, give, 4);
  sum += __shfl_xor_sync(kFullWarp, sum, 2);
  return sum + __shfl_xor_sync(kFullWarp, sum, 1);
}

// What one warp has summed: acc[r][o].
template <class Tile, int kRows>
struct WarpSums {
  float acc[kRows][8] = {};

  __device__ __forceinline__ void add(const typename Tile::Raw& raw, const float4 (&x)[kRows]) {
    Tile::decode(raw, [&](int o, int i, float w) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float x_i = i == 0 ? x[r].x : i == 1 ? x[r].y : i == 2 ? x[r].z : x[r].w;
        acc[r][o] = fmaf(w, x_i, acc[r][o]);
      }
    });
  }
  template <bool kGuarded>
  __device__ __forceinline__ void step(const typename Tile::Cursor& cursor, unsigned chunk,
                                       unsigned lane, unsigned columns,
                                       const float* const (&from)[kRows]) {
    const unsigned column = chunk * kChunkColumns + lane * kSlotColumns;
    const auto raw = Tile::template load<kGuarded>(cursor, chunk, lane, column < columns);
    float4 x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = load_x<kGuarded>(from[r], column, columns);
    add(raw, x);
  }
};

template <class Tile, int kRows>
__device__ __forceinline__ void gemv(const float* __restrict__ x,
                                     const unsigned char* __restrict__ weight,
                                     float* __restrict__ y, unsigned rows, unsigned outputs,
                                     unsigned columns, unsigned tile_bytes, unsigned split) {
  const unsigned lane = threadIdx.x, warp = threadIdx.y;
  const unsigned part = warp % split;
  const unsigned tile = blockIdx.x * (kWarps / split) + warp / split;
  const bool active = tile * kTileOutputs < outputs;
  const unsigned first_row = blockIdx.y * kRows;
  WarpSums<Tile, kRows> sums;
  if (active) {
    const float* from[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      // A row beyond the end is the last one again; it is not written.
      const unsigned row = min(first_row + r, rows - 1);
      from[r] = x + std::uint64_t{row} * columns + part * kChunkColumns + lane * kSlotColumns;
    }
    auto cursor = Tile::start(weight + std::uint64_t{tile} * tile_bytes, columns, part, lane);
    // Whole chunks, all lanes; then what is left (all of it where x can't be read in vectors).
    const unsigned whole = columns % 4 == 0 ? columns / kChunkColumns : 0;
    unsigned chunk = part;
#pragma unroll 1
    for (; chunk < whole; chunk += split) {
      sums.template step<false>(cursor, chunk, lane, columns, from);
      Tile::advance(cursor, split);
#pragma unroll
      for (int r = 0; r < kRows; ++r) from[r] += split * kChunkColumns;
    }
#pragma unroll 1
    for (; chunk * kChunkColumns < columns; chunk += split) {
      sums.template step<true>(cursor, chunk, lane, columns, from);
      Tile::advance(cursor, split);
#pragma unroll
      for (int r = 0; r < kRows; ++r) from[r] += split * kChunkColumns;
    }
  }
  __shared__ float parts[kWarps][kRows][kTileOutputs];
  const unsigned output = tile * kTileOutputs + lane / 4;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float sum = sum_outputs(sums.acc[r], lane);
    const bool mine = lane % 4 == 0 && output < outputs && first_row + r < rows;
    if (split == 1) {
      if (mine) y[std::uint64_t{first_row + r} * outputs + output] = sum;
    } else if (mine) {
      parts[warp][r][lane / 4] = sum;
    }
  }
  if (split == 1) return;
  __syncthreads();
  if (part != 0 || lane % 4 != 0 || output >= outputs) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first_row + r >= rows) return;
    float sum = parts[warp][r][lane / 4];
    for (unsigned p = 1; p < split; ++p) sum += parts[warp + p][r][lane / 4];
    y[std::uint64_t{first_row + r} * outputs + output] = sum;
  }
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_GEMV_ROWS(suffix, decoder, row_count)                                        \
  extern "C" __global__ void __launch_bounds__(128) gemv_##suffix##_r##row_count(             \
      const float* x, const unsigned char* weight, float* y, unsigned rows, unsigned outputs, \
      unsigned columns, unsigned tile_bytes, unsigned split) {                                \
    using namespace lockstep::kernels;                                                        \
    gemv<decoder, row_count>(x, weight, y, rows, outputs, columns, tile_bytes, split);        \
  }
#define LOCKSTEP_GEMV(suffix, decoder)   \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 1) \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 2) \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 4) \
  LOCKSTEP_GEMV_ROWS(suffix, decoder, 8)
LOCKSTEP_WEIGHT_TILES(LOCKSTEP_GEMV)
