// Laws of attention_decode: probes with exact answers, poison, independence of batch and pages, and
// the contract's bound.
#include "kernels/attention_decode.h"

#include <cstdio>

#include "kernels/test_attention.h"

namespace lockstep::kernels {
namespace {

using model::DType;

AttentionDecodeArgs arguments(const AttentionShape& shape) {
  return {.kv = shape.kv(),
          .scale = shape.scale,
          .window = shape.window,
          .head_count = shape.head_count};
}

struct Options {
  std::uint64_t page_seed = 1;
  bool poison_before_window = false;
};

// One query a sequence, at its last position: out [sequences, heads, head size].
std::vector<double> run(TestDevice& device, const AttentionShape& shape,
                        const std::vector<Sequence>& sequences, const std::vector<double>& q,
                        const Options& options = {}) {
  std::vector<std::uint32_t> lengths, from;
  AttentionDecodeArgs args = arguments(shape);
  for (const Sequence& each : sequences) {
    lengths.push_back(each.length);
    from.push_back(options.poison_before_window ? shape.window_start(each.length - 1) : 0);
    args.max_context_length = std::max(args.max_context_length, each.length);
  }
  args.rows = static_cast<std::uint32_t>(sequences.size());
  const Paged paged = paginate(device, shape, sequences, options.page_seed, from);
  const device::Buffer queries = device.upload(DType::F32, q);
  const device::Buffer contexts = device.upload_integers(lengths);
  const device::Buffer workspace = device.allocate(attention_decode_workspace_bytes(
      args.rows, shape.head_count, shape.head_size, args.max_context_length));
  const device::Buffer out = device.allocate(q.size() * 4);
  args.q = queries.address();
  args.k_pool = paged.k_pool.address();
  args.v_pool = paged.v_pool.address();
  args.block_tables = paged.tables.address();
  args.table_stride = paged.table_stride;
  args.context_lengths = contexts.address();
  args.workspace = workspace.address();
  args.out = out.address();
  device.expect_clean(launch_attention_decode(device.context(), args));
  return device.download(DType::F32, out);
}

// One query head against the contract's bound; returns the largest error / bound.
double expect_bound(const AttentionShape& shape, const Sequence& sequence, const double* q,
                    std::uint32_t head, const double* got) {
  const trace::Contract contract = attention_decode_contract(arguments(shape));
  const std::uint32_t last = sequence.length - 1, first = shape.window_start(last);
  const std::uint32_t kv_head = head / shape.group();
  const Scores scores = exact_scores(shape, sequence, q, kv_head, first, last);
  const std::size_t keys = scores.s.size();
  const double parts = last / contract.split_keys - first / contract.split_keys + 1;
  const double high = *std::max_element(scores.s.begin(), scores.s.end());
  const double low = *std::min_element(scores.s.begin(), scores.s.end());
  std::vector<double> weight(keys), eta(keys);
  double total = 0;
  for (std::size_t j = 0; j < keys; ++j) {
    total += weight[j] = std::exp(scores.s[j] - high);
    const double delta =
        gamma(contract.depth_scores + 1) * scores.absolute[j] + 3 * kU * std::abs(scores.s[j]);
    eta[j] = delta + kU * std::abs(scores.s[j] - high) + 0x1p-22 +
             contract.rescales * (0x1p-22 + kU) + kU * (high - low);
  }
  double worst = 0;
  for (std::uint32_t d = 0; d < shape.head_size; ++d) {
    const auto v = [&](std::size_t j) {
      return sequence.v[cell_index(shape, first + static_cast<std::uint32_t>(j), kv_head) + d];
    };
    double o = 0, spread = 0, absolute = 0, all = 0;
    for (std::size_t j = 0; j < keys; ++j) o += weight[j] / total * v(j);
    for (std::size_t j = 0; j < keys; ++j) {
      spread += weight[j] / total * eta[j] * std::abs(v(j) - o);
      absolute += weight[j] / total * std::abs(v(j));
      all += std::abs(v(j));
    }
    const double bound = 1.02 * spread + gamma(contract.depth_output + parts) * absolute +
                         (gamma(contract.depth_sum + parts) + 3 * kU) * std::abs(o) +
                         0x1p-126 * all;
    const double error = std::abs(got[d] - o);
    EXPECT_LE(error, bound) << shape.text() << ", " << sequence.length << " keys, head " << head
                            << ", element " << d << ": got " << got[d] << ", want " << o;
    worst = std::max(worst, error / bound);
  }
  return worst;
}

std::vector<double> part(const AttentionShape& shape, const std::vector<double>& out,
                         std::size_t row) {
  const std::size_t width = std::size_t{shape.head_count} * shape.head_size;
  return {out.begin() + static_cast<std::ptrdiff_t>(row * width),
          out.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
}

class AttentionDecode : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, AttentionDecode, generations(), generation_name);

const AttentionShape kShapes[] = {
    {4, 1, 256, 16, 0, DType::F16},  {9, 3, 64, 16, 0, DType::F16},  {2, 2, 16, 4, 0, DType::F32},
    {5, 1, 24, 32, 0, DType::BF16},  {2, 1, 32, 64, 0, DType::F16},  {3, 1, 80, 8, 0, DType::F32},
    {6, 2, 96, 12, 0, DType::BF16},  {8, 1, 128, 16, 0, DType::F16}, {1, 1, 8, 5, 0, DType::F32},
    {1, 1, 200, 16, 0, DType::BF16},
};

TEST_P(AttentionDecode, StaysWithinItsContractsBound) {
  double worst = 0;
  std::uint64_t seed = 0;
  const device::ApproximationMode modes[] = {
      device::ApproximationMode::Nominal, device::ApproximationMode::Low,
      device::ApproximationMode::High, device::ApproximationMode::Hashed};
  for (AttentionShape shape : kShapes) {
    device::DeviceOptions options;
    options.approximation = modes[seed % 4];
    TestDevice device(GetParam(), options);
    base::Prng prng(++seed);
    shape.window = seed % 2 == 0 ? 0 : 40;
    std::vector<Sequence> sequences;
    for (const std::uint32_t length : {1u, 33u, 90u, 300u}) {
      sequences.push_back(random_sequence(prng, shape, length));
    }
    const std::vector<double> q =
        random_values(prng, DType::F32, 4 * shape.head_count * shape.head_size);
    const std::vector<double> got = run(device, shape, sequences, q);
    for (std::size_t i = 0; i < 4 * shape.head_count; ++i) {
      worst = std::max(worst,
                       expect_bound(shape, sequences[i / shape.head_count], &q[i * shape.head_size],
                                    static_cast<std::uint32_t>(i % shape.head_count),
                                    &got[i * shape.head_size]));
    }
  }
  std::printf("largest error / bound %.3g\n", worst);
}

TEST_P(AttentionDecode, EqualScoresGiveExactMeans) {
  TestDevice device(GetParam());
  for (const AttentionShape& shape : kShapes) {
    base::Prng prng(shape.head_size);
    std::vector<Sequence> sequences;
    for (const std::uint32_t length : {1u, 2u, 32u, 64u, 256u, 512u}) {
      sequences.push_back(integer_sequence(prng, shape, length));
    }
    const std::size_t width = std::size_t{shape.head_count} * shape.head_size;
    const std::vector<double> got =
        run(device, shape, sequences, std::vector<double>(sequences.size() * width, 0));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Sequence& sequence = sequences[i / width];
      const std::uint32_t head = static_cast<std::uint32_t>(i % width) / shape.head_size;
      double sum = 0;
      for (std::uint32_t key = 0; key < sequence.length; ++key) {
        sum += sequence.v[cell_index(shape, key, head / shape.group()) + i % shape.head_size];
      }
      ASSERT_EQ(got[i], sum / sequence.length) << shape.text() << " at " << i;
    }
  }
}

TEST_P(AttentionDecode, TheOnlyHeavyKeyGivesItsValueWhereverItLies) {
  TestDevice device(GetParam());
  for (const AttentionShape& shape :
       {AttentionShape{4, 1, 64, 16, 0, DType::F16}, AttentionShape{2, 2, 24, 5, 0, DType::F32}}) {
    base::Prng prng(3);
    for (const std::uint32_t needle :
         {0u, 15u, 16u, 31u, 32u, 127u, 128u, 255u, 256u, 257u, 299u}) {
      Sequence sequence = integer_sequence(prng, shape, 300);
      plant_needle(shape, sequence, needle);
      const std::vector<double> got = run(device, shape, {sequence}, needle_queries(shape, 1));
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::uint32_t head = static_cast<std::uint32_t>(i) / shape.head_size;
        ASSERT_EQ(got[i],
                  sequence.v[cell_index(shape, needle, head / shape.group()) + i % shape.head_size])
            << "needle " << needle << " at " << i;
      }
    }
  }
}

