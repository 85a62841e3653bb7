// The ledger's hash (docs/scenario.md, "The ledger model"): words of 64 bits, sums and products
// mod 2^64.
#pragma once

#include <cstdint>

namespace lockstep::reference {

// f: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014, with the constants of
// docs/scenario.md). A bijection.
constexpr std::uint64_t scramble(std::uint64_t z) {
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9u;
  z ^= z >> 27;
  z *= 0x94d049bb133111ebu;
  z ^= z >> 31;
  return z;
}

// mix(w1, ..., wn) = absorb(... absorb(absorb(0, w1), w2) ..., wn): a common beginning is computed
// once.
constexpr std::uint64_t absorb(std::uint64_t hash, std::uint64_t word) {
  return scramble((hash ^ word) + 0x9e3779b97f4a7c15u);
}

template <class... Words>
constexpr std::uint64_t mix(Words... words) {
  std::uint64_t hash = 0;
  ((hash = absorb(hash, words)), ...);
  return hash;
}

// First words: what a hash is of.
enum class LedgerHash : std::uint64_t {
  Input = 1,      // seed, adapter, token, position, media
  Row = 3,        // input, what each group read
  Cell = 4,       // group, row
  State = 5,      // former state, cell
  ConvValue = 6,  // distance, cell
  Logit = 7,      // row, id
};
constexpr std::uint64_t first(LedgerHash kind) {
  return absorb(0, static_cast<std::uint64_t>(kind));
}

}  // namespace lockstep::reference
