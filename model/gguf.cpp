// The GGUF reader. Nothing is allocated before the file is known to hold at least a byte for it, so
// memory stays within a small multiple of the file's size.
#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/checked.h"

namespace lockstep::model {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as stored");

using base::Error;
using base::Result;
using base::Status;

// ggml's GGML_MAX_NAME; docs/gguf.md: "at most 64 bytes", "keys at most 2^16 - 1 bytes".
constexpr std::uint64_t kTensorNameBytesMax = 64;
constexpr std::uint64_t kKeyBytesMax = 65535;

// Bytes of one value; nothing for String, Array and unknown types.
std::optional<std::uint64_t> fixed_bytes(GgufType type) {
  switch (type) {
    case GgufType::Uint8:
    case GgufType::Int8:
    case GgufType::Bool:
      return 1;
    case GgufType::Uint16:
    case GgufType::Int16:
      return 2;
    case GgufType::Uint32:
    case GgufType::Int32:
    case GgufType::Float32:
      return 4;
    case GgufType::Uint64:
    case GgufType::Int64:
    case GgufType::Float64:
      return 8;
    case GgufType::String:
    case GgufType::Array:
      return std::nullopt;
  }
  return std::nullopt;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view file, const base::Limits& limits)
      : bytes_(bytes), limits_(limits) {
    out_.file = file;
  }
  Result<GgufFile> read();

 private:
  struct PlannedTensor {
    TensorInfo info;
    std::uint64_t entry_offset = 0;  // where its description starts, for messages
    std::uint64_t data_offset = 0;   // from the start of the data section
    std::uint64_t size_bytes = 0;
  };

  Error error(std::uint64_t offset, std::string where, std::string rule) const {
    return base::input_error(out_.file, offset, std::move(where), std::move(rule));
  }
  Error unsupported(std::uint64_t offset, std::string where, std::string rule) const {
    Error result = error(offset, std::move(where), std::move(rule));
    result.kind = base::ErrorKind::Unsupported;
    return result;
  }
  Error over_limit(std::uint64_t offset, std::string where, std::uint64_t found, const char* limit,
                   std::uint64_t most) const {
    return error(
        offset, std::move(where),
        std::to_string(found) + " exceeds the limit " + limit + " (" + std::to_string(most) + ")");
  }
  std::uint64_t left() const { return bytes_.size() - at_; }

  template <class T>
  Result<T> number(const std::string& where);
  Result<std::string_view> string(const std::string& where, std::uint64_t most, const char* limit);
  Result<GgufType> value_type(const std::string& where);
  Result<GgufValue> value(GgufType type, const std::string& where);
  Result<GgufValue> array(const std::string& where);
  Status header();
  Status metadata();
  Status alignment();
  Result<PlannedTensor> tensor();
  Result<std::uint64_t> shape(PlannedTensor& planned, const std::string& where);
  Status tensors();
  Status place(std::vector<PlannedTensor> planned);

  std::span<const std::byte> bytes_;
  const base::Limits& limits_;
  std::uint64_t at_ = 0;
  std::uint64_t tensor_count_ = 0, metadata_count_ = 0;
  GgufFile out_;
};

template <class T>
Result<T> Reader::number(const std::string& where) {
  if (left() < sizeof(T)) {
    return error(at_, where,
                 "the file ends: " + std::to_string(sizeof(T)) + " bytes needed, " +
                     std::to_string(left()) + " left");
  }
  const T result = load<T>(bytes_.data() + at_);
  at_ += sizeof(T);
  return result;
}

Result<std::string_view> Reader::string(const std::string& where, std::uint64_t most,
                                        const char* limit) {
  const std::uint64_t start = at_;
  LS_ASSIGN(const std::uint64_t size, number<std::uint64_t>(where));
  if (size > most) return over_limit(start, where, size, limit, most);
  if (size > left()) {
    return error(start, where,
                 "a string of " + std::to_string(size) + " bytes, but only " +
                     std::to_string(left()) + " are left");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_), size);
  at_ += size;
  return text;
}

Result<GgufType> Reader::value_type(const std::string& where) {
  const std::uint64_t start = at_;
  LS_ASSIGN(const std::uint32_t code, number<std::uint32_t>(where));
  if (code > static_cast<std::uint32_t>(GgufType::Float64)) {
    return error(start, where, "unknown value type " + std::to_string(code));
  }
  return static_cast<GgufType>(code);
}

