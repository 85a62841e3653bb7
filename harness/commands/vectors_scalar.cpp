// Scalar number-format vectors (sfv1): decode records (every code of a format) and encode records
// (f32 values rounded to a format). The columns of CUDA's host functions are what cvt does; those
// of ml_dtypes differ by documented policy for NaN, infinity and overflow, which is applied here.
#include <map>
#include <memory>

#include "device/vgpu/numeric/formats.h"
#include "harness/commands/vectors_record.h"

namespace lockstep::harness {
namespace {

namespace numeric = device::vgpu::numeric;
using numeric::Overflow;
using numeric::Rounding;
using Convert = std::uint32_t (*)(std::uint32_t);

struct Column {
  Convert convert;
  std::uint32_t bits;  // of a result
};

template <class Format, Overflow overflow>
std::uint32_t cuda(std::uint32_t x) {
  return numeric::encode_f32<Format, Rounding::NearestEven, overflow>(x);
}
// e4m3 has no infinity: without satfinite the host function gives NaN on overflow.
std::uint32_t cuda_e4m3_nosat(std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  if (magnitude > 0x7f800000) return numeric::E4M3::kNan;
  const std::uint32_t code =
      magnitude == 0x7f800000
          ? 0x7f
          : numeric::round_magnitude<numeric::E4M3, Rounding::NearestEven>(magnitude, false);
  return (code > numeric::E4M3::kMaximum ? 0x7f : code) | (x >> 31) << 7;
}

enum class Policy : std::uint8_t { ToInfinity, ToNan, ToMaximum };
// ml_dtypes: to nearest even; NaNs keep their sign (`nan` without it).
template <class Format, Policy policy, std::uint32_t nan>
std::uint32_t ml_dtypes(std::uint32_t x) {
  const std::uint32_t magnitude = x & 0x7fffffff;
  const std::uint32_t sign = (x >> 31) << Format::kSignShift;
  if (magnitude > 0x7f800000) return nan | sign;
  std::uint32_t code = Format::kMaximum + 1;
  if (magnitude != 0x7f800000) {
    code = numeric::round_magnitude<Format, Rounding::NearestEven>(magnitude, false);
  }
  if (code > Format::kMaximum) {
    code = policy == Policy::ToInfinity ? Format::kInfinity
           : policy == Policy::ToNan    ? nan
                                        : Format::kMaximum;
  }
  return code | sign;
}
// FP6 and FP4 of ml_dtypes: NaN is a zero of the opposite sign.
template <class Format>
std::uint32_t ml_dtypes_small(std::uint32_t x) {
  if (numeric::is_nan_f32(x)) return (~x >> 31) << Format::kSignShift;
  return ml_dtypes<Format, Policy::ToMaximum, 0>(x);
}
// NumPy's f16 keeps the upper payload bits of a NaN, and at least one.
std::uint32_t numpy_f16(std::uint32_t x) {
  if (!numeric::is_nan_f32(x)) return numeric::f32_to_f16(x);
  const std::uint32_t payload = (x >> 13) & 0x3ff;
  return 0x7c00 | (x >> 31) << 15 | (payload == 0 ? 1 : payload);
}
// Halves round up; what has no power of two is NaN.
std::uint32_t ml_dtypes_e8m0(std::uint32_t x) {
  if (x == 0 || x >= 0x7f800000) return 0xff;
  return (x + 0x400000) >> 23;
}

template <bool up, Overflow overflow>
std::uint32_t cuda_e8m0(std::uint32_t x) {
  return numeric::f32_to_ue8m0<up, overflow>(x);
}
template <Rounding rounding>
std::uint32_t tf32(std::uint32_t x) {
  return numeric::f32_to_tf32<rounding>(x);
}
template <class Format, Rounding rounding>
std::uint32_t cuda_16(std::uint32_t x) {
  return numeric::encode_f32<Format, rounding, Overflow::ToInfinity>(x);
}

constexpr auto kSat = Overflow::SaturateFinite;
constexpr auto kInf = Overflow::ToInfinity;

const std::map<std::string, std::map<std::string, Column>> kEncode = {
    {"e4m3fn",
     {{"ml_dtypes", {ml_dtypes<numeric::E4M3, Policy::ToNan, 0x7f>, 8}},
      {"cuda_satfinite", {cuda<numeric::E4M3, kSat>, 8}},
      {"cuda_nosat", {cuda_e4m3_nosat, 8}}}},
    {"e5m2",
     {{"ml_dtypes", {ml_dtypes<numeric::E5M2, Policy::ToInfinity, 0x7e>, 8}},
      {"cuda_satfinite", {cuda<numeric::E5M2, kSat>, 8}},
      {"cuda_nosat", {cuda<numeric::E5M2, kInf>, 8}}}},
    {"e3m2",
     {{"ml_dtypes", {ml_dtypes_small<numeric::E3M2>, 6}},
      {"cuda_satfinite", {cuda<numeric::E3M2, kSat>, 6}}}},
    {"e2m3",
     {{"ml_dtypes", {ml_dtypes_small<numeric::E2M3>, 6}},
      {"cuda_satfinite", {cuda<numeric::E2M3, kSat>, 6}}}},
    {"e2m1",
     {{"ml_dtypes", {ml_dtypes_small<numeric::E2M1>, 4}},
      {"cuda_satfinite", {cuda<numeric::E2M1, kSat>, 4}}}},
    {"e8m0",
     {{"ml_dtypes", {ml_dtypes_e8m0, 8}},
      {"cuda_rz_sat", {cuda_e8m0<false, kSat>, 8}},
      {"cuda_rz_nosat", {cuda_e8m0<false, kInf>, 8}},
      {"cuda_rp_sat", {cuda_e8m0<true, kSat>, 8}},
      {"cuda_rp_nosat", {cuda_e8m0<true, kInf>, 8}}}},
    {"f16",
     {{"ml_dtypes", {numpy_f16, 16}},
      {"cuda_rn", {cuda_16<numeric::F16, Rounding::NearestEven>, 16}},
      {"cuda_rz", {cuda_16<numeric::F16, Rounding::TowardZero>, 16}}}},
    {"bf16",
     {{"ml_dtypes", {ml_dtypes<numeric::BF16, Policy::ToInfinity, 0x7fc0>, 16}},
      {"cuda_rn", {cuda_16<numeric::BF16, Rounding::NearestEven>, 16}},
      {"cuda_rz", {cuda_16<numeric::BF16, Rounding::TowardZero>, 16}}}},
    {"tf32",
     {{"rz", {tf32<Rounding::TowardZero>, 32}},
      {"rna", {tf32<Rounding::NearestAway>, 32}},
      {"rn", {tf32<Rounding::NearestEven>, 32}}}},
};

template <class Format>
std::uint32_t decode(std::uint32_t code) {
  return numeric::decode_f32<Format>(code);
}
template <class Format>
std::uint32_t decode_f16(std::uint32_t code) {
  return numeric::narrow_to_f16<Format>(static_cast<std::uint8_t>(code));
}
std::uint32_t decode_e8m0(std::uint32_t code) {
  return numeric::ue8m0_to_f32(static_cast<std::uint8_t>(code));
}
std::uint32_t decode_e8m0_bf16(std::uint32_t code) {
  return numeric::ue8m0_to_bf16(static_cast<std::uint8_t>(code));
}

const std::map<std::string, std::map<std::string, Column>> kDecode = {
    {"e4m3fn",
     {{"f32_ml_dtypes", {decode<numeric::E4M3>, 32}},
      {"f16_cuda", {decode_f16<numeric::E4M3>, 16}}}},
    {"e5m2",
     {{"f32_ml_dtypes", {decode<numeric::E5M2>, 32}},
      {"f16_cuda", {decode_f16<numeric::E5M2>, 16}}}},
    {"e3m2",
     {{"f32_ml_dtypes", {decode<numeric::E3M2>, 32}},
      {"f16_cuda", {decode_f16<numeric::E3M2>, 16}}}},
    {"e2m3",
     {{"f32_ml_dtypes", {decode<numeric::E2M3>, 32}},
      {"f16_cuda", {decode_f16<numeric::E2M3>, 16}}}},
    {"e2m1",
     {{"f32_ml_dtypes", {decode<numeric::E2M1>, 32}},
      {"f16_cuda", {decode_f16<numeric::E2M1>, 16}}}},
    {"e8m0", {{"f32_ml_dtypes", {decode_e8m0, 32}}, {"bf16_cuda", {decode_e8m0_bf16, 16}}}},
};

class ScalarFormatReader final : public VectorReader {
 public:
  explicit ScalarFormatReader(const VectorOptions& options) : options_(options) {}

