// y[r, o] = sum_k RN(w[o, k]) x[r, k] on tensor cores, w = fl32(exact value of the block's code),
// RN to the operands' format (f16 or bf16, x is in it), float32 accumulators.
//
// Layout: x 16-bit [rows, columns], weight tiles of 8 outputs (kernels/weights.h), y f32
// [rows, outputs]. A block of 2 warps owns 16, 32 or 64 rows and 64 outputs; a warp 32 outputs of
// all the block's rows. Per chunk of 128 columns a warp decodes its own 4 x 8 x 128 weights into
// shared memory, once for all rows and seen by no other warp; x comes by cp.async in stages of 64
// columns, double buffered, and is shared by the warps. Rows of both in shared memory are 16 bytes
// longer than their columns, so that no 8 rows that ldmatrix reads meet in a bank.
// Order: mma.sync m16n8k16 with k = 0, 16, 32, ..., one accumulator: a row's bits depend neither on
// the rows beside it nor on how rows are cut into blocks. Columns filled up to a multiple of 64 are
// zeros on both sides, which take no part in a sum.
// Grid rule: x over 64 outputs, y over the rows of the launch.
// Limits: cp.async where columns % 8 == 0, single elements otherwise.
//
// Bound by the tensor cores from about 64 rows on, by the weights' bytes below: they are read (and
// decoded) once for 64 rows, x once for 64 outputs (from L2 but for the first time). A warp with 64
// rows spends 6.6 (F16), 7.5 (Q8_0) to 9.4 (Q4_1) PTX instructions a mma: 1.4 on the product and
// its operands (192 bytes of shared memory), the rest on decoding and copies.
#include "kernels/lib/async_copy.cuh"
#include "kernels/lib/mma.cuh"
#include "kernels/lib/weight_tiles.cuh"

namespace lockstep::kernels {
namespace {

inline constexpr unsigned kWarps = 2;
inline constexpr unsigned kWarpTiles = 4;                           // of 8 outputs
inline constexpr unsigned kStageColumns = 64;                       // of x
inline constexpr unsigned kStageStride = (kStageColumns + 8) * 2;   // bytes
inline constexpr unsigned kWeightStride = (kChunkColumns + 8) * 2;  // bytes
inline constexpr unsigned kWarpBytes = kWarpTiles * kTileOutputs * kWeightStride;

// load_matrices at a constant offset.
template <int kOffset>
__device__ __forceinline__ void load_matrices_at(std::uint32_t (&r)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4 + %5];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared), "n"(kOffset)
               : "memory");
}

// A block's x: 16 kRowTiles rows by 64 columns, twice.
template <int kRowTiles>
struct Stages {
  static constexpr unsigned kBytes = kRowTiles * 16 * kStageStride;
  static constexpr unsigned kThreadRows = kWarps * kLanes / 8;  // that the block copies at a time
  static constexpr unsigned kCopies = kRowTiles * 16 / kThreadRows;
  const std::uint16_t* x;     // the block's first row
  const std::uint16_t* from;  // this thread's 8 columns of its first row, in the next stage
  std::uint32_t to;           // where they go
  unsigned rows, columns;     // rows of x from the block's first on
  unsigned row, column;

  __device__ __forceinline__ Stages(const std::uint16_t* all, unsigned char* shared,
                                    unsigned all_rows, unsigned columns_in, unsigned first_row)
      : x(all + std::uint64_t{first_row} * columns_in),
        rows(all_rows - first_row),
        columns(columns_in),
        row(thread() / 8),
        column(thread() % 8 * 8) {
    from = x + std::uint64_t{row} * columns + column;
    to = shared_address(shared) + row * kStageStride + column * 2;
  }
  __device__ __forceinline__ static unsigned thread() { return threadIdx.y * 32 + threadIdx.x; }

