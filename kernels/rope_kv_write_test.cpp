// Laws of rope_kv_write: bound of the contract, position 0 is the identity, one-hot heads read the
// table, cells land in their slot and nowhere else.
#include "kernels/rope_kv_write.h"

#include "kernels/test_device.h"

namespace lockstep::kernels {
namespace {

using model::DType;
using model::RopePairing;

constexpr std::uint32_t kPositions = 40;

struct Problem {
  std::uint32_t rows = 3, head_count = 4, kv_head_count = 2, head_size = 64, page_size = 8;
  RopePairing pairing = RopePairing::Half;
  DType q_format = DType::F32, cell_format = DType::F16;
  double epsilon = 1e-6f;
  std::vector<double> q = {}, k = {}, v = {}, q_norm = {}, k_norm = {}, table = {};
  std::vector<std::uint32_t> positions = {};
  std::vector<std::int32_t> slots = {};
  std::uint32_t half() const { return head_size / 2; }
};

Problem random_problem(std::uint32_t head_size, RopePairing pairing, bool norm,
                       std::uint64_t seed) {
  base::Prng prng(seed);
  Problem p{.head_size = head_size, .pairing = pairing};
  p.q = random_values(prng, DType::F32, p.rows * p.head_count * head_size);
  p.k = random_values(prng, DType::F32, p.rows * p.kv_head_count * head_size);
  p.v = random_values(prng, DType::F32, p.rows * p.kv_head_count * head_size);
  if (norm) {
    p.q_norm = random_values(prng, DType::F32, head_size);
    p.k_norm = random_values(prng, DType::F32, head_size);
  }
  for (std::uint32_t position = 0; position < kPositions; ++position) {
    for (std::uint32_t i = 0; i < p.half(); ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / head_size);
      p.table.push_back(round_to(DType::F32, std::cos(angle)));
      p.table.push_back(round_to(DType::F32, std::sin(angle)));
    }
  }
  p.positions = {0, 7, kPositions - 1};
  p.slots = {9, 30, 17};
  return p;
}

constexpr std::uint32_t kPages = 4;
struct Outputs {
  std::vector<double> q, k, v;  // the pools whole
};

RopeKvWriteArgs arguments(const Problem& p) {
  return {.q_norm = p.q_norm.empty() ? 0u : 256u,
          .k_norm = p.k_norm.empty() ? 0u : 256u,
          .epsilon = static_cast<float>(p.epsilon),
          .q_format = p.q_format,
          .kv = {p.page_size, p.kv_head_count, p.head_size, p.cell_format},
          .pairing = p.pairing,
          .rows = p.rows,
          .head_count = p.head_count};
}

// Cells that nobody wrote read as -1.
Outputs run(TestDevice& device, const Problem& p) {
  const std::size_t cells = std::size_t{kPages} * p.page_size * p.kv_head_count * p.head_size;
  const device::Buffer q = device.upload(DType::F32, p.q), k = device.upload(DType::F32, p.k);
  const device::Buffer v = device.upload(DType::F32, p.v);
  const device::Buffer q_norm = device.upload(DType::F32, p.q_norm);
  const device::Buffer k_norm = device.upload(DType::F32, p.k_norm);
  const device::Buffer table = device.upload(DType::F32, p.table);
  const device::Buffer positions = device.upload_integers(p.positions);
  const device::Buffer slots = device.upload_integers(p.slots);
  const std::vector<double> blank(cells, -1);
  const device::Buffer k_pool = device.upload(p.cell_format, blank);
  const device::Buffer v_pool = device.upload(p.cell_format, blank);
  const device::Buffer q_out = device.allocate(p.q.size() * bytes_of(p.q_format));
  RopeKvWriteArgs args = arguments(p);
  args.q_raw = q.address();
  args.k_raw = k.address();
  args.v_raw = v.address();
  if (args.q_norm != 0) args.q_norm = q_norm.address();
  if (args.k_norm != 0) args.k_norm = k_norm.address();
  args.cos_sin = table.address();
  args.positions = positions.address();
  args.slots = slots.address();
  args.q_out = q_out.address();
  args.k_pool = k_pool.address();
  args.v_pool = v_pool.address();
  device.expect_clean(launch_rope_kv_write(device.context(), args));
  return {device.download(p.q_format, q_out), device.download(p.cell_format, k_pool),
          device.download(p.cell_format, v_pool)};
}

std::size_t cell(const Problem& p, std::uint32_t row, std::uint32_t head) {
  const std::uint32_t slot = static_cast<std::uint32_t>(p.slots[row]);
  return ((std::size_t{slot / p.page_size} * p.kv_head_count + head) * p.page_size +
          slot % p.page_size) *
         p.head_size;
}

// A head after norm and rotation: values and radii.
struct Head {
  std::vector<double> y, radius;
};
Head expected(const Problem& p, std::span<const double> x, const std::vector<double>& weight,
              std::uint32_t position) {
  Head head{std::vector<double>(x.begin(), x.end()), std::vector<double>(x.size(), 0)};
  if (!weight.empty()) {
    double sum = 0;
    for (const double each : x) sum += each * each;
    const double factor = 0.5 * (rope_kv_write_contract(arguments(p)).rounding_depth + 3) * kU +
                          std::max(std::exp2(-22.9), 2 * kU) + 2 * kU;
    for (std::size_t i = 0; i < x.size(); ++i) {
      head.y[i] = x[i] * weight[i] / std::sqrt(sum / static_cast<double>(x.size()) + p.epsilon);
      head.radius[i] = std::abs(head.y[i]) * factor;
    }
  }
  for (std::uint32_t i = 0; i < p.half(); ++i) {
    const bool halves = p.pairing == RopePairing::Half;
    const std::size_t i0 = halves ? i : 2 * i, i1 = halves ? i + p.half() : 2 * i + 1;
    const double c = p.table[(position * p.half() + i) * 2];
    const double s = p.table[(position * p.half() + i) * 2 + 1];
    const double x0 = head.y[i0], x1 = head.y[i1], r0 = head.radius[i0], r1 = head.radius[i1];
    head.y[i0] = x0 * c - x1 * s;
    head.y[i1] = x0 * s + x1 * c;
    const double a0 = std::abs(c), a1 = std::abs(s);
    head.radius[i0] = r0 * a0 + r1 * a1 +
                      1.001 * kU * (std::abs(x0) * a0 + std::abs(x1) * a1 + std::abs(head.y[i0]));
    head.radius[i1] = r0 * a1 + r1 * a0 +
                      1.001 * kU * (std::abs(x0) * a1 + std::abs(x1) * a0 + std::abs(head.y[i1]));
  }
  return head;
}

void expect_head(const Head& want, DType format, const double* got, const std::string& what) {
  for (std::size_t i = 0; i < want.y.size(); ++i) {
    ASSERT_GE(got[i], round_to(format, want.y[i] - want.radius[i])) << what << " at " << i;
    ASSERT_LE(got[i], round_to(format, want.y[i] + want.radius[i])) << what << " at " << i;
  }
}

void expect_outputs(const Problem& p, const Outputs& got) {
  const std::size_t size = p.head_size;
  for (std::uint32_t row = 0; row < p.rows; ++row) {
    const std::string where = "head size " + std::to_string(size) + ", row " + std::to_string(row);
    for (std::uint32_t head = 0; head < p.head_count; ++head) {
      const std::size_t at = (std::size_t{row} * p.head_count + head) * size;
      expect_head(expected(p, std::span(p.q).subspan(at, size), p.q_norm, p.positions[row]),
                  p.q_format, &got.q[at], "q " + where);
    }
    for (std::uint32_t head = 0; head < p.kv_head_count; ++head) {
      const std::size_t at = (std::size_t{row} * p.kv_head_count + head) * size;
      expect_head(expected(p, std::span(p.k).subspan(at, size), p.k_norm, p.positions[row]),
                  p.cell_format, &got.k[cell(p, row, head)], "k " + where);
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(got.v[cell(p, row, head) + i], round_to(p.cell_format, p.v[at + i])) << where;
      }
    }
  }
}

