// Laws of embed_rows, and by it of the weight decoders: exact values of every code, third-party
// vectors bit for bit.
#include "kernels/embed_rows.h"

#include <fstream>
#include <iterator>
#include <numeric>

#include "kernels/test_weights.h"
#include "model/safetensors.h"

namespace lockstep::kernels {
namespace {

using model::DType;

class EmbedRows : public EachGeneration {};
INSTANTIATE_TEST_SUITE_P(Generations, EmbedRows, generations(), generation_name);

std::vector<double> run(TestDevice& device, const TestWeights& table,
                        const std::vector<std::uint32_t>& tokens, float scale) {
  const UploadedWeights uploaded = upload(device, table);
  const device::Buffer ids = device.upload_integers(tokens);
  const device::Buffer out = device.allocate(tokens.size() * table.columns * 4);
  const EmbedRowsArgs args{uploaded.weight, ids.address(), out.address(),
                           static_cast<std::uint32_t>(tokens.size()), scale};
  device.expect_clean(launch_embed_rows(device.context(), args));
  return device.download(DType::F32, out);
}

std::vector<std::uint32_t> all_tokens(const TestWeights& table) {
  std::vector<std::uint32_t> tokens(table.rows);
  std::iota(tokens.begin(), tokens.end(), 0u);
  return tokens;
}

// Bits, but for a zero's sign; any NaN equals any other.
void expect_equal(const std::vector<double>& got, const std::vector<double>& want,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  int shown = 0;
  for (std::size_t i = 0; i < got.size() && shown < 3; ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    ++shown;
    ADD_FAILURE() << what << " [" << i << "]: got " << got[i] << ", want " << want[i];
  }
}

TEST_P(EmbedRows, EqualsThirdPartyVectorsBitForBit) {
  TestDevice device(GetParam());
  const std::string path = LOCKSTEP_GOLDEN_DIR "/gguf_dequant/vectors.safetensors";
  std::ifstream stream(path, std::ios::binary);
  ASSERT_TRUE(stream) << path;
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto file = model::read_safetensors(std::as_bytes(std::span(text)), path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  int compared = 0;
  for (const DType dtype : kWeightTypes) {
    for (const std::string set : {".q", ".rand"}) {
      const std::string name = std::string(model::name(dtype)) + set;
      const model::TensorInfo* raw = file->tensors.find(name + ".raw");
      const model::TensorInfo* want = file->tensors.find(name + ".deq");
      if (raw == nullptr) continue;
      ASSERT_NE(want, nullptr) << name;
      TestWeights table{dtype,
                        static_cast<std::uint32_t>(want->elements() / 512),
                        512,
                        {raw->data.begin(), raw->data.end()}};
      expect_equal(run(device, table, all_tokens(table), 1), from_bytes(DType::F32, want->data),
                   name);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 14);
}

// Every code of a block's type, at every place, under each scale.
TEST_P(EmbedRows, DecodesEveryCodeUnderEveryScaleExactly) {
  TestDevice device(GetParam());
  const double scales[] = {0,       1,     -1,     0x1p-24, 1023 * 0x1p-24,
                           0x1p-14, 65504, -65504, 1.0 / 3, 2047 * 0x1p-24};
  for (const DType dtype : kWeightTypes) {
    if (model::layout(dtype).block_elements == 1) continue;
    const bool with_second = scale_offsets(dtype).size() == 2;
    const std::uint32_t columns = std::max(512u, model::layout(dtype).block_elements);
    base::Prng prng(2);
    TestWeights table =
        random_weights(prng, dtype, static_cast<std::uint32_t>(std::size(scales)), columns);
    const std::size_t blocks = table.block_count() / table.rows;
    for (std::uint32_t row = 0; row < table.rows; ++row) {
      for (std::size_t b = 0; b < blocks; ++b) {
        std::uint8_t* block = table.block(row * blocks + b);
        // Bytes count up from block to block, so that every nibble and byte value comes up at
        // every place of 16 or 256 blocks; the scales' bytes are written over.
        for (std::uint32_t i = 0; i < model::layout(dtype).block_bytes; ++i) {
          block[i] = static_cast<std::uint8_t>(17 * (b + row) + 3 * i + prng.below(2));
        }
        put_f16(block + scale_offsets(dtype)[0], scales[row]);
        if (with_second) put_f16(block + 2, scales[(row + b) % std::size(scales)]);
      }
    }
    expect_equal(run(device, table, all_tokens(table), 1), weight_values(table),
                 std::string(model::name(dtype)));
  }
}

TEST_P(EmbedRows, RoundsTheScaledWeightOnce) {
  TestDevice device(GetParam());
  base::Prng prng(3);
  const float scale = std::sqrt(640.0f);
  for (const DType dtype : kWeightTypes) {
    for (const std::uint32_t columns : column_counts(dtype)) {
      TestWeights table = random_weights(prng, dtype, 19, columns);
      const std::vector<double> values = weight_values(table);
      // Not in order, one twice.
      const std::vector<std::uint32_t> tokens = {18, 0, 7, 8, 7, 1};
      std::vector<double> want;
      for (const std::uint32_t token : tokens) {
        for (std::uint32_t k = 0; k < columns; ++k) {
          want.push_back(static_cast<float>(values[token * columns + k] * double{scale}));
        }
      }
      expect_equal(run(device, table, tokens, scale), want,
                   std::string(model::name(dtype)) + " " + std::to_string(columns));
    }
  }
}

TEST(EmbedRowsLaunch, RefusesATypeThatNoKernelDecodes) {
  TestDevice device("vgpu:sm_80");
  EmbedRowsArgs args;
  args.table = {DType::IQ2_S, 8, 256, 256};
  const base::Status status = launch_embed_rows(device.context(), args);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, base::ErrorKind::Unsupported);
}

}  // namespace
}  // namespace lockstep::kernels
