// Queries of several requests' prompt chunks over their cells, on tensor cores (mma.sync m16n8k16):
// out = softmax(scale Q K^T) V, causal from each query's absolute position p: keys
// max(0, p + 1 - window) .. p.
//   s = sum of q k over the head in increasing blocks of 16 from 0; t = s * fl(scale log2 e);
//   masked: -Inf a tile: m' = max(m, max t), P = RN(2^(t - m')) in the operand format (masked: +0),
//   l = l 2^(m - m') + sum P (as rounded), O = O 2^(m - m') then += P V in blocks of 16 keys
//   out = O / l by div.rn, rounded to out's format. 2^x by ex2.approx.
//
// Order: tiles of kTile keys (64; 32 for heads over 128), counted from absolute key 0, ascending.
// Blocks of 8 keys (scores) and 16 keys (values) that are masked for all 16 queries of a warp are
// left out: a product with zeros changes no bit of an accumulator (but that it makes -0, which an
// underflow in O's rescaling may leave, +0; a tile that rescales has at least one product). So a
// row's bits depend neither on the chunk nor on the batch that it came in.
//
// Layout: q [rows, heads, D] and cells (KvLayout, launch.h) in the operand format; out [rows,
// heads, D] f32, f16 or bf16. Grid rule: (query tiles, kv heads, segments) blocks of 4 warps; a
// query tile is 64 (row, head) pairs of one kv head, heads fastest, 16 a warp: K and V are read
// once for all query heads of a kv head. Shared memory: Q, one tile of K, one of V: V arrives while
// the scores are computed, the next K during softmax and values. Rows have an odd number of 16-byte
// units: no bank conflict in ldmatrix. Cells outside of the keys that this block may read are
// zeros, never loaded. Limits: D a multiple of 8, at most 256, padded with zeros to 32, 64, 96, 128
// or 256; no f32 operands; kv heads and segments <= 65535. Finite cells (0 * Inf would reach other
// rows of a tile). Bound by tensor cores: 4 D operations a (query, key) pair; reads K and V once a
// query tile, from the L2 cache but the first time: 4 D bytes a key against 64 * 4 D operations.
#include "kernels/lib/async_copy.cuh"
#include "kernels/lib/mma.cuh"
#include "kernels/lib/primitives.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kBlockM = 16 * kWarps;  // (row, head) pairs

struct PrefillParameters {
  const std::uint16_t *q, *k_pool, *v_pool;
  const std::int32_t* block_tables;
  const std::uint32_t *query_starts, *first_positions;
  void* out;
  Format out_format;
  std::uint32_t table_stride, head_count, kv_head_count, head_size, page_size;
  std::uint32_t page_reciprocal;  // ceil(2^32 / page_size), mod 2^32: 0 for pages of one key
  std::uint32_t window;
  float scale_log2e;
};

// Sizes of one instance: head padded to kHead, tiles of kTile keys.
template <int kHead, int kTile>
struct Sizes {
  static constexpr int kUnits = kHead / 8;           // of 16 bytes, of a row
  static constexpr int kStride = (kUnits + 1) * 16;  // bytes between rows in shared memory
  static constexpr int kQ = 0, kK = kBlockM * kStride, kV = kK + kTile * kStride;
};

// What a block works on: pairs [first, pairs) of the segment, keys [key_begin, key_end).
struct Block {
  std::uint32_t segment, kv_head, group;
  std::uint32_t query_start, first_position, first, pairs;
  std::uint32_t key_begin, key_end;
};

__device__ __forceinline__ std::uint32_t window_start(std::uint32_t position,
                                                      std::uint32_t window) {
  return window != 0 && position >= window ? position + 1 - window : 0;
}

__device__ __forceinline__ Block this_block(const PrefillParameters& p) {
  Block block;
  block.segment = blockIdx.z;
  block.kv_head = blockIdx.y;
  block.group = p.head_count / p.kv_head_count;
  block.query_start = p.query_starts[block.segment];
  block.first_position = p.first_positions[block.segment];
  block.pairs = (p.query_starts[block.segment + 1] - block.query_start) * block.group;
  block.first = blockIdx.x * kBlockM;
  const std::uint32_t last = min(block.first + kBlockM, block.pairs) - 1;
  block.key_begin = window_start(block.first_position + block.first / block.group, p.window);
  block.key_end = block.first_position + last / block.group + 1;
  return block;
}

