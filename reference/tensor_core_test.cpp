// Tensor-core replay against third-party models and measured rows; balls against both.
#include "reference/tensor_core.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/prng.h"
#include "reference/formats/ieee.h"
#include "reference/tensor_core_lanes.h"

namespace lockstep::reference {
namespace {

using model::DType;
using nlohmann::json;

// Records of golden/tensor_core_vectors/<name>.jsonl.zst, whose README.md has the format.
std::vector<json> records(const std::string& name) {
  std::ifstream file(LOCKSTEP_GOLDEN_DIR "/tensor_core_vectors/" + name + ".jsonl.zst",
                     std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(file)), {});
  std::string text(std::size_t{64} << 20, '\0');
  const std::size_t size = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  EXPECT_FALSE(ZSTD_isError(size)) << name << ": " << ZSTD_getErrorName(size);
  if (ZSTD_isError(size)) return {};
  std::vector<json> result;
  for (std::size_t begin = 0; begin < size;) {
    const std::size_t end = std::min(text.find('\n', begin), size);
    if (end > begin)
      result.push_back(json::parse(text.begin() + static_cast<long>(begin),
                                   text.begin() + static_cast<long>(end)));
    begin = end + 1;
  }
  return result;
}

template <class Word>
std::vector<Word> words(const json& hex) {
  const std::string& digits = hex.get_ref<const std::string&>();
  constexpr std::size_t kDigits = sizeof(Word) * 2;
  std::vector<Word> result;
  for (std::size_t i = 0; i + kDigits <= digits.size(); i += kDigits) {
    result.push_back(static_cast<Word>(std::stoul(digits.substr(i, kDigits), nullptr, 16)));
  }
  return result;
}

// Facts by architecture (part of the model key before the dot); Volta's floor is never reached.
trace::TensorCoreInfo info_of(const std::string& key) {
  const std::string architecture = key.substr(0, key.find('.'));
  if (architecture == "volta") return {4, 23, -131};
  if (architecture == "turing" || architecture == "ampere" || architecture == "ada") {
    return {8, 24, -132};
  }
  return {16, 25, -133};
}

bool to_f32(const json& record) {
  const auto text = [&](const char* key) { return record.at(key).get<std::string>(); };
  return text("d_type") == "f32" && (text("a_type") == "f16" || text("a_type") == "bf16") &&
         text("b_type") == text("a_type");
}
DType operand_format(const json& record) {
  return record.at("a_type") == "f16" ? DType::F16 : DType::BF16;
}

std::vector<double> values_of(DType format, std::span<const std::uint16_t> bits) {
  std::vector<double> values(bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = value_of_bits(format, bits[i]);
  return values;
}

// Observed / allowed of balls, and what does not fit.
struct BallTally {
  std::uint64_t outputs = 0, unclaimed = 0, exact = 0, violations = 0;
  double tightest = 0;

  void add(const TensorCoreBall& ball, std::uint32_t got_bits) {
    ++outputs;
    if (std::isinf(ball.radius)) {
      ++unclaimed;
      return;
    }
    const double error = std::abs(f32_value(got_bits) - ball.value);
    if (!(error <= ball.radius)) ++violations;  // also a NaN or infinity inside a finite ball
    if (ball.radius == 0) {
      ++exact;
    } else {
      tightest = std::max(tightest, error / ball.radius);
    }
  }
};
std::ostream& operator<<(std::ostream& out, const BallTally& tally) {
  return out << tally.outputs << " outputs, " << tally.violations << " violations, " << tally.exact
             << " with radius 0, " << tally.unclaimed << " without claim, largest error / radius "
             << tally.tightest;
}

// One set of outputs d = c + a b of one model.
struct Vectors {
  trace::TensorCoreInfo info;
  DType format = DType::F16;
  std::uint32_t instruction_k = 16;
  std::size_t k = 16;
  std::vector<std::uint16_t> a, b;
  std::vector<std::uint32_t> c, d;

  std::uint64_t mismatches() const {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < d.size(); ++i) {
      count += tensor_core_chain(info, format, instruction_k, row(a, i), row(b, i), c[i]) != d[i];
    }
    return count;
  }
  void add_balls(BallTally& tally) const {
    for (std::size_t i = 0; i < d.size(); ++i) {
      tally.add(tensor_core_ball(info, format, instruction_k, values_of(format, row(a, i)),
                                 values_of(format, row(b, i)), f32_value(c[i])),
                d[i]);
    }
  }
  std::span<const std::uint16_t> row(const std::vector<std::uint16_t>& operand,
                                     std::size_t i) const {
    return std::span(operand).subspan(i * k, k);
  }
};

// `record` vec, of `set`.
Vectors vectors_of(const json& set, const json& record, const std::string& key) {
  Vectors vectors;
  vectors.info = info_of(key);
  vectors.format = operand_format(set);
  vectors.instruction_k = set.at("models").at(key).at("k").get<std::uint32_t>();
  vectors.k = set.at("k").get<std::size_t>();
  vectors.a = words<std::uint16_t>(record.at("a"));
  vectors.b = words<std::uint16_t>(record.at("b"));
  vectors.c = words<std::uint32_t>(record.at("c"));
  vectors.d = words<std::uint32_t>(record.at("d").at(key));
  return vectors;
}

TEST(TensorCore, ReplayIsTheThirdPartyModelsBitsAndEachLiesInItsBall) {
  std::uint64_t checked = 0;
  std::map<std::string, BallTally> tallies;
  for (const char* file : {"f16", "bf16"}) {
    std::map<std::string, json> sets;
    for (const json& record : records(file)) {
      if (record.at("rec") == "set") sets[record.at("set")] = record;
      if (record.at("rec") != "vec") continue;
      const json& set = sets.at(record.at("set"));
      if (!to_f32(set)) continue;
      for (const auto& [key, model] : set.at("models").items()) {
        const Vectors vectors = vectors_of(set, record, key);
        EXPECT_EQ(vectors.mismatches(), 0u) << record.at("set") << record.at("case") << key;
        vectors.add_balls(tallies[record.at("case")]);
        checked += vectors.d.size();
      }
    }
  }
  EXPECT_GT(checked, 15000u);
  for (const auto& [name, tally] : tallies) {
    EXPECT_EQ(tally.violations, 0u) << name;
    std::cout << name << ": " << tally << "\n";
  }
}

TEST(TensorCore, ReplayIsTheMeasuredBitsAndEachLiesInItsBall) {
  std::uint64_t checked = 0;
  BallTally tally;
  for (const json& record : records("hw")) {
    if (record.at("rec") != "hw" || !to_f32(record)) continue;
    Vectors vectors;
    vectors.info = info_of(record.at("model"));
    vectors.format = operand_format(record);
    vectors.k = record.at("k").get<std::size_t>();
    vectors.a = words<std::uint16_t>(record.at("a"));
    vectors.b = words<std::uint16_t>(record.at("b"));
    vectors.c = words<std::uint32_t>(record.at("c"));
    vectors.d = words<std::uint32_t>(record.at("d"));
    EXPECT_EQ(vectors.mismatches(), 0u) << record.at("gpu") << record.at("a_type");
    vectors.add_balls(tally);
    checked += vectors.d.size();
    // Another cut, block or (where a row has more products) generation shows.
    for (const trace::TensorCoreInfo& wrong :
         {trace::TensorCoreInfo{vectors.info.products, vectors.info.fraction_bits - 1, -133},
          trace::TensorCoreInfo{vectors.info.products / 2, vectors.info.fraction_bits, -133}}) {
      Vectors other = vectors;
      other.info = wrong;
      EXPECT_GT(other.mismatches(), 0u) << record.at("gpu");
    }
  }
  EXPECT_EQ(checked, 15000u);  // 8 GPUs, f16 and (not on V100) bf16
  EXPECT_EQ(tally.violations, 0u);
  std::cout << "measured: " << tally << "\n";
}

TEST(TensorCore, ReplayIsTheTilesBits) {
  std::uint64_t checked = 0;
  for (const json& record : records("tiles")) {
    if (record.at("rec") != "tile") continue;
    const std::string instruction = record.at("instr");
    const bool f16 = instruction.find("f32.f16.f16") != std::string::npos;
    const bool bf16 = instruction.find("f32.bf16.bf16") != std::string::npos;
    if (!f16 && !bf16) continue;
    const auto m = record.at("m").get<std::size_t>(), n = record.at("n").get<std::size_t>(),
               k = record.at("k").get<std::size_t>();
    const auto a = words<std::uint16_t>(record.at("a")), b = words<std::uint16_t>(record.at("b"));
    const auto c = words<std::uint32_t>(record.at("c")), d = words<std::uint32_t>(record.at("d"));
    std::vector<std::uint16_t> column(k);
    for (std::size_t i = 0; i < m * n; ++i) {
      for (std::size_t j = 0; j < k; ++j) column[j] = b[j * n + i % n];
      EXPECT_EQ(tensor_core_chain(info_of(record.at("arch")), f16 ? DType::F16 : DType::BF16,
                                  static_cast<std::uint32_t>(k), std::span(a).subspan(i / n * k, k),
                                  column, c[i]),
                d[i])
          << instruction << " " << i;
      ++checked;
    }
  }
  EXPECT_GT(checked, 2000u);
}

trace::Contract contract_of(DType format, std::uint32_t segments = 1, std::uint32_t segment_k = 0) {
  trace::Contract contract;
  contract.input_format = contract.weight_format = format;
  contract.sum = trace::SumKind::TensorCore;
  contract.k_segments = segments;
  contract.segment_k = segment_k;
  return contract;
}

// Random operands of a matrix product; `wild`: exponents over a wide range, many zeros.
struct Product {
  Product(DType format_in, std::size_t rows_in, std::size_t outputs_in, std::size_t k_in, bool wild,
          std::uint64_t seed)
      : format(format_in), rows(rows_in), outputs(outputs_in), k(k_in) {
    base::Prng prng(seed);
    for (auto* operand : {&x, &w}) {
      operand->resize((operand == &x ? rows : outputs) * k);
      for (double& element : *operand) {
        element = prng.normal();
        if (wild) element = std::ldexp(element, static_cast<int>(prng.below(28)) - 14);
        if (wild && prng.below(4) == 0) element = 0;
        element = round_to(format, element);
      }
    }
    value.resize(rows * outputs);
    radius.resize(rows * outputs);
  }
  void compute(const trace::Contract& contract, const trace::TensorCoreInfo& info) {
    tensor_core_products(contract, info, x, rows, w, outputs, k, value, radius);
  }
  std::vector<std::uint16_t> bits(const std::vector<double>& operand, std::size_t row) const {
    std::vector<std::uint16_t> result(k);
    for (std::size_t i = 0; i < k; ++i) {
      result[i] = static_cast<std::uint16_t>(bits_of_value(format, operand[row * k + i]));
    }
    return result;
  }
  std::uint32_t replay(const trace::Contract& contract, const trace::TensorCoreInfo& info,
                       std::size_t r, std::size_t o) const {
    return tensor_core_replay(contract, info, bits(x, r), bits(w, o));
  }
  DType format;
  std::size_t rows, outputs, k;
  std::vector<double> x, w, value, radius;
};

constexpr trace::TensorCoreInfo kAmpere{8, 24, -132}, kHopper{16, 25, -133};

TEST(TensorCoreProducts, EveryReplayLiesInItsBall) {
  for (const DType format : {DType::F16, DType::BF16}) {
    for (const trace::TensorCoreInfo& info : {kAmpere, kHopper}) {
      for (const bool wild : {false, true}) {
        BallTally tally;
        for (const std::uint32_t segments : {1u, 2u, 3u}) {
          const std::size_t k = 640;
          const auto contract = contract_of(format, segments, segments == 3 ? 240 : 320);
          Product product(format, 5, 19, k, wild, segments);
          product.compute(contract, info);
          for (std::size_t i = 0; i < product.value.size(); ++i) {
            tally.add({product.value[i], product.radius[i]},
                      product.replay(contract, info, i / 19, i % 19));
          }
        }
        EXPECT_EQ(tally.violations, 0u);
        EXPECT_EQ(tally.unclaimed, 0u);
        std::cout << model::name(format) << " L " << info.products << (wild ? " wild: " : ": ")
                  << tally << "\n";
      }
    }
  }
}

TEST(TensorCoreProducts, AllOutputsAreTheScalarBallsWithBlockMaxima) {
  for (const DType format : {DType::F16, DType::BF16}) {
    for (const std::size_t k : {1u, 15u, 16u, 17u, 100u, 640u}) {
      for (const bool wild : {false, true}) {
        Product product(format, 6, 11, k, wild, k);
        product.compute(contract_of(format), kHopper);
        double looser = 0;
        for (std::size_t i = 0; i < product.value.size(); ++i) {
          const TensorCoreBall ball =
              tensor_core_ball(kHopper, format, 16, std::span(product.x).subspan(i / 11 * k, k),
                               std::span(product.w).subspan(i % 11 * k, k), 0);
          EXPECT_EQ(product.value[i], ball.value);
          EXPECT_GE(product.radius[i], ball.radius);
          looser += product.radius[i] == ball.radius ? 1 : product.radius[i] / ball.radius;
        }
        if (k == 640) {
          std::cout << model::name(format) << (wild ? " wild" : "") << ": block maxima make radii "
                    << looser / static_cast<double>(product.value.size()) << " times larger\n";
        }
      }
    }
  }
}

TEST(TensorCoreProducts, HostVectorWidthsAgreeToTheBit) {
  const std::size_t rows = 7, k = 64, blocks = 4;
  Product product(DType::F16, rows, 8, k, true, 5);
  std::vector<double> w(k * 8);
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t o = 0; o < 8; ++o) w[i * 8 + o] = product.w[o * k + i];
  }
  std::vector<std::vector<double>> results;
  for (const HostVectors vectors :
       {HostVectors::Baseline, HostVectors::Avx2, HostVectors::Avx512}) {
    if (vectors > host_vectors()) continue;
    std::vector<double> tops(blocks * 8), lows(blocks * 8), x_tops(rows * blocks, 0x1p14),
        x_lows(rows * blocks, 0x1p-24), result(rows * 8 * 3);
    const TensorCoreLoops& loops = tensor_core_loops(vectors);
    loops.block_facts(w.data(), blocks, 16, 0x1p-14, tops.data(), lows.data());
    TensorCoreTile tile;
    tile.x = {product.x.data(), x_tops.data(), x_lows.data()};
    tile.w = {w.data(), tops.data(), lows.data()};
    tile.rows = rows;
    tile.stride = k;
    tile.blocks = tile.segment_blocks = blocks;
    tile.fraction = 0x1p-25;
    tile.least = 0x1p-126;
    tile.sums = result.data();
    tile.radii = result.data() + rows * 8;
    tile.lowest = result.data() + rows * 16;
    loops.tile(tile);
    result.insert(result.end(), tops.begin(), tops.end());
    result.insert(result.end(), lows.begin(), lows.end());
    results.push_back(result);
  }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