TEST_P(AttentionDecode, TheWindowEndsWhereItSays) {
  TestDevice device(GetParam());
  for (const std::uint32_t window : {1u, 31u, 32u, 33u, 100u, 256u, 257u}) {
    const AttentionShape shape{2, 1, 32, 16, window, DType::F16};
    base::Prng prng(window);
    for (const std::uint32_t length : {300u, 552u}) {
      // Just inside the window, a needle is all; just outside, it is not seen, nor is anything
      // before.
      for (const bool inside : {true, false}) {
        Sequence sequence = integer_sequence(prng, shape, length);
        const std::uint32_t first = shape.window_start(length - 1);
        plant_needle(shape, sequence, inside ? first : first - 1);
        const std::vector<double> got = run(device, shape, {sequence}, needle_queries(shape, 1),
                                            {.poison_before_window = inside});
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t d = i % shape.head_size;
          double sum = 0;
          for (std::uint32_t key = first; key < length; ++key) sum += sequence.v[key * 32 + d];
          if (inside) {
            ASSERT_EQ(got[i], sequence.v[first * 32 + d]) << window << " " << length;
          } else {  // o and l are exact, the quotient is rounded once
            ASSERT_EQ(got[i], round_to(DType::F32, sum / window)) << window << " " << length;
          }
        }
      }
    }
  }
}

