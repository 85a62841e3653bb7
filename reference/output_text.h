// Text of an output: its bytes decoded on their own (docs/scenario.md, "The ledger model").
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trace/ids.h"

namespace lockstep::reference {

// UTF-8 in, valid UTF-8 out: each maximal subpart of an ill-formed sequence becomes one U+FFFD
// (The Unicode Standard 15.0, section 3.9, "U+FFFD Substitution of Maximal Subparts", with table
// 3-7 of well-formed byte sequences), as do the bytes at the end that could still become a
// character.
std::string decode_utf8(std::string_view bytes);

// Token id b < 256 is the byte b; other ids have no text.
std::string output_text(std::span<const trace::TokenId> tokens);

}  // namespace lockstep::reference