  // Starts the copy of the next 64 columns to buffer kBuffer. Rows and columns beyond the end: 0.
  template <int kBuffer>
  __device__ __forceinline__ void load() {
    if (columns % 8 == 0) {
      const unsigned rows_here = column < columns ? rows : 0;
#pragma unroll
      for (unsigned n = 0; n < kCopies; ++n) {
        copy_async_16(to + kBuffer * kBytes + n * kThreadRows * kStageStride,
                      from + std::uint64_t{n * kThreadRows} * columns,
                      row + n * kThreadRows < rows_here);
      }
      commit_copies();
    } else {
      load_elements(kBuffer * kBytes);
    }
    from += kStageColumns;
    column += kStageColumns;
  }
  __device__ __forceinline__ void load_elements(unsigned offset) {
    const unsigned first_column = column - thread() % 8 * 8;
    const std::uint32_t start = to - thread() / 8 * kStageStride - thread() % 8 * 16 + offset;
#pragma unroll 1
    for (unsigned e = thread(); e < kRowTiles * 16 * kStageColumns; e += kWarps * kLanes) {
      const unsigned r = e / kStageColumns, c = e % kStageColumns;
      std::uint16_t value = 0;
      if (r < rows && first_column + c < columns) {
        value = x[std::uint64_t{r} * columns + first_column + c];
      }
      asm volatile("st.shared.u16 [%0], %1;" ::"r"(start + r * kStageStride + c * 2), "h"(value)
                   : "memory");
    }
  }
};

// A warp's sums, and the products that it adds. Templates of plain indices and not lambdas: names
// of nested lambdas would make up most of the PTX.
template <Format kFormat, int kRowTiles>
struct Products {
  float acc[kRowTiles][kWarpTiles][4] = {};
  std::uint32_t a_address, b_address;

  // The four 8 x 8 matrices of A: rows 0 .. 7, rows 8 .. 15, then both for k 8 .. 15; of B, for
  // each two tiles: (tile 0, k 0 .. 7), (tile 0, k 8 .. 15), then tile 1.
  __device__ __forceinline__ Products(const void* x, const void* weights, unsigned lane)
      : a_address(shared_address(x) + lane % 16 * kStageStride + lane / 16 * 16),
        b_address(shared_address(weights) + (lane / 16 * 8 + lane % 8) * kWeightStride +
                  lane / 8 % 2 * 16) {}

  // Rows kRowTile of A, which starts at kA, times all tiles.
  template <int kRowTile, int kA>
  __device__ __forceinline__ void row(const std::uint32_t (&b)[kWarpTiles / 2][4]) {
    std::uint32_t a[4];
    load_matrices_at<kA + kRowTile * 16 * kStageStride>(a, a_address);
#pragma unroll
    for (unsigned t = 0; t < kWarpTiles; ++t) {
      mma_m16n8k16<kFormat>(acc[kRowTile][t], a, b[t / 2][t % 2 * 2], b[t / 2][t % 2 * 2 + 1]);
    }
    if constexpr (kRowTile + 1 < kRowTiles) row<kRowTile + 1, kA>(b);
  }
  // 16 columns from column 16 kStep of stage kBuffer on.
  template <int kBuffer, int kStep>
  __device__ __forceinline__ void step() {
    std::uint32_t b[kWarpTiles / 2][4];
    constexpr int kB = (kBuffer * kStageColumns + kStep * 16) * 2;
    static_assert(kWarpTiles == 4);
    load_matrices_at<kB>(b[0], b_address);
    load_matrices_at<kB + 2 * kTileOutputs * kWeightStride>(b[1], b_address);
    row<0, kBuffer * Stages<kRowTiles>::kBytes + kStep * 32>(b);
  }
  template <int kBuffer>
  __device__ __forceinline__ void stage() {
    step<kBuffer, 0>();
    step<kBuffer, 1>();
    step<kBuffer, 2>();
    step<kBuffer, 3>();
  }
};

// Decodes a lane's slot of one tile and writes its 8 x 4 weights to rows of shared memory.
template <class Tile, Format kFormat>
__device__ __forceinline__ void put_weights(const typename Tile::Raw& raw, unsigned char* to) {
  float w[8][4];
  Tile::decode(raw, [&](int o, int i, float value) { w[o][i] = value; });
#pragma unroll
  for (int o = 0; o < 8; ++o) {
    *reinterpret_cast<uint2*>(to + o * kWeightStride) = {pack(kFormat, w[o][0], w[o][1]),
                                                         pack(kFormat, w[o][2], w[o][3])};
  }
}

