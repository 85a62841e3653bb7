// Numbers and text as every report prints them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::harness {

std::string format_count(std::uint64_t count);          // 999, 12,345, 66.3 M, 8.1 G
std::string format_ratio(std::optional<double> ratio);  // 0.71, 2.8e+06, - for none
std::string format_error(double value);                 // 4.1e-04
// Text in double quotes, control characters and quotes escaped, cut to `width` columns of UTF-8.
std::string quote(std::string_view text, std::size_t width);
// Invalid UTF-8 becomes U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace lockstep::harness
