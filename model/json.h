// JSON text under limits: the strict grammar of RFC 8259, with duplicate keys refused (RFC 8259
// leaves them open, and a file that two readers read differently is no evidence of anything).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"

namespace lockstep::model {

// `file` and `base_offset` place messages: the text starts at that offset of the file.
// Errors (Input): json_bytes exceeded or a syntax error (`where` "JSON", at its byte); json_depth
// exceeded or a duplicate key (`where` its JSON pointer, at the offset of the text).
base::Result<nlohmann::json> parse_json(std::string_view text, std::string_view file,
                                        const base::Limits& limits, std::uint64_t base_offset = 0);

}  // namespace lockstep::model
