// Which formats have a decoder, and rows of tensors.
#include "reference/formats/decoder.h"

#include <array>
#include <string>

#include "reference/formats/block_functions.h"

namespace lockstep::reference {
namespace {

struct FormatFacts {
  model::DType dtype;
  std::uint32_t block_elements, block_bytes;
  bool exact_in_f32;  // see decoder.h: false where a minimum is added
};

constexpr std::array<FormatFacts, 19> kFormats = {{
    {model::DType::F32, 1, 4, true},
    {model::DType::F16, 1, 2, true},
    {model::DType::BF16, 1, 2, true},
    {model::DType::Q4_0, 32, 18, true},
    {model::DType::Q4_1, 32, 20, false},
    {model::DType::Q5_0, 32, 22, true},
    {model::DType::Q5_1, 32, 24, false},
    {model::DType::Q8_0, 32, 34, true},
    {model::DType::Q2_K, 256, 84, false},
    {model::DType::Q3_K, 256, 110, true},
    {model::DType::Q4_K, 256, 144, false},
    {model::DType::Q5_K, 256, 176, false},
    {model::DType::Q6_K, 256, 210, true},
    {model::DType::IQ4_NL, 32, 18, true},
    {model::DType::IQ4_XS, 256, 136, true},
    {model::DType::TQ1_0, 256, 54, true},
    {model::DType::TQ2_0, 256, 66, true},
    // Not exact: scales above 2^125 leave float32's range (6 * 2^127).
    {model::DType::MXFP4, 32, 17, false},
    {model::DType::NVFP4, 64, 36, true},
}};

}  // namespace

void Decoder::row(const model::TensorInfo& tensor, std::uint64_t index,
                  std::span<double> out) const {
  LS_CHECK(tensor.dtype == dtype && index < tensor.rows() && out.size() == tensor.columns());
  LS_CHECK(out.size() % block_elements == 0);
  const std::size_t block_count = out.size() / block_elements;
  const std::span<const std::byte> bytes = tensor.row(index);
  LS_CHECK(bytes.size() == block_count * block_bytes);
  blocks(bytes.data(), block_count, out.data());
}

base::Result<Decoder> decoder(model::DType dtype) {
  const DecodeFunction function = block_functions(host_vectors()).decode(dtype);
  for (const FormatFacts& facts : kFormats) {
    if (facts.dtype != dtype) continue;
    LS_CHECK(function != nullptr);
    return Decoder{dtype, facts.block_elements, facts.block_bytes, facts.exact_in_f32, function};
  }
  LS_CHECK(function == nullptr);
  return base::unsupported_error("", std::string(model::name(dtype)),
                                 "the reference has no decoder of this type");
}

}  // namespace lockstep::reference
