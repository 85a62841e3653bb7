// The safetensors reader: header, each tensor by itself, then all of them side by side.
#include "model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "model/json.h"

namespace lockstep::model {
namespace {

using base::Error;
using base::Result;
using base::Status;
using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;

struct PlannedTensor {
  TensorInfo info;
  std::uint64_t begin = 0, end = 0;  // in the data section
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view file, const base::Limits& limits)
      : bytes_(bytes), file_(file), limits_(limits) {}
  Result<SafetensorsFile> read();

 private:
  Error error(std::uint64_t offset, std::string where, std::string rule) const {
    return base::input_error(file_, offset, std::move(where), std::move(rule));
  }
  // Of one tensor: the parser keeps no positions, so the offset is the header's.
  Error tensor_error(const std::string& name, std::string rule) const {
    return error(kLengthBytes, "tensor " + name, std::move(rule));
  }
  Result<json> header();
  Status metadata(const json& value);
  Result<PlannedTensor> tensor(const std::string& name, const json& value) const;
  Status shape(const json& value, PlannedTensor& planned) const;
  Status offsets(const json& value, PlannedTensor& planned) const;
  Status place(std::vector<PlannedTensor> planned);

  std::span<const std::byte> bytes_;
  std::string file_;
  const base::Limits& limits_;
  std::span<const std::byte> data_;
  SafetensorsFile out_;
};

Result<json> Reader::header() {
  if (bytes_.size() > limits_.file_bytes) {
    return error(0, "file size", "exceeds the limit file_bytes");
  }
  if (bytes_.size() < kLengthBytes)
    return error(0, "header length", "the file ends: 8 bytes needed");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes_.data(), kLengthBytes);
  if (length > limits_.safetensors_header_bytes) {
    return error(0, "header length",
                 std::to_string(length) + " exceeds the limit safetensors_header_bytes (" +
                     std::to_string(limits_.safetensors_header_bytes) + ")");
  }
  if (length > bytes_.size() - kLengthBytes) {
    return error(0, "header length",
                 std::to_string(length) + " bytes, but only " +
                     std::to_string(bytes_.size() - kLengthBytes) + " follow");
  }
  data_ = bytes_.subspan(kLengthBytes + length);
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + kLengthBytes), length);
  if (text.empty() || text.front() != '{') {
    return error(kLengthBytes, "header", "must begin with '{'");
  }
  return parse_json(text, file_, limits_, kLengthBytes);
}

Status Reader::metadata(const json& value) {
  if (!value.is_object()) return error(kLengthBytes, "__metadata__", "must be an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return error(kLengthBytes, "__metadata__/" + key, "must be a string");
    }
    out_.metadata.emplace(key, text.get<std::string>());
  }
  return base::Ok{};
}

Status Reader::shape(const json& value, PlannedTensor& planned) const {
  const std::string& name = planned.info.name;
  if (!value.is_array()) return tensor_error(name, "\"shape\" must be an array");
  if (value.size() > limits_.tensor_dimensions) {
    return tensor_error(name, std::to_string(value.size()) +
                                  " axes exceed the limit tensor_dimensions (" +
                                  std::to_string(limits_.tensor_dimensions) + ")");
  }
  for (const json& axis : value) {
    if (!axis.is_number_unsigned()) {
      return tensor_error(name, "\"shape\" must hold integers of 0 or more");
    }
    planned.info.shape.push_back(axis.get<std::uint64_t>());
  }
  return base::Ok{};
}

