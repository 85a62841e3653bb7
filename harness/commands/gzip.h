// gzip files (RFC 1952, RFC 1951), decompressed: some data sets come so.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace lockstep::harness {

bool is_gzip(const std::string& bytes);

// All members of the file, checked by their CRC-32 and length. An Error names the offset at which
// the file stops making sense, or the limit `most_bytes` of what comes out.
base::Result<std::string> gunzip(const std::string& path, const std::string& bytes,
                                 std::uint64_t most_bytes);

}  // namespace lockstep::harness
