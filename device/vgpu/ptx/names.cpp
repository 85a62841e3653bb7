// Scopes and the fixed names of PTX; names.h.
#include "device/vgpu/ptx/names.h"

#include <algorithm>
#include <charconv>

namespace lockstep::device::vgpu::ptx {
namespace {

using Special = SpecialRegister;

const std::unordered_map<std::string_view, Type>& type_table() {
  static const std::unordered_map<std::string_view, Type> table = {
      {"pred", Type::Pred}, {"b8", Type::B8},         {"b16", Type::B16}, {"b32", Type::B32},
      {"b64", Type::B64},   {"b128", Type::B128},     {"u8", Type::U8},   {"u16", Type::U16},
      {"u32", Type::U32},   {"u64", Type::U64},       {"s8", Type::S8},   {"s16", Type::S16},
      {"s32", Type::S32},   {"s64", Type::S64},       {"f16", Type::F16}, {"f16x2", Type::F16x2},
      {"bf16", Type::BF16}, {"bf16x2", Type::BF16x2}, {"f32", Type::F32}, {"f32x2", Type::F32x2},
      {"f64", Type::F64},
  };
  return table;
}

// PTX ISA 9.0, chapter 10 "Special Registers".
const std::unordered_map<std::string_view, Special>& special_table() {
  static const std::unordered_map<std::string_view, Special> table = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%smid", Special::SmId},
      {"%nsmid", Special::NsmId},
      {"%gridid", Special::GridId},
      {"%lanemask_eq", Special::LanemaskEq},
      {"%lanemask_le", Special::LanemaskLe},
      {"%lanemask_lt", Special::LanemaskLt},
      {"%lanemask_ge", Special::LanemaskGe},
      {"%lanemask_gt", Special::LanemaskGt},
      {"%clock", Special::Clock},
      {"%clock_hi", Special::ClockHi},
      {"%clock64", Special::Clock64},
      {"%globaltimer", Special::GlobalTimer},
      {"%globaltimer_lo", Special::GlobalTimerLo},
      {"%globaltimer_hi", Special::GlobalTimerHi},
      {"%dynamic_smem_size", Special::DynamicSmemSize},
      {"%total_smem_size", Special::TotalSmemSize},
      {"%clusterid.x", Special::ClusterIdX},
      {"%clusterid.y", Special::ClusterIdY},
      {"%clusterid.z", Special::ClusterIdZ},
      {"%nclusterid.x", Special::NclusterIdX},
      {"%nclusterid.y", Special::NclusterIdY},
      {"%nclusterid.z", Special::NclusterIdZ},
      {"%cluster_ctaid.x", Special::ClusterCtaidX},
      {"%cluster_ctaid.y", Special::ClusterCtaidY},
      {"%cluster_ctaid.z", Special::ClusterCtaidZ},
      {"%cluster_nctaid.x", Special::ClusterNctaidX},
      {"%cluster_nctaid.y", Special::ClusterNctaidY},
      {"%cluster_nctaid.z", Special::ClusterNctaidZ},
      {"%cluster_ctarank", Special::ClusterCtarank},
      {"%cluster_nctarank", Special::ClusterNctarank},
      {"%is_explicit_cluster", Special::IsExplicitCluster},
  };
  return table;
}

// Where the digits at the end of `text` begin.
std::size_t suffix_start(std::string_view text) {
  std::size_t start = text.size();
  while (start > 0 && text[start - 1] >= '0' && text[start - 1] <= '9') --start;
  return start;
}

// Calls visit(prefix, number) for each way to read `text` as a name of a range: the prefix may
// itself end in digits (%r1<10>). Numbers have no leading zeros and at most ten digits.
template <class Visit>
void for_each_split(std::string_view text, const Visit& visit) {
  std::size_t start = suffix_start(text);
  if (text.size() - start > 10) start = text.size() - 10;
  for (; start < text.size(); ++start) {
    const std::string_view digits = text.substr(start);
    if (digits.size() > 1 && digits[0] == '0') continue;
    std::uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    visit(text.substr(0, start), number);
  }
}

}  // namespace

std::optional<Type> find_type(std::string_view name) {
  const auto found = type_table().find(name);
  if (found == type_table().end()) return std::nullopt;
  return found->second;
}

std::optional<SpecialRegister> find_special_register(std::string_view name) {
  const auto found = special_table().find(name);
  if (found == special_table().end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint32_t> find_environment_register(std::string_view name) {
  constexpr std::string_view kPrefix = "%envreg";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::optional<std::uint32_t> index;
  for_each_split(name, [&](std::string_view prefix, std::uint64_t number) {
    if (prefix == kPrefix && number < 32) index = static_cast<std::uint32_t>(number);
  });
  return index;
}

std::optional<std::uint32_t> Scope::find_in_ranges(std::string_view text) const {
  if (ranges_.empty()) return std::nullopt;
  std::optional<std::uint32_t> index;
  for_each_split(text, [&](std::string_view prefix, std::uint64_t number) {
    const auto range = ranges_.find(prefix);
    if (range != ranges_.end() && number < range->second.count) {
      index = range->second.first + static_cast<std::uint32_t>(number);
    }
  });
  return index;
}

bool Scope::add(std::string_view text, const Name& name) {
  if (find_in_ranges(text) || !names_.emplace(text, name).second) return false;
  for_each_split(text, [&](std::string_view prefix, std::uint64_t number) {
    const auto [at, is_new] = numbered_.emplace(prefix, number);
    if (!is_new) at->second = std::min(at->second, number);
  });
  return true;
}

bool Scope::add_range(std::string_view prefix, std::uint32_t first, std::uint32_t count) {
  const auto numbered = numbered_.find(prefix);
  if (numbered != numbered_.end() && numbered->second < count) return false;
  return ranges_.emplace(prefix, Range{first, count}).second;
}

std::optional<Name> Scope::find(std::string_view text) const {
  if (!names_.empty()) {
    const auto found = names_.find(text);
    if (found != names_.end()) return found->second;
  }
  if (const auto index = find_in_ranges(text)) {
    return Name{.kind = Name::Kind::Register, .register_index = *index};
  }
  return std::nullopt;
}

}  // namespace lockstep::device::vgpu::ptx