Result<GgufValue> Reader::value(GgufType type, const std::string& where) {
  if (type == GgufType::Array) return array(where);
  if (type == GgufType::String) {
    LS_ASSIGN(const std::string_view text, string(where, limits_.string_bytes, "string_bytes"));
    return GgufValue(text);
  }
  const std::uint64_t size = fixed_bytes(type).value();
  if (left() < size) return error(at_, where, "the file ends inside a value");
  const std::byte* from = bytes_.data() + at_;
  const std::uint64_t start = at_;
  at_ += size;
  switch (type) {
    case GgufType::Uint8:
      return GgufValue(std::uint64_t{load<std::uint8_t>(from)});
    case GgufType::Uint16:
      return GgufValue(std::uint64_t{load<std::uint16_t>(from)});
    case GgufType::Uint32:
      return GgufValue(std::uint64_t{load<std::uint32_t>(from)});
    case GgufType::Uint64:
      return GgufValue(load<std::uint64_t>(from));
    case GgufType::Int8:
      return GgufValue(std::int64_t{load<std::int8_t>(from)});
    case GgufType::Int16:
      return GgufValue(std::int64_t{load<std::int16_t>(from)});
    case GgufType::Int32:
      return GgufValue(std::int64_t{load<std::int32_t>(from)});
    case GgufType::Int64:
      return GgufValue(load<std::int64_t>(from));
    case GgufType::Float32:
      return GgufValue(double{load<float>(from)});
    case GgufType::Float64:
      return GgufValue(load<double>(from));
    case GgufType::Bool: {
      const auto byte = load<std::uint8_t>(from);
      if (byte > 1) return error(start, where, "a Bool is 0 or 1, found " + std::to_string(byte));
      return GgufValue(byte == 1);
    }
    case GgufType::String:
    case GgufType::Array:
      break;
  }
  LS_CHECK(false, "String and Array are handled above");
  return GgufValue(false);
}

Result<GgufValue> Reader::array(const std::string& where) {
  LS_ASSIGN(const GgufType type, value_type(where));
  const std::uint64_t start = at_;
  if (type == GgufType::Array) return unsupported(start - 4, where, "an array of arrays");
  LS_ASSIGN(const std::uint64_t count, number<std::uint64_t>(where));
  if (count > limits_.array_elements) {
    return over_limit(start, where, count, "array_elements", limits_.array_elements);
  }
  GgufArray result{.element_type = type, .count = count, .raw = {}, .strings = {}};
  if (type == GgufType::String) {
    // Each string takes 8 bytes or more: this bounds the allocation by the file's size.
    if (count > left() / 8) return error(start, where, "the file ends inside an array of strings");
    result.strings.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      LS_ASSIGN(const std::string_view text, string(where, limits_.string_bytes, "string_bytes"));
      result.strings.push_back(text);
    }
    return GgufValue(std::move(result));
  }
  const std::uint64_t size = fixed_bytes(type).value();
  if (count > left() / size) return error(start, where, "the file ends inside an array");
  result.raw = bytes_.subspan(at_, count * size);
  if (type == GgufType::Bool) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (static_cast<std::uint8_t>(result.raw[i]) > 1) {
        return error(at_ + i, where, "a Bool is 0 or 1");
      }
    }
  }
  at_ += count * size;
  return GgufValue(std::move(result));
}

Status Reader::header() {
  if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
    return error(0, "magic", "not a GGUF file: its first four bytes must be \"GGUF\"");
  }
  at_ = 4;
  LS_ASSIGN(const std::uint32_t version, number<std::uint32_t>("version"));
  if ((version & 0xffffu) == 0 && version != 0) return unsupported(4, "version", "big-endian GGUF");
  if (version != 3) {
    return unsupported(4, "version", "version 3 is read, found " + std::to_string(version));
  }
  LS_ASSIGN(tensor_count_, number<std::uint64_t>("tensor count"));
  LS_ASSIGN(metadata_count_, number<std::uint64_t>("metadata count"));
  if (tensor_count_ > limits_.tensor_count) {
    return over_limit(8, "tensor count", tensor_count_, "tensor_count", limits_.tensor_count);
  }
  if (metadata_count_ > limits_.metadata_count) {
    return over_limit(16, "metadata count", metadata_count_, "metadata_count",
                      limits_.metadata_count);
  }
  return base::Ok{};
}

