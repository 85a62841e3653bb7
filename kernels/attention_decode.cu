// One query a row over its request's cells: out = softmax(scale q K^T) V over keys first .. n - 1,
// n the context length, first = max(0, n - window).
//   t = (q . k) * fl(scale log2 e); online softmax in base 2 by ex2.approx: (m, l, o) as in
//   lib/lse.cuh; out = o / l by div.rn.
//
// Order: keys are cut in splits of 256 and tiles of 32, both from absolute key 0. Warp w of a block
// runs the tiles w and w + 4 of one split in a chain, the 4 warps merge in ascending order, then
// the splits do (second kernel; a single split is divided at once, with the same bits). So a row's
// bits depend on its own keys alone. Splits and warps without keys have weight 0 and are not read.
//
// In a warp: scores: 4 lanes a key, each 8 neighbouring elements of every 32; a lane has 4 keys in
// flight (32 keys a warp) and ends up with the score of key `lane`. Values: a lane holds 8 elements
// of o for each query head; D/8 lanes (rounded up to 2^i) cover a key, the rest of the warp
// takes further keys; these parts of o meet when the warps merge.
//
// Layout: q, out f32 [rows, heads, D]; cells as KvLayout (launch.h); partial results o f32
// [rows, heads, splits, D], then (m, l) f32 [rows, heads, splits, 2]. Grid rule: (splits, kv heads
// x passes, rows) blocks of 128 threads; the query heads of a kv head are packed, up to 4 a pass,
// so K and V are read once a pass (groups up to 4: once). Keys out of range read the nearest key in
// range, weight 0. Limits: D a multiple of 8, at most 256; rows and kv heads x passes <= 65535;
// cells f32, f16, bf16. Bound by memory: 2 n D cell bytes a kv head and pass, the minimum for
// groups up to 4; partial results add 2 * 4 heads (D + 2) bytes for 256 keys: 1.6 % with f16 cells
// and 4 heads.
#include "kernels/lib/lse.cuh"
#include "kernels/lib/reductions.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kWarps = 4, kTileKeys = 32, kSplitKeys = 256, kTilesOfWarp = 2;
constexpr int kHeadSizeMax = 256;
static_assert(kTileKeys * kWarps * kTilesOfWarp == kSplitKeys);

struct DecodeParameters {
  const float* __restrict__ q;
  const void* __restrict__ k_pool, * __restrict__ v_pool;
  const std::int32_t* __restrict__ block_tables;
  const std::uint32_t* __restrict__ context_lengths;
  float* partials;  // null: one split, out is written
  float* out;
  std::uint32_t table_stride, head_count, kv_head_count, head_size, page_size, window;
  float scale_log2e;
};

template <Format kCells>
constexpr std::uint32_t kCellBytes = kCells == Format::F32 ? 4 : 2;

// 8 neighbouring cells.
template <Format kCells>
__device__ __forceinline__ void load_cells(float (&x)[8], const char* from) {
  if constexpr (kCells == Format::F32) {
    const float4 low = __ldg(reinterpret_cast<const float4*>(from));
    const float4 high = __ldg(reinterpret_cast<const float4*>(from) + 1);
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  } else {
    const uint4 bits = __ldg(reinterpret_cast<const uint4*>(from));
    const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = kCells == Format::F16 ? unpack_f16(words[i]) : unpack_bf16(words[i]);
      x[2 * i] = two.x;
      x[2 * i + 1] = two.y;
    }
  }
}

// Probabilities of a key for the packed heads, padded to one load.
template <int kHeads>
struct Probabilities {
  static constexpr int kPadded = kHeads == 3 ? 4 : kHeads;
  alignas(4 * kPadded) float of_head[kPadded];
};

template <int kHeads>
struct DecodeShared {
  float4 o[kWarps][kHeads][2][32];  // elements 0..3 and 4..7 of each lane, the latter at lane ^ 4
  alignas(16) float q[kHeads * kHeadSizeMax];
  alignas(16) std::uint32_t rows[kWarps][kTileKeys];  // of the tile's keys in the pools
  Probabilities<kHeads> p[kWarps][kTileKeys];
  float m[kWarps][kHeads], l[kWarps][kHeads];
};

// What a block works on.
struct Split {
  std::uint32_t row, kv_head, group, first_head, heads;  // heads of this pass
  std::uint32_t index, begin, end;                       // keys [begin, end)
};

