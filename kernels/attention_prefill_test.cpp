// Laws of attention_prefill: probes with exact answers, poison, independence of chunks, batch and
// pages, and the contract's bound on the device's tensor cores.
#include "kernels/attention_prefill.h"

#include <cstdio>

#include "kernels/test_attention.h"
#include "trace/device_info.h"

namespace lockstep::kernels {
namespace {

using model::DType;

AttentionPrefillArgs arguments(const AttentionShape& shape, DType out_format = DType::F32) {
  return {.kv = shape.kv(),
          .scale = shape.scale,
          .window = shape.window,
          .out_format = out_format,
          .head_count = shape.head_count};
}

// A chunk of a sequence's queries: those at positions first .. first + rows - 1.
struct Chunk {
  std::uint32_t sequence = 0, first = 0, rows = 0;
};
struct Options {
  std::uint64_t page_seed = 1;
  DType out_format = DType::F32;
};

// Queries are given for whole sequences, [length, heads, head size] each; out is that of the
// chunks, one after the other. Cells that the chunks must not read are NaN.
std::vector<double> run(TestDevice& device, const AttentionShape& shape,
                        const std::vector<Sequence>& sequences,
                        const std::vector<std::vector<double>>& queries,
                        const std::vector<Chunk>& chunks, const Options& options = {}) {
  const std::size_t width = std::size_t{shape.head_count} * shape.head_size;
  AttentionPrefillArgs args = arguments(shape, options.out_format);
  std::vector<std::uint32_t> starts = {0}, firsts, from;
  std::vector<Sequence> seen;
  std::vector<double> q;
  for (const Chunk& chunk : chunks) {
    starts.push_back(starts.back() + chunk.rows);
    firsts.push_back(chunk.first);
    from.push_back(shape.window_start(chunk.first));
    seen.push_back(sequences[chunk.sequence]);
    seen.back().length = chunk.first + chunk.rows;
    const std::vector<double>& whole = queries[chunk.sequence];
    q.insert(q.end(), whole.begin() + static_cast<std::ptrdiff_t>(chunk.first * width),
             whole.begin() + static_cast<std::ptrdiff_t>((chunk.first + chunk.rows) * width));
    args.max_segment_rows = std::max(args.max_segment_rows, chunk.rows);
  }
  args.rows = starts.back();
  args.segments = static_cast<std::uint32_t>(chunks.size());
  const Paged paged = paginate(device, shape, seen, options.page_seed, from);
  const device::Buffer query_buffer = device.upload(shape.cells, q);
  const device::Buffer start_buffer = device.upload_integers(starts);
  const device::Buffer first_buffer = device.upload_integers(firsts);
  const device::Buffer out = device.allocate(q.size() * bytes_of(options.out_format));
  args.q = query_buffer.address();
  args.k_pool = paged.k_pool.address();
  args.v_pool = paged.v_pool.address();
  args.block_tables = paged.tables.address();
  args.table_stride = paged.table_stride;
  args.query_starts = start_buffer.address();
  args.first_positions = first_buffer.address();
  args.out = out.address();
  device.expect_clean(launch_attention_prefill(device.context(), args));
  return device.download(options.out_format, out);
}

trace::TensorCoreInfo tensor_core(const std::string& name) {
  return name == "vgpu:sm_80" ? trace::TensorCoreInfo{8, 24, -132}
                              : trace::TensorCoreInfo{16, 25, -133};
}

int exponent_of(DType dtype, double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::max(exponent - 1, float_format(dtype).exponent_min);
}

// Radius of a tensor-core sum of a[i] b[i] in increasing blocks from 0.
double sum_radius(const trace::TensorCoreInfo& core, DType dtype, const double* a, const double* b,
                  std::uint32_t count) {
  double sum = 0, radius = 0;
  for (std::uint32_t from = 0; from < count; from += core.products) {
    int exponent = core.exponent_floor;
    if (sum != 0 || radius != 0) {
      exponent = std::max(exponent, exponent_of(DType::F32, std::abs(sum) + radius));
    }
    for (std::uint32_t i = from; i < std::min(from + core.products, count); ++i) {
      if (a[i] != 0 && b[i] != 0) {
        exponent = std::max(exponent, exponent_of(dtype, a[i]) + exponent_of(dtype, b[i]));
      }
      sum += a[i] * b[i];
    }
    const double unit = std::ldexp(1, exponent - static_cast<int>(core.fraction_bits));
    radius += (core.products + 1) * unit;
    if (sum != 0 || radius != 0) {
      radius +=
          std::max(0.0, std::ldexp(1, exponent_of(DType::F32, std::abs(sum) + radius) - 23) - unit);
    }
  }
  return radius;
}

// Weights of one query head's keys as the contract's tiles round them, relative to the last
// maximum.
struct Weights {
  std::vector<double> w;    // 2^(m_tile - m_end) P
  std::vector<double> rho;  // what a rounding that may go either way moves it by
  std::vector<double> c;    // relative: rescales after the key's tile
  double tiles = 0;
};

Weights contract_weights(const trace::Contract& contract, const trace::TensorCoreInfo& core,
                         const AttentionShape& shape, const Sequence& sequence, const double* q,
                         std::uint32_t kv_head, std::uint32_t first, std::uint32_t last) {
  const double log2e = std::log2(std::exp(1.0)), ln2 = std::log(2.0);
  const double factor = static_cast<float>(static_cast<double>(shape.scale) * log2e);
  const Scores scores = exact_scores(shape, sequence, q, kv_head, first, last);
  Weights weights;
  std::vector<double> maximum;  // of the key's tile
  double m = -HUGE_VAL, m_radius = 0;
  for (std::uint32_t tile = first / contract.tile_keys; tile <= last / contract.tile_keys; ++tile) {
    const std::uint32_t begin = std::max(first, tile * contract.tile_keys);
    const std::uint32_t end = std::min(last + 1, (tile + 1) * contract.tile_keys);
    std::vector<double> t, radius;
    for (std::uint32_t key = begin; key < end; ++key) {
      radius.push_back(sum_radius(core, shape.cells, q,
                                  &sequence.k[cell_index(shape, key, kv_head)], shape.head_size));
      t.push_back(scores.s[key - first] / shape.scale * factor);
      m = std::max(m, t.back());
      m_radius = std::max(m_radius, radius.back() * factor);
    }
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double x = t[i] - m, p = std::exp2(x);
      const double eta = ln2 * (radius[i] * factor + m_radius +
                                2 * kU * (std::abs(t[i]) + std::abs(m) + std::abs(x))) +
                         0x1p-22;
      const double rounded = round_to(shape.cells, p);
      weights.w.push_back(rounded);
      weights.rho.push_back(std::max(round_to(shape.cells, p * (1 + eta)) - rounded,
                                     rounded - round_to(shape.cells, p * (1 - eta))));
      maximum.push_back(m);
    }
    weights.tiles += 1;
  }
  for (std::size_t j = 0; j < weights.w.size(); ++j) {
    const double rescale = std::exp2(maximum[j] - m);
    const double later = weights.tiles - 1 -
                         ((first + static_cast<double>(j)) / contract.tile_keys -
                          first / contract.tile_keys);  // at least the rescales after it
    weights.w[j] *= rescale;
    weights.rho[j] *= rescale;
    weights.c.push_back(std::max(later + 1, 0.0) * (0x1p-22 + kU) +
                        2 * ln2 * kU * std::abs(m - maximum[j]));
  }
  return weights;
}

// One query head against the contract's bound; returns the largest error / bound (float outputs).
double expect_bound(const std::string& device, const AttentionShape& shape,
                    const Sequence& sequence, std::uint32_t position, const double* q,
                    std::uint32_t head, DType out_format, const double* got) {
  const trace::Contract contract = attention_prefill_contract(arguments(shape, out_format));
  const trace::TensorCoreInfo core = tensor_core(device);
  const std::uint32_t first = shape.window_start(position), kv_head = head / shape.group();
  const Weights weights =
      contract_weights(contract, core, shape, sequence, q, kv_head, first, position);
  const std::size_t keys = weights.w.size();
  double total = 0;
  for (const double w : weights.w) total += w;
  const double blocks = contract.tile_keys / static_cast<double>(core.products);
  const double of_sums =
      weights.tiles *
      (blocks *
           ((core.products + 1) * std::ldexp(1, -static_cast<int>(core.fraction_bits)) + 0x1p-23) +
       kU);
  double worst = 0;
  for (std::uint32_t d = 0; d < shape.head_size; ++d) {
    const auto v = [&](std::size_t j) {
      return sequence.v[cell_index(shape, first + static_cast<std::uint32_t>(j), kv_head) + d];
    };
    double o = 0, spread = 0, absolute = 0, all = 0;
    for (std::size_t j = 0; j < keys; ++j) o += weights.w[j] * v(j) / total;
    for (std::size_t j = 0; j < keys; ++j) {
      spread += (weights.rho[j] + weights.w[j] * weights.c[j]) * std::abs(v(j) - o) / total;
      absolute += weights.w[j] * std::abs(v(j)) / total;
      all += std::abs(v(j));
    }
    const double bound = 1.02 * spread + of_sums * absolute +
                         (static_cast<double>(keys) + weights.tiles + 1) * kU * std::abs(o) +
                         0x1p-126 * all;
    const std::string where = shape.text() + ", position " + std::to_string(position) + ", head " +
                              std::to_string(head) + ", element " + std::to_string(d);
    EXPECT_GE(got[d], round_to(out_format, o - bound)) << where << ": want " << o;
    EXPECT_LE(got[d], round_to(out_format, o + bound)) << where << ": want " << o;
    if (out_format == DType::F32) worst = std::max(worst, std::abs(got[d] - o) / bound);
  }
  return worst;
}

class AttentionPrefill : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, AttentionPrefill, generations(), generation_name);