template <int kHead, int kTile>
__device__ __forceinline__ void copy_queries(const PrefillParameters& p, const Block& block,
                                             std::uint32_t shared) {
  using S = Sizes<kHead, kTile>;
#pragma unroll 4
  for (std::uint32_t i = threadIdx.x; i < kBlockM * S::kUnits; i += kThreads) {
    const std::uint32_t m = i / S::kUnits, unit = i % S::kUnits;
    const std::uint32_t pair = min(block.first + m, block.pairs - 1);
    const std::uint32_t row = block.query_start + pair / block.group;
    const std::uint32_t head = block.kv_head * block.group + pair % block.group;
    const std::uint16_t* from =
        p.q + (std::uint64_t{row} * p.head_count + head) * p.head_size + unit * 8;
    copy_async_16(shared + S::kQ + m * S::kStride + unit * 16, from, unit * 8 < p.head_size);
  }
}

// One tile of K or V into shared memory; keys out of range become zeros.
template <int kHead, int kTile>
__device__ __forceinline__ void copy_cells(const PrefillParameters& p, const Block& block,
                                           const std::uint16_t* pool, std::uint32_t first_key,
                                           std::uint32_t shared) {
  using S = Sizes<kHead, kTile>;
  const std::int32_t* pages = p.block_tables + std::uint64_t{block.segment} * p.table_stride;
#pragma unroll 4
  for (std::uint32_t i = threadIdx.x; i < kTile * S::kUnits; i += kThreads) {
    const std::uint32_t n = i / S::kUnits, unit = i % S::kUnits;
    const std::uint32_t key = first_key + n;
    const std::uint32_t in_range = min(max(key, block.key_begin), block.key_end - 1);
    // in_range / page_size
    const std::uint32_t page_index =
        p.page_reciprocal == 0 ? in_range : __umulhi(in_range, p.page_reciprocal);
    const std::uint32_t page = static_cast<std::uint32_t>(__ldg(pages + page_index));
    const std::uint32_t row = (page * p.kv_head_count + block.kv_head) * p.page_size +
                              (in_range - page_index * p.page_size);
    const std::uint16_t* from = pool + std::uint64_t{row} * p.head_size + unit * 8;
    copy_async_16(shared + n * S::kStride + unit * 16, from,
                  key == in_range && unit * 8 < p.head_size);
  }
}

// What a warp works on; `low` and `high` are the lane's two rows of a fragment.
struct WarpRows {
  bool active;
  std::uint32_t first_start, last_start;  // of windows, over the warp's rows
  std::uint32_t first_position, last_position;
  std::uint32_t low_start, low_position, high_start, high_position;
};

__device__ __forceinline__ WarpRows this_warp(const PrefillParameters& p, const Block& block) {
  const std::uint32_t first = block.first + threadIdx.x / 32 * 16;
  const auto position = [&](std::uint32_t pair) {
    return block.first_position + min(pair, block.pairs - 1) / block.group;
  };
  WarpRows rows;
  rows.active = first < block.pairs;
  rows.first_position = position(first);
  rows.last_position = position(first + 15);
  rows.low_position = position(first + threadIdx.x % 32 / 4);
  rows.high_position = position(first + threadIdx.x % 32 / 4 + 8);
  rows.first_start = window_start(rows.first_position, p.window);
  rows.last_start = window_start(rows.last_position, p.window);
  rows.low_start = window_start(rows.low_position, p.window);
  rows.high_start = window_start(rows.high_position, p.window);
  return rows;
}

// Whether any row of the warp sees one of keys [first, first + count).
__device__ __forceinline__ bool needed(const WarpRows& rows, std::uint32_t first,
                                       std::uint32_t count) {
  return first <= rows.last_position && first + count > rows.first_start;
}

// s = Q K^T of the warp's 16 rows and the tile's keys; 0 where no row needs a block of 8 keys.
template <Format kFormat, int kHead, int kTile>
__device__ __forceinline__ void scores(float (&s)[kTile / 8][4], const WarpRows& rows,
                                       std::uint32_t first_key, std::uint32_t shared) {
  using S = Sizes<kHead, kTile>;
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint32_t q = shared + S::kQ + (warp * 16 + lane % 16) * S::kStride + lane / 16 * 16;
  const std::uint32_t k = shared + S::kK + lane % 8 * S::kStride + lane / 8 * 16;
  bool block_needed[kTile / 8];
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
    block_needed[n] = needed(rows, first_key + 8 * n, 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
  }
#pragma unroll
  for (int d = 0; d < kHead / 32; ++d) {
    std::uint32_t a[4], a_next[4];
    load_matrices(a, q + d * 64);
    load_matrices(a_next, q + d * 64 + 32);
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
      if (!block_needed[n]) continue;
      std::uint32_t b[4];
      load_matrices(b, k + n * 8 * S::kStride + d * 64);
      mma_m16n8k16<kFormat>(s[n], a, b[0], b[1]);
      mma_m16n8k16<kFormat>(s[n], a_next, b[2], b[3]);
    }
  }
}