Status Reader::offsets(const json& value, PlannedTensor& planned) const {
  const std::string& name = planned.info.name;
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned()) {
    return tensor_error(name, "\"data_offsets\" must be two integers of 0 or more");
  }
  planned.begin = value[0].get<std::uint64_t>();
  planned.end = value[1].get<std::uint64_t>();
  if (planned.begin > planned.end || planned.end > data_.size()) {
    return tensor_error(name, "data_offsets [" + std::to_string(planned.begin) + ", " +
                                  std::to_string(planned.end) + "] lie outside of the " +
                                  std::to_string(data_.size()) + " bytes of data");
  }
  std::optional<std::uint64_t> elements = 1;
  for (const std::uint64_t axis : planned.info.shape) {
    elements = base::checked_mul(*elements, axis);
    if (!elements) return tensor_error(name, "its number of elements overflows 64 bits");
  }
  const auto size = storage_bytes(planned.info.dtype, *elements);
  if (!size || *size != planned.end - planned.begin) {
    return tensor_error(name, "dtype and shape don't make the " +
                                  std::to_string(planned.end - planned.begin) +
                                  " bytes of its data_offsets");
  }
  return base::Ok{};
}

Result<PlannedTensor> Reader::tensor(const std::string& name, const json& value) const {
  if (name.empty()) return tensor_error(name, "a name must not be empty");
  if (!value.is_object()) return tensor_error(name, "must be an object");
  for (const auto& [key, unused] : value.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return tensor_error(name, "unknown key \"" + key + "\"");
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) return tensor_error(name, std::string("has no \"") + key + "\"");
  }
  const json& tag = value["dtype"];
  if (!tag.is_string()) return tensor_error(name, "\"dtype\" must be a string");
  PlannedTensor planned;
  planned.info.name = name;
  const std::optional<DType> dtype = dtype_from_safetensors(tag.get_ref<const std::string&>());
  if (!dtype) {
    Error result = tensor_error(name, "unknown dtype \"" + tag.get<std::string>() + "\"");
    result.kind = base::ErrorKind::Unsupported;
    return result;
  }
  planned.info.dtype = *dtype;
  LS_TRY(shape(value["shape"], planned));
  LS_TRY(offsets(value["data_offsets"], planned));
  return planned;
}

// The format's rule: sorted by offset, the tensors cover the data without holes or overlaps.
Status Reader::place(std::vector<PlannedTensor> planned) {
  std::stable_sort(planned.begin(), planned.end(),
                   [](const PlannedTensor& a, const PlannedTensor& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  const std::uint64_t data_offset = bytes_.size() - data_.size();
  std::uint64_t end = 0;
  for (PlannedTensor& next : planned) {
    if (next.begin != end) {
      return tensor_error(next.info.name,
                          "its data begin at " + std::to_string(next.begin) +
                              (next.begin < end ? ", inside of" : ", not at the end of") +
                              " the data before (" + std::to_string(end) + ")");
    }
    end = next.end;
    next.info.offset_bytes = data_offset + next.begin;
    next.info.data = data_.subspan(next.begin, next.end - next.begin);
    if (!out_.tensors.insert(std::move(next.info))) {
      return error(kLengthBytes, "header", "a tensor name occurs twice");
    }
  }
  if (end != data_.size()) {
    return error(data_offset + end, "tensor data",
                 std::to_string(data_.size() - end) + " bytes belong to no tensor");
  }
  return base::Ok{};
}

Result<SafetensorsFile> Reader::read() {
  LS_ASSIGN(const json document, header());
  if (document.size() > limits_.tensor_count) {
    return error(
        kLengthBytes, "header",
        "more tensors than the limit tensor_count (" + std::to_string(limits_.tensor_count) + ")");
  }
  std::vector<PlannedTensor> planned;
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__") {
      LS_TRY(metadata(value));
      continue;
    }
    LS_ASSIGN(PlannedTensor next, tensor(name, value));
    planned.push_back(std::move(next));
  }
  LS_TRY(place(std::move(planned)));
  return std::move(out_);
}

}  // namespace

Result<SafetensorsFile> read_safetensors(std::span<const std::byte> bytes, std::string_view file,
                                         const base::Limits& limits) {
  return Reader(bytes, file, limits).read();
}

}  // namespace lockstep::model
