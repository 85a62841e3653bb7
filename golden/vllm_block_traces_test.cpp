// Our block manager beside vLLM's: operations that vLLM's KVCacheManager was recorded at
// (golden/vllm_block_traces/README.md) come out of ours to the block id.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/commands/vectors_block_traces.h"
#include "harness/commands/vectors_record.h"

namespace lockstep::golden {
namespace {

using harness::VectorReport;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kFiles[] = {"full_s1_b24", "full_s2_b40", "swa_s1_b24"};

json document_of(const std::string& name) {
  const std::string path = LOCKSTEP_GOLDEN_DIR "/vllm_block_traces/" + name + ".json.gz";
  const auto text = harness::read_vector_text(path, {});
  EXPECT_TRUE(text.ok()) << text.error().message();
  return json::parse(*text);
}

TEST(VllmBlockTraces, EveryRecordedHitRefusalBlockAndFreeCountComesOut) {
  for (const char* name : kFiles) {
    VectorReport report;
    const auto status = harness::check_block_trace(document_of(name), {}, report);
    ASSERT_TRUE(status.ok()) << status.error().message();
    EXPECT_GT(report.checked, 2500u) << name;
    EXPECT_EQ(report.mismatches, 0u) << name;
    for (const harness::VectorMismatch& mismatch : report.first) {
      ADD_FAILURE() << name << ", " << mismatch.where << ": want " << mismatch.want << ", got "
                    << mismatch.got;
    }
    EXPECT_THAT(report.note, HasSubstr("by the engine's own queue")) << name;
  }
}

TEST(VllmBlockTraces, AChangedRecordIsNoticed) {
  const json original = document_of("swa_s1_b24");
  for (const char* field : {"free", "hit_tokens", "blocks"}) {
    json changed = original;
    for (json& entry : changed["ops"]) {
      if (entry["op"] != "new" || !entry["ok"].get<bool>()) continue;
      if (std::string(field) == "blocks") {
        std::swap(entry["blocks"][0][0], entry["blocks"][0].back());
        if (entry["blocks"][0].size() < 2) continue;
      } else {
        entry[field] = entry[field].get<std::uint32_t>() + 4;
      }
      break;
    }
    VectorReport report;
    ASSERT_TRUE(harness::check_block_trace(changed, {}, report).ok());
    EXPECT_EQ(report.mismatches, 1u) << field;
  }
}

TEST(VllmBlockTraces, AFileThatBreaksTheFormatIsAnErrorThatNamesTheOperation) {
  const json original = document_of("full_s1_b24");
  const auto error_of = [](const json& document) {
    VectorReport report;
    report.path = "trace.json";
    const auto status = harness::check_block_trace(document, {}, report);
    return status.ok() ? std::string() : status.error().message();
  };
  json changed = original;
  changed["ops"][4]["id"] = "nobody";
  EXPECT_THAT(error_of(changed), HasSubstr("/ops/4: id nobody is not live"));
  changed = original;
  changed["ops"][0]["blocks"][0][0] = 24;
  EXPECT_THAT(error_of(changed), HasSubstr("/ops/0: a block id must be below num_blocks"));
  changed = original;
  changed["ops"][1]["tokens"] = json::array();
  EXPECT_THAT(error_of(changed), HasSubstr("/ops/1: tokens"));
  changed = original;
  changed["kind"] = "ring";
  EXPECT_THAT(error_of(changed), HasSubstr("kind"));
  changed = original;
  changed.erase("block_size");
  EXPECT_THAT(error_of(changed), HasSubstr("block_size"));
}

}  // namespace
}  // namespace lockstep::golden
