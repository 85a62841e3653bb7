// The ledger's arithmetic, as an engine computes it (docs/scenario.md, "The ledger model"). Words
// are 64 bit, sums and products mod 2^64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/scenario.h"

namespace lockstep::engine {

inline std::uint64_t scramble(std::uint64_t z) {
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9u;
  z ^= z >> 27;
  z *= 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
inline std::uint64_t mix_in(std::uint64_t hash, std::uint64_t word) {
  return scramble((hash ^ word) + 0x9e3779b97f4a7c15u);
}
template <class... Words>
std::uint64_t mix(Words... words) {
  std::uint64_t hash = 0;
  ((hash = mix_in(hash, static_cast<std::uint64_t>(words))), ...);
  return hash;
}

// Largest own logit of row value `v` that is no EOS; the lowest id at a tie.
trace::TokenId greedy_token(std::uint64_t v, const trace::LedgerModel& model);
// As greedy_token, with the script's entry for this output index.
trace::TokenId greedy_token(std::uint64_t v, const trace::LedgerModel& model,
                            const trace::ScriptEntry& entry);
// All logits, [vocab_size]: ids below tokenizer_size, then padding columns.
void fill_logits(std::uint64_t v, const trace::LedgerModel& model, const trace::ScriptEntry& entry,
                 std::vector<double>& logits);

}  // namespace lockstep::engine