template <int kHeads>
__device__ __forceinline__ Split this_split(const DecodeParameters& p) {
  Split split;
  split.group = p.head_count / p.kv_head_count;
  const std::uint32_t passes = (split.group + kHeads - 1) / kHeads;
  split.row = blockIdx.z;
  split.kv_head = blockIdx.y / passes;
  const std::uint32_t before = (blockIdx.y % passes) * kHeads;
  split.first_head = split.kv_head * split.group + before;
  split.heads = min(split.group - before, kHeads);
  const std::uint32_t n = p.context_lengths[split.row];
  const std::uint32_t first = p.window != 0 && n > p.window ? n - p.window : 0;
  split.index = first / kSplitKeys + blockIdx.x;
  split.begin = max(first, split.index * kSplitKeys);
  split.end = min(n, (split.index + 1) * kSplitKeys);
  return split;
}

// State of a warp's chain of tiles.
template <int kHeads>
struct Chain {
  float m[kHeads], l[kHeads], o[kHeads][8];
};

// dots[h][b] -> the sum over the 4 lanes of a key for b = lane % 4: 2 adds deep.
__device__ __forceinline__ float reduce_quad(const float (&dots)[4], std::uint32_t lane) {
  const bool odd = lane & 1, upper = lane & 2;
  const float low =
      (odd ? dots[1] : dots[0]) + __shfl_xor_sync(kFullWarp, odd ? dots[0] : dots[1], 1);
  const float high =
      (odd ? dots[3] : dots[2]) + __shfl_xor_sync(kFullWarp, odd ? dots[2] : dots[3], 1);
  return (upper ? high : low) + __shfl_xor_sync(kFullWarp, upper ? low : high, 2);
}

// Scores of the tile, each lane that of its key: q . k.
template <Format kCells, int kHeads>
__device__ __forceinline__ void scores(float (&score)[kHeads], const DecodeShared<kHeads>& shared,
                                       const DecodeParameters& p, std::uint32_t warp,
                                       std::uint32_t lane) {
  const std::uint32_t row_bytes = p.head_size * kCellBytes<kCells>;
  const uint4 rows = *reinterpret_cast<const uint4*>(&shared.rows[warp][lane & ~3u]);
  const std::uint32_t of_key[4] = {rows.x, rows.y, rows.z, rows.w};
  const char* k[4];
  float dots[kHeads][4] = {};
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    k[b] = static_cast<const char*>(p.k_pool) + std::uint64_t{of_key[b]} * row_bytes;
  }
  for (std::uint32_t element = 8 * (lane & 3); element < p.head_size; element += 32) {
    float cells[4][8];
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      load_cells<kCells>(cells[b], k[b] + element * kCellBytes<kCells>);
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float4* q = reinterpret_cast<const float4*>(&shared.q[h * p.head_size + element]);
      const float4 low = q[0], high = q[1];
      const float query[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int b = 0; b < 4; ++b) {
#pragma unroll
        for (int e = 0; e < 8; ++e) dots[h][b] = fmaf(query[e], cells[b][e], dots[h][b]);
      }
    }
  }
  __syncwarp();
#pragma unroll
  for (int h = 0; h < kHeads; ++h) score[h] = reduce_quad(dots[h], lane);
}

// o += p v over keys [from, to) of the tile.
template <Format kCells, int kHeads>
__device__ __forceinline__ void add_values(Chain<kHeads>& chain, const DecodeShared<kHeads>& shared,
                                           const DecodeParameters& p, std::uint32_t warp,
                                           std::uint32_t lane, std::uint32_t lanes_of_key,
                                           std::uint32_t from, std::uint32_t to) {
  const std::uint32_t step = 32 / lanes_of_key;
  const std::uint32_t element = 8 * (lane & (lanes_of_key - 1));
  if (element < p.head_size) {
    const char* v = static_cast<const char*>(p.v_pool) + element * kCellBytes<kCells>;
    const std::uint32_t row_bytes = p.head_size * kCellBytes<kCells>;
#pragma unroll 4
    for (std::uint32_t base = from & ~(step - 1); base < to; base += step) {
      const std::uint32_t key = base + lane / lanes_of_key;
      float cells[8];
      load_cells<kCells>(cells, v + std::uint64_t{shared.rows[warp][key]} * row_bytes);
      const Probabilities<kHeads> weights = shared.p[warp][key];
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          chain.o[h][e] = fmaf(weights.of_head[h], cells[e], chain.o[h][e]);
        }
      }
    }
  }
  __syncwarp();
}