TEST_P(AttentionDecode, ScoresThatGrowByTwoHundredLeaveTheLastKey) {
  TestDevice device(GetParam());
  const AttentionShape shape{4, 2, 32, 16, 0, DType::F16};
  base::Prng prng(5);
  Sequence sequence = integer_sequence(prng, shape, 290);
  for (std::uint32_t key = 0; key < sequence.length; ++key) {
    for (std::uint32_t head = 0; head < 2; ++head) {
      // Element 0 times 32 * 0.125 = 4: 256 a key.
      sequence.k[cell_index(shape, key, head)] = 64 * static_cast<double>(key % 290);
    }
  }
  const std::vector<double> got = run(device, shape, {sequence}, needle_queries(shape, 1));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint32_t head = static_cast<std::uint32_t>(i / 32 / 2);
    EXPECT_EQ(got[i], sequence.v[cell_index(shape, 289, head) + i % 32]);
  }
}

TEST_P(AttentionDecode, RowsDoNotDependOnBatchOrPages) {
  TestDevice device(GetParam());
  for (const AttentionShape& shape :
       {AttentionShape{4, 1, 256, 16, 0, DType::F16}, AttentionShape{6, 3, 64, 7, 70, DType::BF16},
        AttentionShape{2, 2, 24, 4, 0, DType::F32}}) {
    base::Prng prng(9);
    std::vector<Sequence> sequences;
    for (const std::uint32_t length : {70u, 1u, 600u, 256u}) {  // alone: one split; together: three
      sequences.push_back(random_sequence(prng, shape, length));
    }
    const std::size_t width = std::size_t{shape.head_count} * shape.head_size;
    const std::vector<double> q = random_values(prng, DType::F32, 4 * width);
    const std::vector<double> together = run(device, shape, sequences, q, {.page_seed = 1});
    EXPECT_EQ(run(device, shape, sequences, q, {.page_seed = 2}), together);
    EXPECT_EQ(run(device, shape, sequences, q, {.page_seed = 1, .poison_before_window = true}),
              together);
    for (std::size_t row = 0; row < 4; ++row) {
      EXPECT_EQ(run(device, shape, {sequences[row]}, part(shape, q, row)),
                part(shape, together, row))
          << shape.text() << " row " << row;
    }
  }
}

TEST_P(AttentionDecode, ARowWithoutKeysIsZero) {
  TestDevice device(GetParam());
  const AttentionShape shape{2, 1, 32, 16, 0, DType::F16};
  base::Prng prng(2);
  for (const std::uint32_t other : {5u, 300u}) {  // one split, or two
    const std::vector<Sequence> sequences = {{}, random_sequence(prng, shape, other)};
    const std::vector<double> q = random_values(prng, DType::F32, 2 * 2 * 32);
    EXPECT_EQ(part(shape, run(device, shape, sequences, q), 0), std::vector<double>(64, 0));
  }
}

TEST_P(AttentionDecode, NoScheduleChangesABit) {
  const AttentionShape shape{6, 2, 80, 16, 300, DType::F16};
  base::Prng prng(21);
  const std::vector<Sequence> sequences = {random_sequence(prng, shape, 70),
                                           random_sequence(prng, shape, 530)};
  const std::vector<double> q =
      random_values(prng, DType::F32, std::size_t{2} * shape.head_count * shape.head_size);
  TestDevice in_order(GetParam());
  const std::vector<double> want = run(in_order, shape, sequences, q);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    device::DeviceOptions options;
    options.schedule_seed = seed;
    TestDevice permuted(GetParam(), options);
    EXPECT_EQ(run(permuted, shape, sequences, q), want) << "schedule " << seed;
  }
}

TEST(AttentionDecodeContract, RefusesHeadsThatItCannotCut) {
  TestDevice device("vgpu:sm_80");
  AttentionShape shape;
  shape.head_size = 20;
  const base::Status launched = launch_attention_decode(device.context(), arguments(shape));
  ASSERT_FALSE(launched.ok());
  EXPECT_EQ(launched.error().kind, base::ErrorKind::Unsupported);
}

}  // namespace
}  // namespace lockstep::kernels
