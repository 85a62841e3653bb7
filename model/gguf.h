// GGUF version 3, little-endian: typed metadata and tensors. Source: ggml's docs/gguf.md.
//
//   "GGUF", u32 version, u64 tensor count, u64 metadata count,
//   metadata: (string key, u32 type, value)*,
//   tensors: (string name, u32 axes, u64 size of each axis (fastest first), u32 type, u64 offset)*,
//   padding to general.alignment (32 if not given), tensor data.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "model/tensor_table.h"

namespace lockstep::model {

enum class GgufType : std::uint32_t {
  Uint8,
  Int8,
  Uint16,
  Int16,
  Uint32,
  Int32,
  Float32,
  Bool,
  String,
  Array,
  Uint64,
  Int64,
  Float64,
};
std::string_view name(GgufType type);

// An array as stored; strings are views into the file.
struct GgufArray {
  GgufType element_type = GgufType::Uint8;
  std::uint64_t count = 0;
  std::span<const std::byte> raw;         // all element types but String
  std::vector<std::string_view> strings;  // String only

  // One element of an integer or Bool array; of a Float32 or Float64 array.
  std::int64_t integer(std::uint64_t index) const;
  double real(std::uint64_t index) const;
};

// All unsigned types widen to uint64, signed to int64, floats to double (exact).
using GgufValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

struct GgufEntry {
  GgufType type = GgufType::Uint8;
  std::uint64_t offset_bytes = 0;  // of the value, in the file
  GgufValue value;
};

struct GgufFile {
  std::string file;  // for messages
  std::uint64_t alignment_bytes = 32;
  std::uint64_t data_offset_bytes = 0;
  std::map<std::string, GgufEntry, std::less<>> metadata;
  TensorTable tensors;

  const GgufEntry* find(std::string_view key) const;
};

// Reads all but tensor values. `file` names the input in messages; the views point into `bytes`.
// Errors (Input unless said; each with its offset): truncation; a limit exceeded; another version
// or byte order (Unsupported); nested arrays (Unsupported); unknown value or tensor type; a Bool
// other than 0 and 1; a duplicate key or name; an axis of 0; a row that is no multiple of its
// block; tensor data unaligned, outside of the file, or overlapping.
base::Result<GgufFile> read_gguf(std::span<const std::byte> bytes, std::string_view file,
                                 const base::Limits& limits = {});

}  // namespace lockstep::model