// One tile of the chain: keys first_key + 0 .. 31, those in [split.begin, split.end) count.
template <Format kCells, int kHeads>
__device__ __forceinline__ void add_tile(Chain<kHeads>& chain, DecodeShared<kHeads>& shared,
                                         const DecodeParameters& p, const Split& split,
                                         std::uint32_t first_key, std::uint32_t lanes_of_key) {
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::uint32_t key = first_key + lane;
  const std::uint32_t in_range = min(max(key, split.begin), split.end - 1);
  const std::int32_t page =
      __ldg(p.block_tables + std::uint64_t{split.row} * p.table_stride + in_range / p.page_size);
  shared.rows[warp][lane] =
      (static_cast<std::uint32_t>(page) * p.kv_head_count + split.kv_head) * p.page_size +
      in_range % p.page_size;
  __syncwarp();
  float score[kHeads];
  scores<kCells, kHeads>(score, shared, p, warp, lane);
  Probabilities<kHeads> weights = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float t = key == in_range ? score[h] * p.scale_log2e : kNegativeInfinity;
    const float m = fmaxf(chain.m[h], warp_max(t));
    const float rescale = exp2_approx(chain.m[h] - m);
    const float probability = exp2_approx(t - m);
    chain.m[h] = m;
    chain.l[h] = fmaf(chain.l[h], rescale, probability);
    weights.of_head[h] = probability;
#pragma unroll
    for (int e = 0; e < 8; ++e) chain.o[h][e] *= rescale;
  }
  shared.p[warp][lane] = weights;
  __syncwarp();
  const std::uint32_t from = max(split.begin, first_key) - first_key;
  add_values<kCells, kHeads>(chain, shared, p, warp, lane, lanes_of_key, from,
                             min(split.end - first_key, kTileKeys));
}

// The warps' parts -> the split's (m, l, o), four elements of one head a thread.
template <int kHeads>
__device__ __forceinline__ void merge_warps(const DecodeShared<kHeads>& shared,
                                            const DecodeParameters& p, const Split& split,
                                            std::uint32_t lanes_of_key) {
  const std::uint32_t vectors = p.head_size / 4;
  for (std::uint32_t i = threadIdx.x; i < split.heads * vectors; i += kWarps * 32) {
    const std::uint32_t h = i / vectors, vector = i % vectors;
    float m = kNegativeInfinity;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) m = fmaxf(m, shared.m[warp][h]);
    float l = 0;
    float4 o = {-0.0f, -0.0f, -0.0f, -0.0f};
    for (int warp = 0; warp < kWarps; ++warp) {
      if (shared.m[warp][h] == kNegativeInfinity) continue;
      const float weight = merge_weight(shared.m[warp][h], m);
      l = fmaf(weight, shared.l[warp][h], l);
      const float4* parts = shared.o[warp][h][vector & 1];
      for (std::uint32_t lane = vector / 2; lane < 32; lane += lanes_of_key) {
        const float4 part = parts[lane ^ ((vector & 1) << 2)];
        o.x = fmaf(weight, part.x, o.x);
        o.y = fmaf(weight, part.y, o.y);
        o.z = fmaf(weight, part.z, o.z);
        o.w = fmaf(weight, part.w, o.w);
      }
    }
    const std::uint64_t head = std::uint64_t{split.row} * p.head_count + split.first_head + h;
    if (p.partials == nullptr) {
      reinterpret_cast<float4*>(p.out)[head * vectors + vector] = {
          __fdiv_rn(o.x, l), __fdiv_rn(o.y, l), __fdiv_rn(o.z, l), __fdiv_rn(o.w, l)};
    } else {
      const std::uint64_t part = head * gridDim.x + blockIdx.x;
      reinterpret_cast<float4*>(p.partials)[part * vectors + vector] = o;
      if (vector == 0) {
        float* m_and_l =
            p.partials + std::uint64_t{gridDim.z} * p.head_count * gridDim.x * p.head_size;
        reinterpret_cast<float2*>(m_and_l)[part] = {m, l};
      }
    }
  }
}

// No key in this split: weight 0, o is not written. A row without any key gets 0.
__device__ __forceinline__ void write_empty(const DecodeParameters& p, const Split& split) {
  const std::uint64_t head = std::uint64_t{split.row} * p.head_count + split.first_head;
  if (p.partials == nullptr) {
    for (std::uint32_t i = threadIdx.x; i < split.heads * p.head_size; i += kWarps * 32) {
      p.out[head * p.head_size + i] = 0;
    }
  } else if (threadIdx.x < split.heads) {
    float* m_and_l = p.partials + std::uint64_t{gridDim.z} * p.head_count * gridDim.x * p.head_size;
    reinterpret_cast<float2*>(m_and_l)[(head + threadIdx.x) * gridDim.x + blockIdx.x] = {
        kNegativeInfinity, 0.0f};
  }
}