Status Reader::metadata() {
  for (std::uint64_t i = 0; i < metadata_count_; ++i) {
    const std::uint64_t start = at_;
    const std::string ordinal = "metadata key " + std::to_string(i);
    LS_ASSIGN(const std::string_view key, string(ordinal, kKeyBytesMax, "65535 bytes of a key"));
    if (key.empty()) return error(start, ordinal, "a key must not be empty");
    const std::string where(key);
    GgufEntry entry;
    LS_ASSIGN(entry.type, value_type(where));
    entry.offset_bytes = at_;
    LS_ASSIGN(entry.value, value(entry.type, where));
    if (!out_.metadata.try_emplace(where, std::move(entry)).second) {
      return error(start, where, "this metadata key occurs twice");
    }
  }
  return alignment();
}

Status Reader::alignment() {
  const GgufEntry* entry = out_.find("general.alignment");
  if (entry == nullptr) return base::Ok{};
  const auto* found = std::get_if<std::uint64_t>(&entry->value);
  if (entry->type != GgufType::Uint32 || found == nullptr || *found < 8 ||
      !std::has_single_bit(*found)) {
    return error(entry->offset_bytes, "general.alignment",
                 "must be a Uint32, a power of two and at least 8");
  }
  out_.alignment_bytes = *found;
  return base::Ok{};
}

// Reads the axes; returns the number of elements.
Result<std::uint64_t> Reader::shape(PlannedTensor& planned, const std::string& where) {
  const std::uint64_t start = at_;
  LS_ASSIGN(const std::uint32_t axes, number<std::uint32_t>(where));
  if (axes == 0) return error(start, where, "a tensor has at least one axis");
  if (axes > limits_.tensor_dimensions) {
    return over_limit(start, where, axes, "tensor_dimensions", limits_.tensor_dimensions);
  }
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < axes; ++i) {
    const std::uint64_t axis_offset = at_;
    LS_ASSIGN(const std::uint64_t axis, number<std::uint64_t>(where));
    if (axis == 0) return error(axis_offset, where, "axis " + std::to_string(i) + " has size 0");
    const auto product = base::checked_mul(elements, axis);
    if (!product) return error(axis_offset, where, "its number of elements overflows 64 bits");
    elements = *product;
    planned.info.shape.push_back(axis);
  }
  std::reverse(planned.info.shape.begin(), planned.info.shape.end());
  return elements;
}

Result<Reader::PlannedTensor> Reader::tensor() {
  PlannedTensor planned;
  planned.entry_offset = at_;
  const std::string ordinal = "tensor " + std::to_string(out_.tensors.all().size());
  LS_ASSIGN(const std::string_view label,
            string(ordinal, kTensorNameBytesMax, "64 bytes of a tensor's name"));
  if (label.empty()) return error(planned.entry_offset, ordinal, "a name must not be empty");
  planned.info.name = label;
  const std::string where = "tensor " + planned.info.name;
  LS_ASSIGN(const std::uint64_t elements, shape(planned, where));
  const std::uint64_t type_offset = at_;
  LS_ASSIGN(const std::uint32_t code, number<std::uint32_t>(where));
  const std::optional<DType> dtype = dtype_from_gguf(code);
  if (!dtype) {
    return error(type_offset, where, "unknown tensor type " + std::to_string(code));
  }
  planned.info.dtype = *dtype;
  const DTypeLayout& facts = layout(*dtype);
  if (planned.info.columns() % facts.block_elements != 0) {
    return error(planned.entry_offset, where,
                 "rows of " + std::to_string(planned.info.columns()) +
                     " elements are no multiple of " + std::string(facts.name) + "'s block of " +
                     std::to_string(facts.block_elements));
  }
  const auto size = storage_bytes(*dtype, elements);
  if (!size) return error(planned.entry_offset, where, "its size in bytes overflows 64 bits");
  planned.size_bytes = *size;
  const std::uint64_t offset_at = at_;
  LS_ASSIGN(planned.data_offset, number<std::uint64_t>(where));
  if (planned.data_offset % out_.alignment_bytes != 0) {
    return error(offset_at, where,
                 "data offset " + std::to_string(planned.data_offset) +
                     " is no multiple of the alignment " + std::to_string(out_.alignment_bytes));
  }
  return planned;
}

Status Reader::tensors() {
  // A description takes at least 8 + 1 + 4 + 8 + 4 + 8 bytes.
  if (tensor_count_ > left() / 33) {
    return error(8, "tensor count",
                 "the file is too short for " + std::to_string(tensor_count_) + " tensors");
  }
  std::vector<PlannedTensor> planned;
  planned.reserve(tensor_count_);
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    LS_ASSIGN(PlannedTensor next, tensor());
    planned.push_back(std::move(next));
  }
  const auto data = base::checked_align_up(at_, out_.alignment_bytes);
  if (!data) return error(at_, "tensor data", "its offset overflows 64 bits");
  // A file without tensors may end without the padding.
  out_.data_offset_bytes = planned.empty() ? std::min<std::uint64_t>(*data, bytes_.size()) : *data;
  return place(std::move(planned));
}

