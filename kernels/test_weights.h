// Weight matrices for the kernels' tests: random blocks of every type, their values by the formats'
// definitions (in double, exact, then rounded once to f32), uploads. Tests only.
#pragma once

#include <array>

#include "kernels/test_device.h"
#include "kernels/weights.h"

namespace lockstep::kernels {

inline constexpr std::array kWeightTypes = {
    model::DType::F32,  model::DType::F16,  model::DType::BF16,
    model::DType::Q4_0, model::DType::Q4_1, model::DType::Q5_0,
    model::DType::Q8_0, model::DType::Q4_K, model::DType::Q6_K};

struct TestWeights {
  model::DType dtype = model::DType::F32;
  std::uint32_t rows = 0, columns = 0;
  std::vector<std::byte> file;

  std::uint8_t* block(std::size_t index) {
    return reinterpret_cast<std::uint8_t*>(file.data()) + index * model::layout(dtype).block_bytes;
  }
  std::size_t block_count() const {
    return std::size_t{rows} * columns / model::layout(dtype).block_elements;
  }
};

inline double f16_at(const std::uint8_t* bytes) {
  return decode(model::DType::F16, static_cast<std::uint32_t>(bytes[0] | bytes[1] << 8));
}
inline void put_f16(std::uint8_t* bytes, double value) {
  const std::uint32_t bits = encode(model::DType::F16, round_to(model::DType::F16, value));
  bytes[0] = static_cast<std::uint8_t>(bits & 0xff);
  bytes[1] = static_cast<std::uint8_t>(bits >> 8);
}
// Offsets of the f16 scales in a block.
inline std::vector<std::uint32_t> scale_offsets(model::DType dtype) {
  if (dtype == model::DType::Q4_1 || dtype == model::DType::Q4_K) return {0, 2};
  if (dtype == model::DType::Q6_K) return {208};
  if (model::layout(dtype).block_elements == 1) return {};
  return {0};
}

// Values of one block by the format's definition.
inline std::vector<double> block_values(model::DType dtype, const std::uint8_t* block) {
  using model::DType;
  std::vector<double> values(model::layout(dtype).block_elements);
  const auto nibble = [](const std::uint8_t* q, int j, int half) {
    return half == 0 ? q[j] & 15 : q[j] >> 4;
  };
  if (dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, block, bytes_of(dtype));
    values[0] = decode(dtype, bits);
  } else if (dtype == DType::Q4_0 || dtype == DType::Q4_1) {
    const bool has_minimum = dtype == DType::Q4_1;
    for (int k = 0; k < 32; ++k) {
      const int q = nibble(block + (has_minimum ? 4 : 2), k % 16, k / 16);
      values[k] = has_minimum ? f16_at(block) * q + f16_at(block + 2) : f16_at(block) * (q - 8);
    }
  } else if (dtype == DType::Q5_0) {
    for (int k = 0; k < 32; ++k) {
      const int high = block[2 + k / 8] >> (k % 8) & 1;
      values[k] = f16_at(block) * (nibble(block + 6, k % 16, k / 16) + 16 * high - 16);
    }
  } else if (dtype == DType::Q8_0) {
    for (int k = 0; k < 32; ++k) {
      values[k] = f16_at(block) * static_cast<std::int8_t>(block[2 + k]);
    }
  } else if (dtype == DType::Q4_K) {
    const std::uint8_t* packed = block + 4;
    for (int k = 0; k < 256; ++k) {
      const int j = k / 32;  // 6-bit pairs: the last four are split over three places
      const int scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
      const int minimum = j < 4 ? packed[j + 4] & 63 : packed[j + 4] >> 4 | packed[j] >> 6 << 4;
      const int q = nibble(block + 16 + 32 * (k / 64), k % 32, k / 32 % 2);
      values[k] = f16_at(block) * scale * q - f16_at(block + 2) * minimum;
    }
  } else if (dtype == DType::Q6_K) {
    for (int k = 0; k < 256; ++k) {
      const int half = k / 128, quarter = k / 32 % 4, j = k % 32;
      const int low = nibble(block + 64 * half + 32 * (quarter % 2), j, quarter / 2);
      const int high = block[128 + 32 * half + j] >> (2 * quarter) & 3;
      const int scale = static_cast<std::int8_t>(block[192 + k / 16]);
      values[k] = f16_at(block + 208) * scale * (low + 16 * high - 32);
    }
  } else {
    LS_CHECK(false);
  }
  for (double& value : values) value = static_cast<float>(value);
  return values;
}