template <Format kCells, int kHeads>
__device__ __forceinline__ void attention_decode(const DecodeParameters& p) {
  __shared__ DecodeShared<kHeads> shared;
  const Split split = this_split<kHeads>(p);
  if (split.begin >= split.end) {
    write_empty(p, split);
    return;
  }
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* q = p.q + (std::uint64_t{split.row} * p.head_count + split.first_head) * p.head_size;
  for (std::uint32_t i = 4 * threadIdx.x; i < kHeads * p.head_size; i += 4 * kWarps * 32) {
    *reinterpret_cast<float4*>(shared.q + i) = i < split.heads * p.head_size
                                                   ? *reinterpret_cast<const float4*>(q + i)
                                                   : float4{0, 0, 0, 0};
  }
  __syncthreads();

  std::uint32_t lanes_of_key = 1;  // a power of two >= D/8
  while (8 * lanes_of_key < p.head_size) lanes_of_key *= 2;
  Chain<kHeads> chain;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    chain.m[h] = kNegativeInfinity;
    chain.l[h] = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) chain.o[h][e] = 0;
  }
  for (std::uint32_t tile = warp; tile < kSplitKeys / kTileKeys; tile += kWarps) {
    const std::uint32_t first_key = split.index * kSplitKeys + tile * kTileKeys;
    if (first_key + kTileKeys <= split.begin || first_key >= split.end) continue;
    add_tile<kCells, kHeads>(chain, shared, p, split, first_key, lanes_of_key);
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const float l = warp_sum(chain.l[h]);
    if (lane == 0) {
      shared.m[warp][h] = chain.m[h];
      shared.l[warp][h] = l;
    }
    const float(&o)[8] = chain.o[h];
    shared.o[warp][h][0][lane] = {o[0], o[1], o[2], o[3]};
    shared.o[warp][h][1][lane ^ 4] = {o[4], o[5], o[6], o[7]};
  }
  __syncthreads();
  merge_warps<kHeads>(shared, p, split, lanes_of_key);
}

}  // namespace
}  // namespace lockstep::kernels

#define LOCKSTEP_DECODE(name, format, heads)                                                       \
  extern "C" __global__ void __launch_bounds__(128) name(                                          \
      const float* q, const void* k_pool, const void* v_pool, const std::int32_t* block_tables,    \
      const std::uint32_t* context_lengths, float* partials, float* out,                           \
      std::uint32_t table_stride, std::uint32_t head_count, std::uint32_t kv_head_count,           \
      std::uint32_t head_size, std::uint32_t page_size, std::uint32_t window, float scale_log2e) { \
    using namespace lockstep::kernels;                                                             \
    attention_decode<format, heads>({q, k_pool, v_pool, block_tables, context_lengths, partials,   \
                                     out, table_stride, head_count, kv_head_count, head_size,      \
                                     page_size, window, scale_log2e});                             \
  }
#define LOCKSTEP_DECODE_HEADS(prefix, format)  \
  LOCKSTEP_DECODE(prefix##_heads_1, format, 1) \
  LOCKSTEP_DECODE(prefix##_heads_2, format, 2) \
  LOCKSTEP_DECODE(prefix##_heads_3, format, 3) \
  LOCKSTEP_DECODE(prefix##_heads_4, format, 4)
LOCKSTEP_DECODE_HEADS(attention_decode_f32, Format::F32)
LOCKSTEP_DECODE_HEADS(attention_decode_f16, Format::F16)
LOCKSTEP_DECODE_HEADS(attention_decode_bf16, Format::BF16)

// Merges the splits of each (row, head) in ascending order; four elements a thread.
extern "C" __global__ void __launch_bounds__(128)
    attention_decode_merge(const float* __restrict__ partials, float* __restrict__ out,
                           std::uint32_t heads, std::uint32_t splits, std::uint32_t head_size) {
  using namespace lockstep::kernels;
  const std::uint32_t vectors = head_size / 4;
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= heads * vectors) return;
  const std::uint32_t head = i / vectors, vector = i % vectors;
  const float4* o_of_split =
      reinterpret_cast<const float4*>(partials) + std::uint64_t{head} * splits * vectors + vector;
  const float2* m_and_l =
      reinterpret_cast<const float2*>(partials + std::uint64_t{heads} * splits * head_size) +
      std::uint64_t{head} * splits;
  float m = kNegativeInfinity;
  for (std::uint32_t split = 0; split < splits; ++split) m = fmaxf(m, m_and_l[split].x);
  float l = 0;
  float4 o = {-0.0f, -0.0f, -0.0f, -0.0f};
  for (std::uint32_t split = 0; split < splits; ++split) {
    const float2 part = m_and_l[split];
    if (part.x == kNegativeInfinity) continue;
    const float weight = merge_weight(part.x, m);
    l = fmaf(weight, part.y, l);
    const float4 values = o_of_split[std::uint64_t{split} * vectors];
    o.x = fmaf(weight, values.x, o.x);
    o.y = fmaf(weight, values.y, o.y);
    o.z = fmaf(weight, values.z, o.z);
    o.w = fmaf(weight, values.w, o.w);
  }
  reinterpret_cast<float4*>(out)[i] =
      m == kNegativeInfinity
          ? float4{0, 0, 0, 0}
          : float4{__fdiv_rn(o.x, l), __fdiv_rn(o.y, l), __fdiv_rn(o.z, l), __fdiv_rn(o.w, l)};
}