const AttentionShape kShapes[] = {
    {4, 1, 256, 16, 0, DType::F16}, {9, 3, 64, 16, 0, DType::F16},   {2, 2, 16, 4, 0, DType::BF16},
    {5, 1, 24, 32, 0, DType::F16},  {2, 1, 80, 64, 0, DType::BF16},  {1, 1, 96, 8, 0, DType::F16},
    {2, 1, 128, 12, 0, DType::F16}, {1, 1, 200, 16, 0, DType::BF16},
};

std::vector<double> random_queries(base::Prng& prng, const AttentionShape& shape,
                                   std::uint32_t length) {
  return random_values(prng, shape.cells, std::size_t{length} * shape.head_count * shape.head_size);
}

TEST_P(AttentionPrefill, StaysWithinItsContractsBound) {
  const device::ApproximationMode modes[] = {
      device::ApproximationMode::Nominal, device::ApproximationMode::Low,
      device::ApproximationMode::High, device::ApproximationMode::Hashed};
  const DType out_formats[] = {DType::F32, DType::F16, DType::BF16};
  double worst = 0;
  std::uint64_t seed = 0;
  for (AttentionShape shape : kShapes) {
    device::DeviceOptions options;
    options.approximation = modes[seed % 4];
    TestDevice device(GetParam(), options);
    base::Prng prng(++seed);
    shape.window = seed % 2 == 0 ? 0 : 20;
    const std::uint32_t length = 75;
    const Sequence sequence = random_sequence(prng, shape, length);
    const std::vector<double> q = random_queries(prng, shape, length);
    const DType out_format = out_formats[seed % 3];
    const std::vector<double> got =
        run(device, shape, {sequence}, {q}, {{0, 0, length}}, {.out_format = out_format});
    for (std::uint32_t position = 0; position < length; position += position % 5 + 3) {
      for (std::uint32_t head = 0; head < shape.head_count; ++head) {
        const std::size_t at = (std::size_t{position} * shape.head_count + head) * shape.head_size;
        worst = std::max(worst, expect_bound(GetParam(), shape, sequence, position, &q[at], head,
                                             out_format, &got[at]));
      }
    }
  }
  std::printf("largest error / bound %.3g\n", worst);
}

