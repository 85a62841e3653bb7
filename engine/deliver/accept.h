// Which of the tokens that a launch gave are emitted, and whether the request ends with them: EOS
// and stop ids, then the cap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "trace/scenario.h"

namespace lockstep::engine {

struct Acceptance {
  std::uint32_t emitted = 0;  // the first so many of the candidates
  bool ends = false;
  std::string_view reason;                   // stop length
  std::optional<trace::TokenId> stop_token;  // the stop id; none for EOS, as in vLLM
};

// `emitted_before`: outputs before these candidates; `length_before`: tokens of the sequence.
// Token by token: EOS and stop ids end it (never among the first min_tokens), then max_tokens and
// max_model_len; what follows the end is dropped.
Acceptance accept(const trace::RequestSpec& spec, std::span<const trace::TokenId> eos,
                  std::uint32_t max_model_len, std::uint32_t emitted_before,
                  std::uint32_t length_before, std::span<const trace::TokenId> candidates);

}  // namespace lockstep::engine