// [rows, columns], each fl32(exact block value).
inline std::vector<double> weight_values(TestWeights& weights) {
  std::vector<double> values;
  for (std::size_t b = 0; b < weights.block_count(); ++b) {
    const std::vector<double> block = block_values(weights.dtype, weights.block(b));
    values.insert(values.end(), block.begin(), block.end());
  }
  return values;
}

inline TestWeights random_weights(base::Prng& prng, model::DType dtype, std::uint32_t rows,
                                  std::uint32_t columns, double scale = 0.01) {
  TestWeights weights{dtype, rows, columns, {}};
  const model::DTypeLayout& layout = model::layout(dtype);
  LS_CHECK(columns % layout.block_elements == 0);
  weights.file.resize(std::size_t{rows} * columns / layout.block_elements * layout.block_bytes);
  if (layout.block_elements == 1) {
    weights.file = to_bytes(dtype, random_values(prng, dtype, std::size_t{rows} * columns, scale));
    return weights;
  }
  for (std::byte& byte : weights.file) byte = static_cast<std::byte>(prng.below(256));
  for (std::size_t b = 0; b < weights.block_count(); ++b) {
    for (const std::uint32_t at : scale_offsets(dtype)) {
      put_f16(weights.block(b) + at, scale * prng.normal());
    }
  }
  return weights;
}

// Small integers whatever the type: scales 1 (or sc = 1), codes random.
inline TestWeights integer_weights(base::Prng& prng, model::DType dtype, std::uint32_t rows,
                                   std::uint32_t columns) {
  TestWeights weights = random_weights(prng, dtype, rows, columns);
  if (model::layout(dtype).block_elements == 1) {
    std::vector<double> values(std::size_t{rows} * columns);
    for (double& value : values) value = static_cast<double>(prng.below(31)) - 15;
    weights.file = to_bytes(dtype, values);
    return weights;
  }
  for (std::size_t b = 0; b < weights.block_count(); ++b) {
    std::uint8_t* block = weights.block(b);
    for (const std::uint32_t at : scale_offsets(dtype)) put_f16(block + at, 1);
    if (dtype == model::DType::Q4_1) put_f16(block + 2, -7);
    if (dtype == model::DType::Q4_K) std::fill_n(block + 4, 12, std::uint8_t{0x01});
    if (dtype == model::DType::Q6_K) std::fill_n(block + 192, 16, std::uint8_t{1});
  }
  return weights;
}

// Uploaded, repacked.
struct UploadedWeights {
  device::Buffer buffer;
  DeviceWeight weight;
};
inline UploadedWeights upload(TestDevice& device, const TestWeights& weights) {
  UploadedWeights result;
  result.buffer = device.upload(repack(weights.dtype, weights.rows, weights.columns, weights.file));
  result.weight = {weights.dtype, weights.rows, weights.columns, result.buffer.address()};
  return result;
}

// Numbers of columns that this type allows: parts of a tile's chunk (128), tails, several chunks.
inline std::vector<std::uint32_t> column_counts(model::DType dtype) {
  const std::uint32_t block = model::layout(dtype).block_elements;
  if (block == 256) return {256, 512, 1280, 2048};
  if (block == 32) return {32, 96, 128, 160, 576, 640, 1056, 2048};
  return {1, 3, 4, 31, 64, 100, 130, 136, 576, 640, 1027, 2048};
}

}  // namespace lockstep::kernels