template <class Tile, Format kFormat, int kRowTiles>
__device__ __forceinline__ void gemm(const std::uint16_t* __restrict__ x,
                                     const unsigned char* __restrict__ weight,
                                     float* __restrict__ y, unsigned rows, unsigned outputs,
                                     unsigned columns, unsigned tile_bytes) {
  __shared__ alignas(16) unsigned char x_shared[2 * Stages<kRowTiles>::kBytes];
  __shared__ alignas(16) unsigned char w_shared[kWarps * kWarpBytes];
  const unsigned lane = threadIdx.x, warp = threadIdx.y;
  const unsigned first_row = blockIdx.y * kRowTiles * 16;
  const unsigned first_tile = (blockIdx.x * kWarps + warp) * kWarpTiles;
  unsigned char* const own = w_shared + warp * kWarpBytes;

  Products<kFormat, kRowTiles> products(x_shared, own, lane);
  Stages<kRowTiles> stages(x, x_shared, rows, columns, first_row);
  stages.template load<0>();
#pragma unroll 1
  for (unsigned chunk = 0; chunk * kChunkColumns < columns; ++chunk) {
    const unsigned column = chunk * kChunkColumns;
    __syncwarp();  // all lanes have read the chunk before
#pragma unroll 1
    for (unsigned t = 0; t < kWarpTiles; ++t) {
      const unsigned tile = first_tile + t;
      const bool in_tiles = tile * kTileOutputs < outputs;
      const auto cursor =
          Tile::start(weight + std::uint64_t{tile} * tile_bytes, columns, chunk, lane);
      typename Tile::Raw raw;
      if (in_tiles && column + kChunkColumns <= columns) {
        raw = Tile::template load<false>(cursor, chunk, lane, true);
      } else {
        raw = Tile::template load<true>(cursor, chunk, lane,
                                        in_tiles && column + lane * kSlotColumns < columns);
      }
      put_weights<Tile, kFormat>(raw,
                                 own + t * kTileOutputs * kWeightStride + lane * kSlotColumns * 2);
    }
    __syncwarp();
    // Each stage: its copies have come, for all threads; all threads are done with the other
    // buffer, which the next stage's copies may fill.
    wait_for_copies<0>();
    __syncthreads();
    const bool second = column + kStageColumns < columns;
    if (second) stages.template load<1>();
    products.template stage<0>();
    if (second) {
      wait_for_copies<0>();
      __syncthreads();
      if (column + kChunkColumns < columns) stages.template load<0>();
      products.template stage<1>();
    }
  }

#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (unsigned t = 0; t < kWarpTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned row = first_row + m * 16 + half * 8 + lane / 4;
        const unsigned output = (first_tile + t) * kTileOutputs + lane % 4 * 2;
        if (row >= rows || output >= outputs) continue;
        float* to = y + std::uint64_t{row} * outputs + output;
        const float first = products.acc[m][t][2 * half], next = products.acc[m][t][2 * half + 1];
        if (outputs % 2 == 0) {
          *reinterpret_cast<float2*>(to) = {first, next};
        } else {
          to[0] = first;
          if (output + 1 < outputs) to[1] = next;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_GEMM_ROWS(suffix, decoder, name, format, row_tiles, row_count)           \
  extern "C" __global__ void __launch_bounds__(64) gemm_##suffix##_##name##_m##row_count( \
      const std::uint16_t* x, const unsigned char* weight, float* y, unsigned rows,       \
      unsigned outputs, unsigned columns, unsigned tile_bytes) {                          \
    using namespace lockstep::kernels;                                                    \
    gemm<decoder, format, row_tiles>(x, weight, y, rows, outputs, columns, tile_bytes);   \
  }
#define LOCKSTEP_GEMM_FORMAT(suffix, decoder, name, format) \
  LOCKSTEP_GEMM_ROWS(suffix, decoder, name, format, 1, 16)  \
  LOCKSTEP_GEMM_ROWS(suffix, decoder, name, format, 2, 32)  \
  LOCKSTEP_GEMM_ROWS(suffix, decoder, name, format, 4, 64)
#define LOCKSTEP_GEMM(suffix, decoder)                    \
  LOCKSTEP_GEMM_FORMAT(suffix, decoder, f16, Format::F16) \
  LOCKSTEP_GEMM_FORMAT(suffix, decoder, bf16, Format::BF16)
LOCKSTEP_WEIGHT_TILES(LOCKSTEP_GEMM)
