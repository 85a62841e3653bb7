// Unicode character classes that pre-tokenizers split by (Unicode 15.1), and lenient UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::model {

// Letter and Number: general categories L* and N*. Space: the property White_Space. Other: the
// rest.
enum class CharacterClass : std::uint8_t { Letter, Number, Space, Other };
CharacterClass character_class(std::uint32_t code_point);

struct Utf8Character {
  std::uint32_t code_point = 0;
  std::size_t bytes = 1;
};
// The character at the start of `text` (not empty). A byte that begins no valid UTF-8 sequence is
// U+FFFD by itself, of 1 byte.
Utf8Character first_character(std::string_view text);

}  // namespace lockstep::model