TEST_P(AttentionPrefill, EqualScoresGiveExactMeans) {
  TestDevice device(GetParam());
  for (AttentionShape shape : kShapes) {
    // Longer than a tile and a warp's rows: some tiles are cut by the windows of some rows only.
    for (const std::uint32_t window : {0u, 83u}) {
      shape.window = window;
      const std::uint32_t length = window == 0 ? 70 : 150;
      base::Prng prng(shape.head_size);
      const Sequence sequence = integer_sequence(prng, shape, length);
      const std::vector<double> q(std::size_t{length} * shape.head_count * shape.head_size, 0);
      const std::vector<double> got = run(device, shape, {sequence}, {q}, {{0, 0, length}});
      const std::size_t width = std::size_t{shape.kv_head_count} * shape.head_size;
      std::vector<double> sums(width, 0);
      for (std::uint32_t position = 0; position < length; ++position) {
        const std::uint32_t first = shape.window_start(position);
        for (std::size_t i = 0; i < width; ++i) {
          sums[i] += sequence.v[position * width + i];
          if (first > 0) sums[i] -= sequence.v[(first - 1) * width + i];
        }
        for (std::uint32_t i = 0; i < shape.head_count * shape.head_size; ++i) {
          const std::uint32_t kv_head = i / shape.head_size / shape.group();
          const double sum = sums[kv_head * shape.head_size + i % shape.head_size];
          ASSERT_EQ(got[position * shape.head_count * shape.head_size + i],
                    round_to(DType::F32, sum / (position - first + 1)))
              << shape.text() << ", position " << position << " at " << i;
        }
      }
    }
  }
}

