// Block decoders against third-party expansions.
#include "reference/formats/vectors_check.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "base/checked.h"
#include "model/file.h"
#include "model/safetensors.h"
#include "reference/formats/decoder.h"
#include "reference/formats/ieee.h"

namespace lockstep::reference {
namespace {

constexpr std::size_t kFirstMismatches = 8;

bool same_float(std::uint32_t a, std::uint32_t b) {
  return a == b || ((a | b) & 0x7fffffff) == 0;  // a zero's sign is ignored
}

// One T.<set>.raw with its .deq.
base::Status check_set(const std::string& path, const Decoder& decoder,
                       const model::TensorInfo& raw, const model::TensorInfo& want,
                       const std::string& set, DequantReport& report, DequantTypeReport& type) {
  const std::uint64_t block_count = raw.data.size() / decoder.block_bytes;
  const auto values = base::checked_mul(block_count, decoder.block_elements);
  if (raw.data.size() % decoder.block_bytes != 0 || !values || want.dtype != model::DType::F32 ||
      want.data.size() % 4 != 0 || want.data.size() / 4 != *values) {
    return base::input_error(path, raw.offset_bytes, raw.name,
                             "must hold whole blocks, as many values as " + want.name);
  }
  std::vector<double> got(*values);
  decoder.blocks(raw.data.data(), block_count, got.data());
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    std::uint32_t want_bits;
    std::memcpy(&want_bits, want.data.data() + 4 * i, sizeof want_bits);
    const std::uint32_t got_bits = f32_bits(got[i]);
    ++report.checked;
    ++type.checked;
    if (same_float(got_bits, want_bits)) continue;
    ++report.mismatches;
    ++type.mismatches;
    if (report.first.size() < kFirstMismatches)
      report.first.push_back({set, i, want_bits, got_bits});
  }
  return base::Ok{};
}

}  // namespace

base::Result<DequantReport> check_dequant_vectors(const std::string& path,
                                                  const base::Limits& limits) {
  LS_ASSIGN(const auto file, model::MappedFile::open(path, limits));
  LS_ASSIGN(const model::SafetensorsFile vectors,
            model::read_safetensors(file->bytes(), path, limits));
  DequantReport report;
  for (const auto& [name, raw] : vectors.tensors.all()) {
    if (!name.ends_with(".raw")) continue;
    const std::string set = name.substr(0, name.size() - 4);  // "Q4_K.rand"
    const std::string type = set.substr(0, set.find('.'));
    const std::optional<model::DType> dtype = model::dtype_from_name(type);
    if (!dtype) {
      return base::input_error(path, raw.offset_bytes, name, "no such block type: " + type);
    }
    if (report.types.empty() || report.types.back().type != type) report.types.push_back({type});
    const base::Result<Decoder> found = decoder(*dtype);
    if (!found) continue;
    report.types.back().supported = true;
    const model::TensorInfo* want = vectors.tensors.find(set + ".deq");
    if (want == nullptr) {
      return base::input_error(path, raw.offset_bytes, name, "has no " + set + ".deq beside it");
    }
    LS_TRY(check_set(path, *found, raw, *want, set, report, report.types.back()));
  }
  return report;
}

}  // namespace lockstep::reference
