// The chained reference against third parties' float64 results (golden/).
#include "reference/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/tiny.h"
#include "reference/golden_records_test.h"

namespace lockstep::reference {
namespace {

using trace::TapPoint;
using trace::TokenId;

std::vector<TokenId> tokens_of(const nlohmann::json& array) {
  return array.get<std::vector<TokenId>>();
}

// Largest difference, relative to the largest value of `want` (at least 1).
double distance(std::span<const double> got, std::span<const double> want) {
  EXPECT_EQ(got.size(), want.size());
  double scale = 1, worst = 0;
  for (const double x : want) scale = std::max(scale, std::fabs(x));
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    worst = std::max(worst, std::fabs(got[i] - want[i]));
  }
  return worst / scale;
}

// The records were made in float64 by another program, whose own rounding is below 1e-13
// (its cached and recomputed logits differ by that); 1e-10 is the records' stated accuracy.
constexpr double kRecordAccuracy = 1e-10;

struct TinySet {
  std::string folder;      // under golden/
  std::string model_file;  // in it; empty: the folder itself is the model
  WeightPrecision weights;
};

void PrintTo(const TinySet& set, std::ostream* out) { *out << set.folder; }

class TinyModels : public testing::TestWithParam<TinySet> {
 protected:
  void SetUp() override {
    const std::string folder = golden::path(GetParam().folder);
    auto loaded =
        model::load(GetParam().model_file.empty() ? folder : folder + "/" + GetParam().model_file);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    model_ = std::make_unique<model::Model>(std::move(loaded).value());
    record_ = golden::json(GetParam().folder + "/ref.json");
  }
  Session session(int threads = 0) {
    auto opened = Session::open(*model_, {GetParam().weights, {}, threads});
    LS_CHECK(opened.ok(), opened.error().message());
    return std::move(opened).value();
  }
  std::unique_ptr<model::Model> model_;
  nlohmann::json record_;
};

TEST_P(TinyModels, LogitsEqualTheRecordsFloat64) {
  const golden::Tensors tensors(GetParam().folder + "/ref.safetensors");
  for (const std::string name : {"s1", "s17", "s64"}) {
    const auto tokens = tokens_of(record_["sequences"][name]);
    const ForwardResult result = session().append(tokens);
    std::vector<double> rows;
    for (const std::size_t position : record_["positions"][name]) {
      const auto row = result.logits.row(position);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const double off = distance(rows, tensors.values(name + ".logits"));
    EXPECT_LE(off, kRecordAccuracy) << name;
    RecordProperty(name, std::to_string(off));
  }
}

TEST_P(TinyModels, HiddenStatesEqualTheRecordsFloat64) {
  const golden::Tensors tensors(GetParam().folder + "/ref.safetensors");
  const auto tokens = tokens_of(record_["sequences"]["s17"]);
  const ForwardResult result = session().append(
      tokens, {tokens.size(), {TapPoint::ResidOut, TapPoint::AttnO, TapPoint::FfnDown}});
  std::size_t compared = 0;
  for (const auto& [source, matrix] : result.kept) {
    std::string name = "s17.layer." + std::to_string(source.layer) + ".";
    if (source.point == TapPoint::ResidOut) name += "out";
    if (source.point == TapPoint::AttnO) name += "self_attn";
    if (source.point == TapPoint::FfnDown) name += "mlp";
    if (!tensors.has(name)) continue;
    EXPECT_LE(distance(matrix.values, tensors.values(name)), kRecordAccuracy) << name;
    ++compared;
  }
  EXPECT_GE(compared, std::size_t{model_->config.layer_count});
}

TEST_P(TinyModels, GreedyContinuationIsTheRecords) {
  const auto prompt = tokens_of(record_["sequences"]["s17"]);
  const auto want = tokens_of(record_["greedy"]["tokens"]);
  EXPECT_EQ(session().greedy(prompt, want.size()), want);
}

TEST_P(TinyModels, CutSequencesAndThreadsGiveTheSameBits) {
  const auto tokens = tokens_of(record_["sequences"]["s64"]);
  const ForwardResult whole = session(1).append(tokens);
  Session cut = session(2);
  std::vector<double> rows;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t count = std::min<std::size_t>(tokens.size() - at, 1 + at % 7);
    const ForwardResult part = cut.append(std::span(tokens).subspan(at, count));
    rows.insert(rows.end(), part.logits.values.begin(), part.logits.values.end());
    at += count;
  }
  EXPECT_EQ(rows, whole.logits.values);
}

INSTANTIATE_TEST_SUITE_P(
    Golden, TinyModels,
    testing::Values(TinySet{"tiny_models/llama", "", WeightPrecision::Exact},
                    TinySet{"tiny_models/gemma3_text", "", WeightPrecision::Exact},
                    TinySet{"tiny_gguf/llama_kquants", "model.gguf", WeightPrecision::F32},
                    TinySet{"tiny_gguf/gemma3_legacy", "model.gguf", WeightPrecision::F32}),
    [](const auto& set) {
      std::string name = set.param.folder;
      std::replace(name.begin(), name.end(), '/', '_');
      return name;
    });

TEST(Session, TruncatedSequenceContinuesAsIfTheRestHadNotBeen) {
  const model::Model model = model::make_tiny({model::Arch::Gemma3, 7});
  const std::vector<TokenId> tokens = {1, 5, 9, 3, 2, 8};
  auto whole = Session::open(model);
  auto cut = Session::open(model);
  ASSERT_TRUE(whole.ok() && cut.ok());
  const ForwardResult want = whole->append(tokens);
  cut->append(std::vector<TokenId>{1, 5, 9, 7, 7});
  cut->truncate(3);
  const ForwardResult got = cut->append(std::span(tokens).subspan(3));
  const std::size_t skip = 3 * want.logits.columns;
  EXPECT_EQ(got.logits.values,
            std::vector<double>(want.logits.values.begin() + static_cast<std::ptrdiff_t>(skip),
                                want.logits.values.end()));
}

// Repeating float32 roundings moves logits by about their size; 16-bit ones by more.
TEST(Session, DeclaredRoundingsAreAYardstickOfTheirFormats) {
  const model::Model model = model::make_tiny({model::Arch::Llama, 3});
  const std::vector<TokenId> tokens = {1, 5, 9, 3, 2, 8, 4, 4, 6, 1};
  auto pure = Session::open(model);
  ASSERT_TRUE(pure.ok());
  const ForwardResult exact = pure->append(tokens);
  double last = 0;
  for (const model::DType format : {model::DType::F32, model::DType::F16, model::DType::BF16}) {
    DeclaredRoundings declared;
    declared.operand_format = format == model::DType::F32 ? model::DType::F16 : format;
    declared.probability_format = declared.operand_format;
    declared.cell_format = format;
    declared.decode_from = format == model::DType::F32 ? 0 : 6;
    auto session = Session::open(model, {WeightPrecision::Exact, declared, 0});
    ASSERT_TRUE(session.ok());
    const ForwardResult result = session->append(tokens);
    ASSERT_EQ(result.logits.rows, exact.logits.rows);
    const double off = distance(result.logits.values, exact.logits.values);
    EXPECT_GT(off, 2 * last);
    last = off;
  }
}

struct RealSet {
  std::string folder, file;
};

// One prompt of a record, teacher-forced over `count` of its tokens.
void compare_with_record(const RealSet& set, const std::string& prompt, std::size_t count) {
  const std::string path = golden::cached_model(set.file);
  if (path.empty()) GTEST_SKIP() << set.file << " is not in the cache";
  auto model = model::load(path);
  ASSERT_TRUE(model.ok()) << model.error().message();
  const nlohmann::json record = golden::json(set.folder + "/" + prompt + ".json");
  const nlohmann::json truth = golden::json(set.folder + "/" + prompt + ".f64.json");
  std::vector<TokenId> tokens = tokens_of(record["prompt_ids"]);
  const std::size_t first = tokens.size() - 1;
  const auto output = tokens_of(record["output_ids"]);
  tokens.insert(tokens.end(), output.begin(),
                output.begin() + static_cast<std::ptrdiff_t>(count - 1));
  auto session = Session::open(*model, {WeightPrecision::F32});
  ASSERT_TRUE(session.ok()) << session.error().message();
  const ForwardResult result = session->append(tokens, {first});
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto ids = tokens_of(truth["top20_ids"][i]);
    const auto row = result.logits.row(i);
    std::vector<double> got;
    for (const TokenId id : ids) got.push_back(row[id]);
    worst = std::max(worst, distance(got, truth["top20_logits"][i].get<std::vector<double>>()));
    double sum = 0;
    const double highest = *std::max_element(row.begin(), row.end());
    for (const double logit : row) sum += std::exp(logit - highest);
    const double log_sum = highest + std::log(sum);
    worst = std::max(worst, distance(std::span(&log_sum, 1),
                                     std::vector<double>{truth["logsumexp"][i].get<double>()}));
  }
  EXPECT_LE(worst, kRecordAccuracy);
  std::printf("%s %s: largest relative difference %.3g\n", set.folder.c_str(), prompt.c_str(),
              worst);
}

