// The engine beside llama.cpp: fed with the tokens that llama.cpp generated, it picks llama.cpp's
// token wherever the float64 record's top two logits are more than 0.5 apart (all differences of
// llama.cpp from float64 in the records have a margin below 0.24).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "harness/subjects/engine_subject.h"
#include "model/model.h"
#include "reference/golden_records_test.h"

namespace lockstep::golden {
namespace {

namespace records = reference::golden;

constexpr double kDecidedMargin = 0.5;

struct Record {
  const char* folder;
  const char* model;  // in the cache
  const char* prompt;
  std::uint32_t tokens;  // of the record's 64
};

// The engine's choices on vgpu:sm_90 while it is fed a record's tokens. Device checks are off:
// other tests have them on.
base::Result<std::vector<trace::TokenId>> choices(const model::Model& model,
                                                  const nlohmann::json& record,
                                                  std::uint32_t tokens) {
  trace::Scenario scenario;
  scenario.device = "vgpu:sm_90";
  trace::RequestSpec request;
  request.prompt = record.at("prompt_ids").get<std::vector<trace::TokenId>>();
  request.forced = record.at("output_ids").get<std::vector<trace::TokenId>>();
  request.forced.resize(tokens);
  request.max_tokens = tokens;
  scenario.requests.push_back(std::move(request));
  harness::SubjectOptions options;
  options.taps = false;
  options.device.memcheck = options.device.initcheck = false;
  options.device.racecheck = options.device.synccheck = false;
  std::vector<trace::TokenId> picked;
  LS_TRY(harness::run_engine(model, scenario, options, [&](const trace::Event& event) {
    if (const auto* sampled = std::get_if<trace::TokenSampled>(&event)) {
      picked.push_back(sampled->argmax);
    }
  }));
  return picked;
}

void expect_llama_cpp_tokens(const Record& which) {
  const std::string file = records::cached_model(which.model);
  if (file.empty()) GTEST_SKIP() << which.model << " is not in the cache (./lockstep run gets it)";
  const auto model = model::load(file);
  ASSERT_TRUE(model.ok()) << model.error().message();
  const std::string stem = std::string(which.folder) + "/" + which.prompt;
  const nlohmann::json record = records::json(stem + ".json");
  const nlohmann::json float64 = records::json(stem + ".f64.json");
  const auto outputs = record.at("output_ids").get<std::vector<trace::TokenId>>();
  ASSERT_GE(outputs.size(), which.tokens);
  const auto run = choices(*model, record, which.tokens);
  ASSERT_TRUE(run.ok()) << run.error().message();
  const std::vector<trace::TokenId>& picked = *run;
  ASSERT_EQ(picked.size(), which.tokens);
  std::uint32_t decided = 0, differing = 0;
  for (std::uint32_t i = 0; i < which.tokens; ++i) {
    const auto top = float64.at("top20_logits").at(i).get<std::vector<double>>();
    const double margin = top.at(0) - top.at(1);
    if (picked[i] != outputs[i]) ++differing;
    if (margin <= kDecidedMargin) continue;
    ++decided;
    EXPECT_EQ(picked[i], outputs[i]) << which.prompt << ", token " << i << ", margin " << margin;
  }
  std::printf("%s: %u tokens, %u with a margin over 0.5, %u unlike llama.cpp's\n", stem.c_str(),
              which.tokens, decided, differing);
  EXPECT_GT(decided, 0u);
}

std::string record_name(const testing::TestParamInfo<Record>& info) {
  const bool gemma = std::string(info.param.folder).starts_with("gemma");
  return std::string(gemma ? "gemma3_" : "smollm2_") + info.param.prompt;
}

class LlamaCpp : public testing::TestWithParam<Record> {};
TEST_P(LlamaCpp, TheEngineTakesTheSameTokenWhereTheMarginDecides) {
  expect_llama_cpp_tokens(GetParam());
}

constexpr const char* kGemma = "gemma3_270m_llama_cpp";
constexpr const char* kGemmaFile = "gemma-3-270m-q4_k_m.gguf";
constexpr const char* kSmol = "smollm2_135m_llama_cpp";
constexpr const char* kSmolFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

INSTANTIATE_TEST_SUITE_P(Short, LlamaCpp,
                         testing::Values(Record{kGemma, kGemmaFile, "english", 16}), record_name);
INSTANTIATE_TEST_SUITE_P(SlowWhole, LlamaCpp,
                         testing::Values(Record{kGemma, kGemmaFile, "english", 64},
                                         Record{kGemma, kGemmaFile, "chinese", 64},
                                         Record{kGemma, kGemmaFile, "long", 64},
                                         Record{kGemma, kGemmaFile, "numbers", 64},
                                         Record{kSmol, kSmolFile, "english", 64},
                                         Record{kSmol, kSmolFile, "chinese", 64},
                                         Record{kSmol, kSmolFile, "long", 64},
                                         Record{kSmol, kSmolFile, "numbers", 64}),
                         record_name);

}  // namespace
}  // namespace lockstep::golden
