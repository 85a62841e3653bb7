// What a GGUF's tokenizer.ggml.* keys say beside the tables.
#pragma once

#include <optional>
#include <vector>

#include "model/tokenizer.h"

namespace lockstep::model {

struct TokenizerSettings {
  bool add_space_prefix = false;
  std::vector<TokenId> prefix;  // BOS or nothing
  std::optional<TokenId> unknown;
};

}  // namespace lockstep::model
