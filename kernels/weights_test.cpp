// Laws of the weights' repacking.
#include "kernels/weights.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "kernels/test_weights.h"

namespace lockstep::kernels {
namespace {

using model::DType;

TEST(Weights, UnpackOfRepackIsTheFilesBytes) {
  base::Prng prng(1);
  for (const DType dtype : kWeightTypes) {
    const model::DTypeLayout& layout = model::layout(dtype);
    for (const std::uint32_t columns : column_counts(dtype)) {
      for (const std::uint32_t rows : {1u, 7u, 8u, 9u, 16u, 19u}) {
        std::vector<std::byte> file(std::size_t{rows} * columns / layout.block_elements *
                                    layout.block_bytes);
        for (std::byte& byte : file) byte = static_cast<std::byte>(prng.below(256));
        const std::vector<std::byte> packed = repack(dtype, rows, columns, file);
        ASSERT_EQ(packed.size(), weight_bytes(dtype, rows, columns));
        ASSERT_EQ(packed.size() % 16, 0u);
        ASSERT_EQ(unpack(dtype, rows, columns, packed), file)
            << layout.name << " " << rows << " x " << columns;
      }
    }
  }
}

TEST(Weights, WholeTilesTakeTheFilesSizeButForQ4K) {
  for (const DType dtype : kWeightTypes) {
    const model::DTypeLayout& layout = model::layout(dtype);
    const std::uint64_t file = 16 * 2048 / layout.block_elements * layout.block_bytes;
    EXPECT_EQ(weight_bytes(dtype, 16, 2048), dtype == DType::Q4_K ? file / 144 * 148 : file);
  }
}

TEST(Weights, OnlyTheListedTypesAreSupported) {
  int supported = 0;
  for (int tag = 0; tag <= static_cast<int>(DType::Q1_0); ++tag) {
    const DType dtype = static_cast<DType>(tag);
    const bool listed = std::ranges::count(kWeightTypes, dtype) != 0;
    EXPECT_EQ(weight_supported(dtype), listed) << model::name(dtype);
    supported += listed;
  }
  EXPECT_EQ(supported, 9);
}

// Every bit of a file has its own bit on the device: no two share one.
TEST(Weights, EachFileBitMovesOneDeviceBit) {
  for (const DType dtype : kWeightTypes) {
    const model::DTypeLayout& layout = model::layout(dtype);
    const std::uint32_t rows = 2, columns = layout.block_elements == 1 ? 6 : layout.block_elements;
    std::vector<std::byte> file(std::size_t{rows} * columns / layout.block_elements *
                                layout.block_bytes);
    const std::vector<std::byte> zero = repack(dtype, rows, columns, file);
    std::vector<int> hits(zero.size() * 8);
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      file[bit / 8] = static_cast<std::byte>(1 << bit % 8);
      const std::vector<std::byte> packed = repack(dtype, rows, columns, file);
      file[bit / 8] = std::byte{0};
      int changed = 0;
      for (std::size_t i = 0; i < packed.size(); ++i) {
        const auto difference = static_cast<unsigned>(packed[i] ^ zero[i]);
        for (int j = 0; j < 8; ++j) {
          if ((difference >> j & 1) == 0) continue;
          ++changed;
          ++hits[i * 8 + j];
        }
      }
      ASSERT_EQ(changed, 1) << layout.name << " bit " << bit;
    }
    EXPECT_LE(std::ranges::max(hits), 1) << layout.name;
  }
}

}  // namespace
}  // namespace lockstep::kernels