TEST_P(AttentionPrefill, TheOnlyHeavyKeyGivesItsValueWhereverItLies) {
  TestDevice device(GetParam());
  const std::uint32_t length = 135;
  for (const AttentionShape& shape :
       {AttentionShape{3, 1, 64, 16, 0, DType::F16}, AttentionShape{1, 1, 256, 16, 0, DType::BF16},
        AttentionShape{2, 1, 24, 5, 33, DType::F16}}) {
    base::Prng prng(3);
    for (const std::uint32_t needle : {0u, 7u, 8u, 31u, 32u, 63u, 64u, 127u, 128u, 134u}) {
      Sequence sequence = integer_sequence(prng, shape, length);
      plant_needle(shape, sequence, needle);
      const std::vector<double> got =
          run(device, shape, {sequence}, {needle_queries(shape, length)}, {{0, 0, length}});
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::uint32_t position =
            static_cast<std::uint32_t>(i / shape.head_size / shape.head_count);
        const std::uint32_t first = shape.window_start(position);
        const std::size_t d = i % shape.head_size;
        double want = 0;
        if (needle >= first && needle <= position) {
          want = sequence.v[needle * shape.head_size + d];
        } else {  // not seen: the mean of those that are
          for (std::uint32_t key = first; key <= position; ++key) {
            want += sequence.v[key * shape.head_size + d];
          }
          want = round_to(DType::F32, want / (position - first + 1));
        }
        ASSERT_EQ(got[i], want) << "needle " << needle << ", position " << position;
      }
    }
  }
}

TEST_P(AttentionPrefill, ScoresThatGrowByTwoHundredLeaveTheNewestKey) {
  TestDevice device(GetParam());
  const AttentionShape shape{4, 2, 32, 16, 0, DType::F16};
  base::Prng prng(5);
  Sequence sequence = integer_sequence(prng, shape, 150);
  for (std::uint32_t key = 0; key < sequence.length; ++key) {
    for (std::uint32_t head = 0; head < 2; ++head) {
      sequence.k[cell_index(shape, key, head)] = 64 * static_cast<double>(key);  // 256 a key
    }
  }
  const std::vector<double> got =
      run(device, shape, {sequence}, {needle_queries(shape, 150)}, {{0, 0, 150}});
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint32_t position = static_cast<std::uint32_t>(i / 128);
    const std::uint32_t head = static_cast<std::uint32_t>(i % 128 / 64);
    ASSERT_EQ(got[i], sequence.v[cell_index(shape, position, head) + i % 32]) << position;
  }
}