class RopeKvWrite : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, RopeKvWrite, generations(), generation_name);

TEST_P(RopeKvWrite, StaysWithinItsContractsBound) {
  TestDevice device(GetParam());
  const DType formats[] = {DType::F32, DType::F16, DType::BF16};
  std::uint64_t seed = 0;
  for (const std::uint32_t head_size : {16u, 18u, 24u, 64u, 66u, 80u, 128u, 130u, 132u, 256u}) {
    for (const RopePairing pairing : {RopePairing::Half, RopePairing::Interleaved}) {
      for (const bool norm : {false, true}) {
        Problem p = random_problem(head_size, pairing, norm, ++seed);
        p.q_format = formats[seed % 3];
        p.cell_format = formats[seed / 3 % 3];
        expect_outputs(p, run(device, p));
      }
    }
  }
}

TEST_P(RopeKvWrite, PositionZeroIsTheIdentity) {
  TestDevice device(GetParam());
  for (const RopePairing pairing : {RopePairing::Half, RopePairing::Interleaved}) {
    Problem p = random_problem(64, pairing, false, 5);
    p.positions.assign(p.rows, 0);
    EXPECT_EQ(run(device, p).q, p.q);
  }
}

TEST_P(RopeKvWrite, OneHotHeadsReadTheTable) {
  TestDevice device(GetParam());
  for (const RopePairing pairing : {RopePairing::Half, RopePairing::Interleaved}) {
    for (const std::uint32_t hot : {0u, 1u, 15u, 31u, 32u, 63u}) {
      Problem p = random_problem(64, pairing, false, 6);
      p.q.assign(p.q.size(), 0);
      for (std::size_t head = 0; head < p.rows * p.head_count; ++head) p.q[head * 64 + hot] = 1;
      const bool halves = pairing == RopePairing::Half;
      const std::uint32_t pair = halves ? hot % 32 : hot / 2;
      const bool second = halves ? hot >= 32 : hot % 2 == 1;
      const std::uint32_t partner = halves ? (hot + 32) % 64 : hot ^ 1;
      const Outputs got = run(device, p);
      for (std::uint32_t row = 0; row < p.rows; ++row) {
        const double* entry = &p.table[(p.positions[row] * 32 + pair) * 2];
        for (std::uint32_t i = 0; i < 64; ++i) {
          const double want = i == hot       ? entry[0]
                              : i != partner ? 0
                              : second       ? -entry[1]
                                             : entry[1];
          ASSERT_EQ(got.q[row * p.head_count * 64 + i], want) << hot << " " << i;
        }
      }
    }
  }
}

TEST_P(RopeKvWrite, WritesItsSlotsAndNoOtherCell) {
  TestDevice device(GetParam());
  Problem p = random_problem(24, RopePairing::Half, true, 8);
  p.page_size = 5;  // any size
  p.slots = {19, -1, 4};
  const Outputs got = run(device, p);
  std::vector<bool> written(got.k.size(), false);
  for (const std::uint32_t row : {0u, 2u}) {
    for (std::uint32_t head = 0; head < p.kv_head_count; ++head) {
      for (std::size_t i = 0; i < p.head_size; ++i) written[cell(p, row, head) + i] = true;
    }
  }
  for (std::size_t i = 0; i < got.k.size(); ++i) {
    if (written[i]) continue;
    ASSERT_EQ(got.k[i], -1) << i;
    ASSERT_EQ(got.v[i], -1) << i;
  }
}

}  // namespace
}  // namespace lockstep::kernels