const RealSet kGemma = {"gemma3_270m_llama_cpp", "gemma-3-270m-q4_k_m.gguf"};
const RealSet kSmolLm = {"smollm2_135m_llama_cpp", "SmolLM2-135M-Instruct.Q4_1.gguf"};

TEST(RealModels, GemmaLogitsEqualTheRecord) { compare_with_record(kGemma, "english", 8); }
TEST(RealModels, SmolLmLogitsEqualTheRecord) { compare_with_record(kSmolLm, "english", 8); }
TEST(SlowRealModels, GemmaEnglish) { compare_with_record(kGemma, "english", 64); }
TEST(SlowRealModels, GemmaChinese) { compare_with_record(kGemma, "chinese", 64); }
TEST(SlowRealModels, GemmaNumbers) { compare_with_record(kGemma, "numbers", 64); }
TEST(SlowRealModels, GemmaLong) { compare_with_record(kGemma, "long", 64); }
TEST(SlowRealModels, SmolLmEnglish) { compare_with_record(kSmolLm, "english", 64); }
TEST(SlowRealModels, SmolLmChinese) { compare_with_record(kSmolLm, "chinese", 64); }
TEST(SlowRealModels, SmolLmNumbers) { compare_with_record(kSmolLm, "numbers", 64); }
TEST(SlowRealModels, SmolLmLong) { compare_with_record(kSmolLm, "long", 64); }