// |products| <= 2^14, |sums| < 2^24: nothing can be cut, in any order of blocks.
TEST(TensorCoreProducts, SmallIntegersAndOneHotRowsHaveRadiusZero) {
  base::Prng prng(7);
  for (const trace::TensorCoreInfo& info : {kAmpere, kHopper}) {
    const std::size_t k = 640;
    const auto contract = contract_of(DType::F16, 2, 320);
    Product product(DType::F16, 4, 9, k, false, 1);
    for (double& value : product.x) value = static_cast<double>(prng.below(255)) - 127;
    for (double& value : product.w) value = static_cast<double>(prng.below(255)) - 127;
    for (std::size_t i = 0; i < k; ++i) product.x[3 * k + i] = i == 333 ? 1 : 0;
    for (std::size_t i = 0; i < k; ++i) product.w[8 * k + i] = prng.normal();
    for (std::size_t i = 0; i < k; ++i)
      product.w[8 * k + i] = round_to(DType::F16, product.w[8 * k + i]);
    product.compute(contract, info);
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t o = 0; o < 9; ++o) {
        if (o == 8 && r != 3) continue;
        EXPECT_EQ(product.radius[r * 9 + o], 0);
        EXPECT_EQ(product.value[r * 9 + o], f32_value(product.replay(contract, info, r, o)));
      }
    }
  }
}

