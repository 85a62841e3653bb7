#include "engine/deliver/accept.h"

#include <algorithm>

namespace lockstep::engine {

Acceptance accept(const trace::RequestSpec& spec, std::span<const trace::TokenId> eos,
                  std::uint32_t max_model_len, std::uint32_t emitted_before,
                  std::uint32_t length_before, std::span<const trace::TokenId> candidates) {
  const trace::SamplingParams& params = spec.sampling;
  Acceptance result;
  for (const trace::TokenId token : candidates) {
    ++result.emitted;
    const std::uint32_t emitted = emitted_before + result.emitted;
    const bool is_eos = !params.ignore_eos && std::ranges::find(eos, token) != eos.end();
    const bool is_stop =
        std::ranges::find(params.stop_token_ids, token) != params.stop_token_ids.end();
    if ((is_eos || is_stop) && emitted > params.min_tokens) {
      result.ends = true;
      result.reason = "stop";
      if (!is_eos) result.stop_token = token;
      return result;
    }
    if (emitted >= spec.max_tokens || length_before + result.emitted >= max_model_len) {
      result.ends = true;
      result.reason = "length";
      return result;
    }
  }
  return result;
}

}  // namespace lockstep::engine