TEST(RealModels, GemmaResidualStreamEqualsTheRecordAfterEachLayer) {
  const std::string path = golden::cached_model(kGemma.file);
  if (path.empty()) GTEST_SKIP() << kGemma.file << " is not in the cache";
  auto model = model::load(path);
  ASSERT_TRUE(model.ok()) << model.error().message();
  const golden::Tensors tensors(kGemma.folder + "/english.layers.safetensors");
  const auto tokens = tokens_of(golden::json(kGemma.folder + "/english.json")["prompt_ids"]);
  auto session = Session::open(*model, {WeightPrecision::F32});
  ASSERT_TRUE(session.ok()) << session.error().message();
  const ForwardResult result = session->append(tokens, {tokens.size(), {TapPoint::ResidOut}});
  ASSERT_EQ(result.kept.size(), model->config.layer_count);
  for (const auto& [source, matrix] : result.kept) {
    const std::string name = "f64.layer." + std::to_string(source.layer) + ".";
    EXPECT_LE(distance(matrix.row(0), tensors.values(name + "first")), kRecordAccuracy) << name;
    EXPECT_LE(distance(matrix.row(matrix.rows - 1), tensors.values(name + "last")), kRecordAccuracy)
        << name;
  }
}

}  // namespace
}  // namespace lockstep::reference