  base::Status read(const VectorRecord& record, VectorReport& report) override {
    LS_ASSIGN(const std::string kind, record.text("rec"));
    LS_ASSIGN(const std::uint64_t count, record.number("n"));
    if (kind == "encode") {
      LS_ASSIGN(const std::vector<std::uint32_t> values, record.codes("x", count, 32));
      return columns(record, "to", kEncode, values, report);
    }
    if (kind == "decode") {
      std::vector<std::uint32_t> codes(count);
      for (std::uint32_t i = 0; i < count; ++i) codes[i] = i;
      return columns(record, "from", kDecode, codes, report);
    }
    return record.error("unknown record " + kind);
  }

 private:
  base::Status columns(const VectorRecord& record, const char* field,
                       const std::map<std::string, std::map<std::string, Column>>& table,
                       const std::vector<std::uint32_t>& values, VectorReport& report) {
    LS_ASSIGN(const std::string format, record.text(field));
    const auto formats = table.find(format);
    if (formats == table.end()) return record.error("unknown format " + format);
    for (const auto& [name, unused] : record.json.items()) {
      if (name == "rec" || name == "n" || name == "x" || name == field) continue;
      const auto column = formats->second.find(name);
      if (column == formats->second.end()) {
        return record.error("unknown column " + name + " of " + format);
      }
      const auto [convert, bits] = column->second;
      LS_ASSIGN(const std::vector<std::uint32_t> want,
                record.codes(name.c_str(), values.size(), bits));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t got = convert(values[i]);
        const bool both_nan = bits == 32 && numeric::is_nan_f32(want[i]) &&
                              numeric::is_nan_f32(got) && name == "f32_ml_dtypes";
        compare(report, options_, record.line, want[i], both_nan ? want[i] : got, bits,
                [&, column_name = name] {
                  return format + " " + column_name + " of " + hexadecimal(values[i], 32);
                });
      }
    }
    return base::Ok{};
  }

  const VectorOptions& options_;
};

}  // namespace

std::unique_ptr<VectorReader> make_scalar_format_reader(const VectorOptions& options) {
  return std::make_unique<ScalarFormatReader>(options);
}

}  // namespace lockstep::harness
