// Two generations of one engine: their tensor cores sum differently, both are right, and neither
// passes for the other.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "harness/subjects/engine_subject.h"
#include "property_tests/random_run.h"

namespace lockstep::property_tests {
namespace {

using RowKey = std::tuple<trace::RequestId, trace::Position, trace::LayerIndex, trace::TapPoint>;

// A batch with prompts that fill several blocks of the tensor cores' sums.
RandomRun prompts(const std::string& model_name, const std::string& device) {
  RandomRun run;
  run.scenario.model = model_name;
  run.scenario.device = device;
  run.options.device.host_threads = 1;
  run.options.further_runs = false;
  const std::uint32_t vocab_size = open(run).config.vocab_size;
  for (const std::uint32_t length : {21u, 9u}) {
    trace::RequestSpec request;
    request.max_tokens = 3;
    for (std::uint32_t i = 0; i < length; ++i) {
      request.prompt.push_back((i * i * 7 + i + length) % vocab_size);
    }
    run.scenario.requests.push_back(request);
  }
  return run;
}

std::map<RowKey, base::Hash128> rows_of(const RandomRun& run) {
  std::map<RowKey, base::Hash128> rows;
  const base::Status status = harness::run_engine(
      open(run), run.scenario, {true, run.options.device}, [&](const trace::Event& event) {
        if (const auto* row = std::get_if<trace::RowHashed>(&event)) {
          rows[{row->row.request, row->row.position, row->layer, row->point}] = row->hash;
        }
      });
  EXPECT_TRUE(status.ok()) << status.error().message();
  return rows;
}

std::set<std::string> laws_with_findings(const harness::RunOutcome& outcome) {
  std::set<std::string> laws;
  for (const oracles::Verdict& verdict : outcome.verdicts) {
    if (!verdict.findings.empty()) laws.insert(verdict.law);
  }
  return laws;
}

class Generations : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Generations, testing::Values("tiny:llama:5", "tiny:gemma3:5:Q4_K"),
                         [](const auto& each) { return "Number" + std::to_string(each.index); });

TEST_P(Generations, RowsOfPromptsDifferInTheirBits) {
  const RandomRun ampere = prompts(GetParam(), "vgpu:sm_80");
  const RandomRun hopper = prompts(GetParam(), "vgpu:sm_90");
  const auto a = rows_of(ampere), h = rows_of(hopper);
  ASSERT_EQ(a.size(), h.size());
  std::size_t of_first_product = 0, different = 0;
  for (const auto& [key, hash] : a) {
    ASSERT_TRUE(h.contains(key));
    const auto& [request, position, layer, point] = key;
    const bool in_prompt = position < ampere.scenario.requests[request.value].prompt.size();
    // What comes before any tensor core has the same bits.
    if (layer.value == 0 && in_prompt &&
        (point == trace::TapPoint::Embed || point == trace::TapPoint::AttnNorm)) {
      EXPECT_EQ(hash, h.at(key)) << "position " << position;
    }
    if (layer.value == 0 && in_prompt && point == trace::TapPoint::QRaw) {
      ++of_first_product;
      different += hash != h.at(key);
    }
  }
  EXPECT_EQ(of_first_product, 30u);
  EXPECT_GT(different, 0u);
}

TEST_P(Generations, EachPassesAsItselfAndFailsExactlyTheReplayAsTheOther) {
  for (const char* device : {"vgpu:sm_80", "vgpu:sm_90"}) {
    RandomRun run = prompts(GetParam(), device);
    const model::Model model = open(run);
    const auto as_itself = harness::run(model, run.scenario, run.options);
    ASSERT_TRUE(as_itself.ok()) << as_itself.error().message();
    EXPECT_EQ(findings(*as_itself), "") << device;

    const bool is_ampere = run.scenario.device == "vgpu:sm_80";
    const auto other = harness::device_info(is_ampere ? "vgpu:sm_90" : "vgpu:sm_80");
    ASSERT_TRUE(other.ok()) << other.error().message();
    run.options.judged_as = *other;
    const auto as_other = harness::run(model, run.scenario, run.options);
    ASSERT_TRUE(as_other.ok()) << as_other.error().message();
    EXPECT_EQ(laws_with_findings(*as_other), std::set<std::string>{"mma_replay"})
        << device << "\n"
        << findings(*as_other);
  }
}

}  // namespace
}  // namespace lockstep::property_tests
