#include "model/model.h"

#include <gtest/gtest.h>

#include "model/tiny.h"

namespace lockstep::model {
namespace {

const std::string kGolden = LOCKSTEP_GOLDEN_DIR;

TEST(Load, ReadsEveryGoldenModel) {
  for (const char* path :
       {"/tiny_models/llama", "/tiny_models/gemma3_text", "/tiny_gguf/gemma3_legacy/model.gguf",
        "/tiny_gguf/llama_kquants/model.gguf"}) {
    auto model = load(kGolden + path);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_NE(model->weight(WeightRole::Query, 1), nullptr);
    std::printf("%s\n", model->display_name.c_str());
  }
}

}  // namespace
}  // namespace lockstep::model