TEST_P(AttentionPrefill, ChunksBatchAndPagesChangeNoBit) {
  TestDevice device(GetParam());
  const std::uint32_t length = 101;
  for (const AttentionShape& shape :
       {AttentionShape{4, 1, 256, 16, 0, DType::F16}, AttentionShape{9, 3, 64, 7, 0, DType::BF16},
        AttentionShape{3, 1, 24, 16, 37, DType::F16}}) {
    base::Prng prng(7);
    const std::vector<Sequence> sequences = {random_sequence(prng, shape, length),
                                             random_sequence(prng, shape, 40)};
    const std::vector<std::vector<double>> q = {random_queries(prng, shape, length),
                                                random_queries(prng, shape, 40)};
    const std::size_t width = std::size_t{shape.head_count} * shape.head_size;
    const std::vector<double> whole = run(device, shape, sequences, q, {{0, 0, length}});
    EXPECT_EQ(run(device, shape, sequences, q, {{0, 0, length}}, {.page_seed = 2}), whole);
    AttentionShape paged = shape;
    for (const std::uint32_t page_size : {1u, 2u, 64u}) {
      paged.page_size = page_size;
      EXPECT_EQ(run(device, paged, sequences, q, {{0, 0, length}}), whole) << paged.text();
    }
    for (const std::uint32_t rows : {1u, 16u, 33u}) {
      std::vector<double> chunked;
      for (std::uint32_t first = 0; first < length; first += rows) {
        const std::vector<double> chunk =
            run(device, shape, sequences, q, {{0, first, std::min(rows, length - first)}});
        chunked.insert(chunked.end(), chunk.begin(), chunk.end());
        if (rows == 1 && first == 40) {
          first = 95;  // one by one at both ends is enough
          chunked.insert(chunked.end(), whole.begin() + static_cast<std::ptrdiff_t>(41 * width),
                         whole.begin() + static_cast<std::ptrdiff_t>(96 * width));
        }
      }
      EXPECT_EQ(chunked, whole) << shape.text() << " in chunks of " << rows;
    }
    const std::vector<double> together =
        run(device, shape, sequences, q, {{1, 13, 27}, {0, 50, 51}, {1, 0, 5}, {0, 0, 3}});
    const auto rows_of = [&](std::uint32_t from, std::uint32_t count) {
      return std::vector<double>(
          together.begin() + static_cast<std::ptrdiff_t>(from * width),
          together.begin() + static_cast<std::ptrdiff_t>((from + count) * width));
    };
    EXPECT_EQ(rows_of(0, 27), run(device, shape, sequences, q, {{1, 13, 27}})) << shape.text();
    EXPECT_EQ(rows_of(27, 51), run(device, shape, sequences, q, {{0, 50, 51}})) << shape.text();
    EXPECT_EQ(rows_of(83, 3), run(device, shape, sequences, q, {{0, 0, 3}})) << shape.text();
  }
}

TEST_P(AttentionPrefill, NoScheduleChangesABit) {
  const AttentionShape shape{6, 2, 80, 16, 50, DType::F16};
  base::Prng prng(21);
  const std::vector<Sequence> sequences = {random_sequence(prng, shape, 90)};
  const std::vector<std::vector<double>> q = {random_queries(prng, shape, 90)};
  TestDevice in_order(GetParam());
  const std::vector<double> want = run(in_order, shape, sequences, q, {{0, 0, 90}});
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    device::DeviceOptions options;
    options.schedule_seed = seed;
    TestDevice permuted(GetParam(), options);
    EXPECT_EQ(run(permuted, shape, sequences, q, {{0, 0, 90}}), want) << "schedule " << seed;
  }
}

TEST(AttentionPrefillContract, RefusesWhatTensorCoresDoNotTake) {
  TestDevice device("vgpu:sm_80");
  AttentionShape shape;
  shape.cells = DType::F32;
  const base::Status launched = launch_attention_prefill(device.context(), arguments(shape));
  ASSERT_FALSE(launched.ok());
  EXPECT_EQ(launched.error().kind, base::ErrorKind::Unsupported);
}

}  // namespace
}  // namespace lockstep::kernels