// What the bound is for: a relative error of 2^-13 in every output leaves the ball of most of them.
TEST(TensorCoreProducts, AScaleOffByOneIn8192LeavesTheBalls) {
  for (const trace::TensorCoreInfo& info : {kAmpere, kHopper}) {
    for (const std::size_t k : {640u, 2048u}) {
      Product product(DType::F16, 4, 16, k, false, k);
      product.compute(contract_of(DType::F16), info);
      std::size_t caught = 0;
      for (std::size_t i = 0; i < product.value.size(); ++i) {
        caught += std::abs(product.value[i]) * 0x1p-13 > product.radius[i];
      }
      std::cout << "L " << info.products << " k " << k << ": 2^-13 caught at " << caught << " of "
                << product.value.size() << " outputs\n";
      EXPECT_GT(caught, 0u);
    }
  }
}

TEST(TensorCoreProducts, NothingIsClaimedOfInfinitiesAndOverflow) {
  const std::size_t k = 32;
  Product product(DType::BF16, 4, 3, k, false, 1);
  product.x[0] = std::numeric_limits<double>::infinity();
  product.x[k + 1] = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < k; ++i) product.x[2 * k + i] = 0x1p126;
  for (std::size_t i = 0; i < k; ++i) product.w[k + i] = i % 2 == 0 ? 4 : -4;  // reaches 2^128
  for (std::size_t i = 0; i < k; ++i) product.w[2 * k + i] = i % 2 == 0 ? 0.5 : -0.5;
  product.compute(contract_of(DType::BF16), kHopper);
  for (std::size_t o = 0; o < 3; ++o) {
    EXPECT_TRUE(std::isinf(product.radius[o]));
    EXPECT_TRUE(std::isinf(product.radius[3 + o]));
    EXPECT_TRUE(std::isfinite(product.radius[9 + o]));
  }
  EXPECT_EQ(product.radius[6 + 1], 0);  // sums of a block are 0: its terms cancel exactly
  EXPECT_EQ(product.radius[6 + 2], 0);
}

TEST(TensorCoreProducts, ModelWeightsAreRoundedToTheOperandFormat) {
  base::Prng prng(9);
  std::vector<float> weights(24 * 64);
  for (float& weight : weights) weight = static_cast<float>(prng.normal());
  model::TensorInfo tensor;
  tensor.name = std::string("w");
  tensor.shape = {24, 64};
  tensor.data = std::as_bytes(std::span(weights));
  Product product(DType::BF16, 3, 24, 64, false, 2);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    product.w[i] = round_to(DType::BF16, static_cast<double>(weights[i]));
  }
  const auto contract = contract_of(DType::BF16);
  product.compute(contract, kAmpere);
  std::vector<double> value(product.value.size()), radius(value.size());
  tensor_core_products(contract, kAmpere, product.x, 3,
                       Weight::open(tensor, WeightPrecision::BF16).value(), value, radius);
  EXPECT_EQ(value, product.value);
  EXPECT_EQ(radius, product.radius);
}

}  // namespace
}  // namespace lockstep::reference
