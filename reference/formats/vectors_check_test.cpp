// Decoders against ggml's expansions.
#include "reference/formats/vectors_check.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::reference {
namespace {

TEST(BlockDecoders, RoundedOnceToFloat32AreGgmlsBits) {
  const auto report =
      check_dequant_vectors(LOCKSTEP_GOLDEN_DIR "/gguf_dequant/vectors.safetensors");
  ASSERT_TRUE(report) << report.error().message();
  std::set<std::string> unsupported;
  std::uint64_t checked = 0;
  for (const DequantTypeReport& type : report->types) {
    if (!type.supported) unsupported.insert(type.type);
    EXPECT_EQ(type.mismatches, 0u) << type.type;
    EXPECT_TRUE(!type.supported || type.checked >= 1536) << type.type;
    checked += type.checked;
  }
  EXPECT_EQ(report->types.size(), 26u);
  EXPECT_EQ(unsupported, (std::set<std::string>{"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S",
                                                "IQ3_XXS", "IQ3_S", "Q1_0"}));
  EXPECT_EQ(report->checked, checked);
  EXPECT_EQ(report->mismatches, 0u);
  for (const DequantMismatch& mismatch : report->first) {
    ADD_FAILURE() << mismatch.set << "[" << mismatch.element << "] want " << std::hex
                  << mismatch.want_bits << " got " << mismatch.got_bits;
  }
}

TEST(BlockDecoders, MissingFileIsAnError) {
  EXPECT_FALSE(check_dequant_vectors(LOCKSTEP_GOLDEN_DIR "/gguf_dequant/no_such_file"));
}

}  // namespace
}  // namespace lockstep::reference
