// The table of number formats. Block sizes are those of ggml's block structs (ggml-common.h):
// scales, minima and packed codes of one block, without padding.
#include "model/dtype.h"

#include <array>

#include "base/check.h"
#include "base/checked.h"

namespace lockstep::model {
namespace {

using D = DType;
constexpr std::nullopt_t kNone = std::nullopt;

// In the order of DType.
constexpr std::array kLayouts = {
    DTypeLayout{D::F64, "F64", 1, 8, 28, "F64"},
    DTypeLayout{D::F32, "F32", 1, 4, 0, "F32"},
    DTypeLayout{D::F16, "F16", 1, 2, 1, "F16"},
    DTypeLayout{D::BF16, "BF16", 1, 2, 30, "BF16"},
    DTypeLayout{D::I64, "I64", 1, 8, 27, "I64"},
    DTypeLayout{D::I32, "I32", 1, 4, 26, "I32"},
    DTypeLayout{D::I16, "I16", 1, 2, 25, "I16"},
    DTypeLayout{D::I8, "I8", 1, 1, 24, "I8"},
    DTypeLayout{D::U8, "U8", 1, 1, kNone, "U8"},
    DTypeLayout{D::Bool, "BOOL", 1, 1, kNone, "BOOL"},
    DTypeLayout{D::F8E4M3, "F8_E4M3", 1, 1, kNone, "F8_E4M3"},
    DTypeLayout{D::F8E5M2, "F8_E5M2", 1, 1, kNone, "F8_E5M2"},
    DTypeLayout{D::Q4_0, "Q4_0", 32, 18, 2, kNone},
    DTypeLayout{D::Q4_1, "Q4_1", 32, 20, 3, kNone},
    DTypeLayout{D::Q5_0, "Q5_0", 32, 22, 6, kNone},
    DTypeLayout{D::Q5_1, "Q5_1", 32, 24, 7, kNone},
    DTypeLayout{D::Q8_0, "Q8_0", 32, 34, 8, kNone},
    // ggml's block_q8_1 holds two f16 (scale, sum); its first version held two f32, whose 40 bytes
    // some readers still list. No model file stores either: it is an activation format.
    DTypeLayout{D::Q8_1, "Q8_1", 32, 36, 9, kNone},
    DTypeLayout{D::Q2_K, "Q2_K", 256, 84, 10, kNone},
    DTypeLayout{D::Q3_K, "Q3_K", 256, 110, 11, kNone},
    DTypeLayout{D::Q4_K, "Q4_K", 256, 144, 12, kNone},
    DTypeLayout{D::Q5_K, "Q5_K", 256, 176, 13, kNone},
    DTypeLayout{D::Q6_K, "Q6_K", 256, 210, 14, kNone},
    DTypeLayout{D::Q8_K, "Q8_K", 256, 292, 15, kNone},
    DTypeLayout{D::IQ1_S, "IQ1_S", 256, 50, 19, kNone},
    DTypeLayout{D::IQ1_M, "IQ1_M", 256, 56, 29, kNone},
    DTypeLayout{D::IQ2_XXS, "IQ2_XXS", 256, 66, 16, kNone},
    DTypeLayout{D::IQ2_XS, "IQ2_XS", 256, 74, 17, kNone},
    DTypeLayout{D::IQ2_S, "IQ2_S", 256, 82, 22, kNone},
    DTypeLayout{D::IQ3_XXS, "IQ3_XXS", 256, 98, 18, kNone},
    DTypeLayout{D::IQ3_S, "IQ3_S", 256, 110, 21, kNone},
    DTypeLayout{D::IQ4_NL, "IQ4_NL", 32, 18, 20, kNone},
    DTypeLayout{D::IQ4_XS, "IQ4_XS", 256, 136, 23, kNone},
    DTypeLayout{D::TQ1_0, "TQ1_0", 256, 54, 34, kNone},
    DTypeLayout{D::TQ2_0, "TQ2_0", 256, 66, 35, kNone},
    DTypeLayout{D::MXFP4, "MXFP4", 32, 17, 39, kNone},
    DTypeLayout{D::NVFP4, "NVFP4", 64, 36, 40, kNone},
    DTypeLayout{D::Q1_0, "Q1_0", 128, 18, 41, kNone},
};

constexpr bool rows_are_in_enum_order() {
  for (std::size_t i = 0; i < kLayouts.size(); ++i) {
    if (static_cast<std::size_t>(kLayouts[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_enum_order());
static_assert(kLayouts.size() == static_cast<std::size_t>(D::Q1_0) + 1);

template <class Predicate>
std::optional<DType> find_if(Predicate predicate) {
  for (const DTypeLayout& row : kLayouts) {
    if (predicate(row)) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace

const DTypeLayout& layout(DType dtype) {
  LS_CHECK(static_cast<std::size_t>(dtype) < kLayouts.size());
  return kLayouts[static_cast<std::size_t>(dtype)];
}

std::string_view name(DType dtype) { return layout(dtype).name; }

std::optional<DType> dtype_from_gguf(std::uint32_t ggml_type) {
  return find_if([=](const DTypeLayout& row) { return row.gguf_type == ggml_type; });
}

std::optional<DType> dtype_from_safetensors(std::string_view tag) {
  return find_if([=](const DTypeLayout& row) { return row.safetensors_type == tag; });
}

std::optional<DType> dtype_from_name(std::string_view name) {
  return find_if([=](const DTypeLayout& row) { return row.name == name; });
}

std::optional<std::uint64_t> storage_bytes(DType dtype, std::uint64_t elements) {
  const DTypeLayout& row = layout(dtype);
  if (elements % row.block_elements != 0) return std::nullopt;
  return base::checked_mul(elements / row.block_elements, row.block_bytes);
}

}  // namespace lockstep::model
