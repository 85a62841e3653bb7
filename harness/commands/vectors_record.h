// Parts of check_vectors: the lines of a vector file, and the fields of one record.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/commands/vectors_check.h"

namespace lockstep::harness {

// The whole text of a file, decompressed if it is zstd or gzip, within limits.json_bytes.
base::Result<std::string> read_vector_text(const std::string& path, const base::Limits& limits);

// One record with what its errors need.
struct VectorRecord {
  const std::string& path;
  std::uint64_t line;
  const nlohmann::json& json;

  base::Error error(const std::string& rule) const;
  bool has(const char* field) const;
  base::Result<std::string> text(const char* field) const;
  base::Result<std::uint64_t> number(const char* field) const;
  // `count` codes of `bits` bits each, hexadecimal, ceil(bits / 4) digits.
  base::Result<std::vector<std::uint32_t>> codes(const char* field, std::uint64_t count,
                                                 std::uint32_t bits) const;
};

std::string hexadecimal(std::uint32_t value, std::uint32_t bits);

// Counts one comparison.
void compare(VectorReport& report, const VectorOptions& options, std::uint64_t line,
             std::uint32_t want, std::uint32_t got, std::uint32_t bits,
             const std::function<std::string()>& where);

// The records of each format, one after the other.
class VectorReader {
 public:
  virtual ~VectorReader() = default;
  virtual base::Status read(const VectorRecord& record, VectorReport& report) = 0;
};
std::unique_ptr<VectorReader> make_tensor_core_reader(const VectorOptions& options);
std::unique_ptr<VectorReader> make_scalar_format_reader(const VectorOptions& options);

}  // namespace lockstep::harness