// t = s * scale; masked ones are -Inf.
template <int kTile>
__device__ __forceinline__ void scale_and_mask(float (&s)[kTile / 8][4], const WarpRows& rows,
                                               std::uint32_t first_key, float scale_log2e) {
  const bool all_seen =
      first_key + kTile - 1 <= rows.first_position && first_key >= rows.last_start;
  if (all_seen) {
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] *= scale_log2e;
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t key = first_key + 8 * n + threadIdx.x % 4 * 2 + i % 2;
      const bool seen = i < 2 ? key <= rows.low_position && key >= rows.low_start
                              : key <= rows.high_position && key >= rows.high_start;
      s[n][i] = seen ? s[n][i] * scale_log2e : kNegativeInfinity;
    }
  }
}

// Running state of the lane's two rows (0: low, 1: high). l holds the lane's columns only.
template <int kHead>
struct Running {
  float m[2], l[2];
  float o[kHead / 8][4];
};

// Raises m to the tile's largest score and rescales l and o. Returns what scores are taken from: m,
// or 0 where the row has seen no key yet.
template <int kHead, int kTile>
__device__ __forceinline__ float2 rescale(Running<kHead>& state, const float (&t)[kTile / 8][4]) {
  float base[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float m = fmaxf(t[0][2 * r], t[0][2 * r + 1]);
#pragma unroll
    for (int n = 1; n < kTile / 8; ++n) m = fmaxf(m, fmaxf(t[n][2 * r], t[n][2 * r + 1]));
    m = fmaxf(m, __shfl_xor_sync(kFullWarp, m, 1));
    m = fmaxf(m, __shfl_xor_sync(kFullWarp, m, 2));
    m = fmaxf(m, state.m[r]);
    base[r] = m == kNegativeInfinity ? 0.0f : m;
    const float factor = exp2_approx(state.m[r] - base[r]);
    state.m[r] = m;
    state.l[r] *= factor;
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      state.o[n][2 * r] *= factor;
      state.o[n][2 * r + 1] *= factor;
    }
  }
  return {base[0], base[1]};
}

// Two probabilities of a row, rounded and packed; their rounded values go to l.
template <Format kFormat>
__device__ __forceinline__ std::uint32_t probabilities(float t0, float t1, float base, float& l) {
  const std::uint32_t bits = pack(kFormat, exp2_approx(t0 - base), exp2_approx(t1 - base));
  const float2 rounded = kFormat == Format::F16 ? unpack_f16(bits) : unpack_bf16(bits);
  l += rounded.x;
  l += rounded.y;
  return bits;
}

template <Format kFormat, int kHead, int kTile>
__device__ __forceinline__ void add_values(Running<kHead>& state, const float (&t)[kTile / 8][4],
                                           float2 base, const WarpRows& rows,
                                           std::uint32_t first_key, std::uint32_t shared) {
  using S = Sizes<kHead, kTile>;
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t v = shared + S::kV + lane % 16 * S::kStride + lane / 16 * 16;
#pragma unroll
  for (int j = 0; j < kTile / 16; ++j) {
    if (!needed(rows, first_key + 16 * j, 16)) continue;
    const float(&left)[4] = t[2 * j];
    const float(&right)[4] = t[2 * j + 1];
    const std::uint32_t p[4] = {probabilities<kFormat>(left[0], left[1], base.x, state.l[0]),
                                probabilities<kFormat>(left[2], left[3], base.y, state.l[1]),
                                probabilities<kFormat>(right[0], right[1], base.x, state.l[0]),
                                probabilities<kFormat>(right[2], right[3], base.y, state.l[1])};
#pragma unroll
    for (int n = 0; n < kHead / 16; ++n) {
      std::uint32_t b[4];
      load_matrices_transposed(b, v + 16 * j * S::kStride + n * 32);
      mma_m16n8k16<kFormat>(state.o[2 * n], p, b[0], b[1]);
      mma_m16n8k16<kFormat>(state.o[2 * n + 1], p, b[2], b[3]);
    }
  }
}

