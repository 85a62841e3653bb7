// The list of generations, and the lookup of an instruction's arithmetic in their tables.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "device/vgpu/generation/generation.h"

namespace lockstep::device::vgpu::generation {

using numeric::MmaForm;
using numeric::MmaFormat;
using numeric::MmaScheme;

namespace {

bool is_fp8(MmaFormat format) { return format == MmaFormat::E4M3 || format == MmaFormat::E5M2; }
bool is_f8f6f4(MmaFormat format) {
  return is_fp8(format) || format == MmaFormat::E3M2 || format == MmaFormat::E2M3 ||
         format == MmaFormat::E2M1;
}
bool is_int8(MmaFormat format) { return format == MmaFormat::S8 || format == MmaFormat::U8; }

std::optional<MmaKind> scaled_kind(const MmaQuery& query) {
  const bool fp4 = query.a == MmaFormat::E2M1 && query.b == MmaFormat::E2M1;
  if (query.k == 32 && is_f8f6f4(query.a) && is_f8f6f4(query.b)) {
    if (query.scale == MmaFormat::UE8M0 && query.scale_block == 32) return MmaKind::MxF8F6F4;
  } else if (query.k == 64 && fp4 && query.scale_block == 32) {
    if (query.scale == MmaFormat::UE8M0) return MmaKind::MxF4;
  } else if (query.k == 64 && fp4 && query.scale_block == 16) {
    return MmaKind::MxF4Nvf4;
  }
  return std::nullopt;
}

std::optional<MmaKind> kind_of(const MmaQuery& query) {
  if (query.scaled) return scaled_kind(query);
  const auto both = [&](MmaFormat format) { return query.a == format && query.b == format; };
  if (both(MmaFormat::F16)) return MmaKind::F16;
  if (both(MmaFormat::BF16)) return MmaKind::BF16;
  if (both(MmaFormat::TF32)) return MmaKind::TF32;
  if (is_int8(query.a) && is_int8(query.b)) return MmaKind::Int8;
  if (!is_f8f6f4(query.a) || !is_f8f6f4(query.b)) return std::nullopt;
  const bool fp8 = is_fp8(query.a) && is_fp8(query.b);
  if (query.kind_f8f6f4 || query.unit == MmaUnit::Tcgen05) return MmaKind::F8F6F4;
  return fp8 ? std::optional(MmaKind::FP8) : std::nullopt;
}

std::optional<MmaAccumulator> accumulator_of(MmaFormat format) {
  if (format == MmaFormat::F32) return MmaAccumulator::F32;
  if (format == MmaFormat::F16) return MmaAccumulator::F16;
  if (format == MmaFormat::S32) return MmaAccumulator::S32;
  return std::nullopt;
}

const char* spelled(MmaFormat format) {
  switch (format) {
    case MmaFormat::F16:
      return "f16";
    case MmaFormat::BF16:
      return "bf16";
    case MmaFormat::TF32:
      return "tf32";
    case MmaFormat::E4M3:
      return "e4m3";
    case MmaFormat::E5M2:
      return "e5m2";
    case MmaFormat::E3M2:
      return "e3m2";
    case MmaFormat::E2M3:
      return "e2m3";
    case MmaFormat::E2M1:
      return "e2m1";
    case MmaFormat::UE8M0:
      return "ue8m0";
    case MmaFormat::UE4M3:
      return "ue4m3";
    case MmaFormat::F32:
      return "f32";
    case MmaFormat::S8:
      return "s8";
    case MmaFormat::U8:
      return "u8";
    case MmaFormat::S32:
      return "s32";
  }
  return "?";
}

std::string spelled(const MmaQuery& query) {
  std::string text;
  switch (query.unit) {
    case MmaUnit::MmaSync:
      text = "mma.sync.m16n8k";
      break;
    case MmaUnit::MmaM8n8k4:
      text = "mma.sync.m8n8k";
      break;
    case MmaUnit::Wgmma:
      text = "wgmma.k";
      break;
    case MmaUnit::Tcgen05:
      text = "tcgen05.mma.k";
      break;
  }
  text += std::to_string(query.k);
  if (query.kind_f8f6f4) text += ".kind::f8f6f4";
  if (query.scaled) text += ".block_scale";
  for (const MmaFormat format : {query.c, query.a, query.b}) {
    text += '.';
    text += spelled(format);
  }
  if (query.scaled) text += '.' + std::string(spelled(query.scale));
  return text;
}

const GenerationSpec* const kAll[] = {&kSm75, &kSm80, &kSm89, &kSm90, &kSm100, &kSm120};

}  // namespace

std::span<const GenerationSpec* const> all() { return kAll; }

const GenerationSpec* find(std::uint32_t sm) {
  for (const GenerationSpec* generation : kAll) {
    if (generation->sm == sm) return generation;
  }
  return nullptr;
}

const GenerationSpec* find(std::string_view name) {
  for (const GenerationSpec* generation : kAll) {
    if (generation->name == name) return generation;
  }
  return nullptr;
}

const numeric::MmaBlock& GenerationSpec::f16_block() const {
  for (const MmaRule& rule : mma) {
    if (rule.unit == MmaUnit::MmaSync && rule.kind == MmaKind::F16 &&
        rule.accumulator == MmaAccumulator::F32) {
      return rule.block;
    }
  }
  LS_CHECK(false, "every generation has mma.sync with f16 operands");
  return mma.front().block;
}

base::Result<MmaForm> mma_form(const GenerationSpec& generation, const MmaQuery& query) {
  const std::optional<MmaKind> kind = kind_of(query);
  const std::optional<MmaAccumulator> accumulator = accumulator_of(query.c);
  for (const MmaRule& rule : generation.mma) {
    if (rule.unit != query.unit || kind != rule.kind || accumulator != rule.accumulator) continue;
    if (query.k != rule.k[0] && query.k != rule.k[1]) continue;
    if (rule.fp8_only && !(is_fp8(query.a) && is_fp8(query.b))) continue;
    if (rule.ue4m3_only && query.scale != MmaFormat::UE4M3) continue;
    MmaForm form;
    form.a = query.a;
    form.b = query.b;
    form.c = query.c;
    form.k = query.k;
    form.scheme = rule.scheme;
    form.block = rule.block;
    if (query.satfinite && rule.scheme == MmaScheme::IntegerWrap) {
      form.scheme = MmaScheme::IntegerSaturate;
    }
    form.scaled = query.scaled;
    form.scale = query.scale;
    form.scale_block = query.scale_block;
    return form;
  }
  return base::unsupported_error(std::string(generation.name), spelled(query),
                                 "this generation has no such tensor-core instruction");
}

}  // namespace lockstep::device::vgpu::generation
