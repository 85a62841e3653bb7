// DType: how numbers are stored, as layout facts. No decoding here: the engine decodes in
// kernels/lib, the reference in reference/formats, each from the format's definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::model {

enum class DType : std::uint8_t {
  F64,
  F32,
  F16,
  BF16,
  I64,
  I32,
  I16,
  I8,
  U8,
  Bool,
  F8E4M3,
  F8E5M2,
  // ggml's block types
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q8_0,
  Q8_1,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  Q8_K,
  IQ1_S,
  IQ1_M,
  IQ2_XXS,
  IQ2_XS,
  IQ2_S,
  IQ3_XXS,
  IQ3_S,
  IQ4_NL,
  IQ4_XS,
  TQ1_0,
  TQ2_0,
  MXFP4,
  NVFP4,
  Q1_0,
};

struct DTypeLayout {
  DType dtype;
  std::string_view name;         // as ggml prints it ("Q4_K"); "F8_E4M3" for safetensors' own
  std::uint32_t block_elements;  // elements that are stored together; 1 for plain numbers
  std::uint32_t block_bytes;
  std::optional<std::uint32_t> gguf_type;            // ggml_type in a GGUF file
  std::optional<std::string_view> safetensors_type;  // "dtype" in a safetensors header
};

const DTypeLayout& layout(DType dtype);
std::string_view name(DType dtype);
std::optional<DType> dtype_from_gguf(std::uint32_t ggml_type);
std::optional<DType> dtype_from_safetensors(std::string_view tag);
std::optional<DType> dtype_from_name(std::string_view name);
// Bytes of `elements` numbers (a multiple of block_elements), or nothing on overflow or remainder.
std::optional<std::uint64_t> storage_bytes(DType dtype, std::uint64_t elements);

}  // namespace lockstep::model
