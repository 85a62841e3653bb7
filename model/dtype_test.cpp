// The table of number formats leads back from each of its keys.
#include "model/dtype.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::model {
namespace {

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i <= static_cast<int>(DType::Q1_0); ++i) all.push_back(static_cast<DType>(i));
  return all;
}

TEST(DType, NamesAndFileTagsLeadBack) {
  for (const DType dtype : all_dtypes()) {
    const DTypeLayout& facts = layout(dtype);
    EXPECT_EQ(facts.dtype, dtype);
    EXPECT_EQ(dtype_from_name(facts.name), dtype);
    if (facts.gguf_type) {
      EXPECT_EQ(dtype_from_gguf(*facts.gguf_type), dtype);
    }
    if (facts.safetensors_type) {
      EXPECT_EQ(dtype_from_safetensors(*facts.safetensors_type), dtype);
    }
    EXPECT_TRUE(facts.gguf_type || facts.safetensors_type) << facts.name;
  }
  EXPECT_FALSE(dtype_from_gguf(4));  // Q4_2, which ggml removed
  EXPECT_FALSE(dtype_from_gguf(~0u));
  EXPECT_FALSE(dtype_from_safetensors("F4"));
}

TEST(DType, StorageBytesRefusesPartOfABlockAndOverflow) {
  EXPECT_EQ(storage_bytes(DType::Q4_K, 512), 288u);
  EXPECT_FALSE(storage_bytes(DType::Q4_K, 255));
  EXPECT_EQ(storage_bytes(DType::F64, (~std::uint64_t{0}) / 8), ~std::uint64_t{0} - 7);
  EXPECT_FALSE(storage_bytes(DType::F64, std::uint64_t{1} << 61));
}

}  // namespace
}  // namespace lockstep::model