template <int kHead>
__device__ __forceinline__ void write_out(const PrefillParameters& p, const Block& block,
                                          const Running<kHead>& state) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float l = state.l[r];
    l += __shfl_xor_sync(kFullWarp, l, 1);
    l += __shfl_xor_sync(kFullWarp, l, 2);
    const std::uint32_t pair = block.first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * r;
    if (pair < block.pairs) {
      const std::uint32_t row = block.query_start + pair / block.group;
      const std::uint32_t head = block.kv_head * block.group + pair % block.group;
      const std::uint64_t to = (std::uint64_t{row} * p.head_count + head) * p.head_size;
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n) {
        if (8 * n >= p.head_size) break;
        const float result[2] = {__fdiv_rn(state.o[n][2 * r], l),
                                 __fdiv_rn(state.o[n][2 * r + 1], l)};
        store(p.out_format, p.out, to + 8 * n + threadIdx.x % 4 * 2, result);
      }
    }
    __syncwarp();
  }
}

template <Format kFormat, int kHead, int kTile>
__device__ __forceinline__ void attention_prefill(const PrefillParameters& p) {
  using S = Sizes<kHead, kTile>;
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  const std::uint32_t shared = shared_address(dynamic_shared);
  // A short segment of a batch with longer ones.
  if (blockIdx.x * kBlockM >= (p.query_starts[blockIdx.z + 1] - p.query_starts[blockIdx.z]) *
                                  (p.head_count / p.kv_head_count)) {
    return;
  }
  const Block block = this_block(p);
  const WarpRows rows = this_warp(p, block);
  Running<kHead> state = {{kNegativeInfinity, kNegativeInfinity}, {0, 0}, {}};

  std::uint32_t first_key = block.key_begin / kTile * kTile;
  copy_queries<kHead, kTile>(p, block, shared);
  copy_cells<kHead, kTile>(p, block, p.k_pool, first_key, shared + S::kK);
  commit_copies();
  for (; first_key < block.key_end; first_key += kTile) {
    wait_for_copies<0>();
    __syncthreads();  // K is there; all warps are done with the last V
    copy_cells<kHead, kTile>(p, block, p.v_pool, first_key, shared + S::kV);
    commit_copies();
    const bool tile_needed = rows.active && needed(rows, first_key, kTile);
    float s[kTile / 8][4];
    if (tile_needed) scores<kFormat, kHead, kTile>(s, rows, first_key, shared);
    wait_for_copies<0>();
    __syncthreads();  // V is there; all warps are done with K
    if (first_key + kTile < block.key_end) {
      copy_cells<kHead, kTile>(p, block, p.k_pool, first_key + kTile, shared + S::kK);
      commit_copies();
    }
    if (tile_needed) {
      scale_and_mask<kTile>(s, rows, first_key, p.scale_log2e);
      const float2 base = rescale<kHead, kTile>(state, s);
      add_values<kFormat, kHead, kTile>(state, s, base, rows, first_key, shared);
    }
  }
  if (rows.active) write_out<kHead>(p, block, state);
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_PREFILL(name, format, head, tile)                                                \
  extern "C" __global__ void __launch_bounds__(128)                                               \
      name(const std::uint16_t* q, const std::uint16_t* k_pool, const std::uint16_t* v_pool,      \
           const std::int32_t* block_tables, const std::uint32_t* query_starts,                   \
           const std::uint32_t* first_positions, void* out, std::uint32_t out_format,             \
           std::uint32_t table_stride, std::uint32_t head_count, std::uint32_t kv_head_count,     \
           std::uint32_t head_size, std::uint32_t page_size, std::uint32_t page_reciprocal,       \
           std::uint32_t window, float scale_log2e) {                                             \
    using namespace lockstep::kernels;                                                            \
    attention_prefill<format, head, tile>({q, k_pool, v_pool, block_tables, query_starts,         \
                                           first_positions, out, static_cast<Format>(out_format), \
                                           table_stride, head_count, kv_head_count, head_size,    \
                                           page_size, page_reciprocal, window, scale_log2e});     \
  }
#define LOCKSTEP_PREFILL_HEADS(prefix, format)         \
  LOCKSTEP_PREFILL(prefix##_head_32, format, 32, 64)   \
  LOCKSTEP_PREFILL(prefix##_head_64, format, 64, 64)   \
  LOCKSTEP_PREFILL(prefix##_head_96, format, 96, 64)   \
  LOCKSTEP_PREFILL(prefix##_head_128, format, 128, 64) \
  LOCKSTEP_PREFILL(prefix##_head_256, format, 256, 32)
LOCKSTEP_PREFILL_HEADS(attention_prefill_f16, Format::F16)
LOCKSTEP_PREFILL_HEADS(attention_prefill_bf16, Format::BF16)