Status Reader::place(std::vector<PlannedTensor> planned) {
  std::stable_sort(
      planned.begin(), planned.end(),
      [](const PlannedTensor& a, const PlannedTensor& b) { return a.data_offset < b.data_offset; });
  std::uint64_t end = 0;  // of the tensor before, from the start of the data section
  std::string before;
  for (PlannedTensor& next : planned) {
    const std::string where = "tensor " + next.info.name;
    const auto offset = base::checked_add(out_.data_offset_bytes, next.data_offset);
    if (!offset || !base::range_fits(*offset, next.size_bytes, bytes_.size())) {
      return error(next.entry_offset, where,
                   "its data (offset " + std::to_string(next.data_offset) + ", " +
                       std::to_string(next.size_bytes) + " bytes) lie outside of the file");
    }
    if (next.data_offset < end) {
      return error(next.entry_offset, where, "its data overlap those of tensor " + before);
    }
    end = next.data_offset + next.size_bytes;
    before = next.info.name;
    next.info.offset_bytes = *offset;
    next.info.data = bytes_.subspan(*offset, next.size_bytes);
    const std::uint64_t entry_offset = next.entry_offset;
    if (!out_.tensors.insert(std::move(next.info))) {
      return error(entry_offset, where, "this tensor name occurs twice");
    }
  }
  return base::Ok{};
}

Result<GgufFile> Reader::read() {
  if (bytes_.size() > limits_.file_bytes) {
    return over_limit(0, "file size", bytes_.size(), "file_bytes", limits_.file_bytes);
  }
  LS_TRY(header());
  LS_TRY(metadata());
  LS_TRY(tensors());
  return std::move(out_);
}

}  // namespace

std::string_view name(GgufType type) {
  switch (type) {
    case GgufType::Uint8:
      return "Uint8";
    case GgufType::Int8:
      return "Int8";
    case GgufType::Uint16:
      return "Uint16";
    case GgufType::Int16:
      return "Int16";
    case GgufType::Uint32:
      return "Uint32";
    case GgufType::Int32:
      return "Int32";
    case GgufType::Float32:
      return "Float32";
    case GgufType::Bool:
      return "Bool";
    case GgufType::String:
      return "String";
    case GgufType::Array:
      return "Array";
    case GgufType::Uint64:
      return "Uint64";
    case GgufType::Int64:
      return "Int64";
    case GgufType::Float64:
      return "Float64";
  }
  LS_CHECK(false);
  return {};
}

std::int64_t GgufArray::integer(std::uint64_t index) const {
  LS_CHECK(index < count);
  const std::byte* from = raw.data() + index * fixed_bytes(element_type).value();
  switch (element_type) {
    case GgufType::Bool:
    case GgufType::Uint8:
      return load<std::uint8_t>(from);
    case GgufType::Int8:
      return load<std::int8_t>(from);
    case GgufType::Uint16:
      return load<std::uint16_t>(from);
    case GgufType::Int16:
      return load<std::int16_t>(from);
    case GgufType::Uint32:
      return load<std::uint32_t>(from);
    case GgufType::Int32:
      return load<std::int32_t>(from);
    case GgufType::Uint64:
      return static_cast<std::int64_t>(load<std::uint64_t>(from));
    case GgufType::Int64:
      return load<std::int64_t>(from);
    case GgufType::Float32:
    case GgufType::Float64:
    case GgufType::String:
    case GgufType::Array:
      break;
  }
  LS_CHECK(false, "not an array of integers");
  return 0;
}

double GgufArray::real(std::uint64_t index) const {
  LS_CHECK(index < count);
  LS_CHECK(element_type == GgufType::Float32 || element_type == GgufType::Float64);
  if (element_type == GgufType::Float32) return load<float>(raw.data() + index * 4);
  return load<double>(raw.data() + index * 8);
}

const GgufEntry* GgufFile::find(std::string_view key) const {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

Result<GgufFile> read_gguf(std::span<const std::byte> bytes, std::string_view file,
                           const base::Limits& limits) {
  return Reader(bytes, file, limits).read();
}

}  // namespace lockstep::model
