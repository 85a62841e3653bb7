// MappedFile: the bytes of a regular file, mapped read-only for as long as the object lives.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/limits.h"

namespace lockstep::model {

class MappedFile {
 public:
  // Not a regular file, too large, or not readable: an Input error with the path and the reason.
  static base::Result<std::shared_ptr<const MappedFile>> open(const std::string& path,
                                                              const base::Limits& limits);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep::model
