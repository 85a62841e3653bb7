// Logits of the ledger: of id j, (mix(7, v, j) >> 40) / 2^20 (docs/scenario.md). In integers where
// only the order counts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trace/ids.h"

namespace lockstep::reference {

// The row hash v with the beginning (7, v) of mix absorbed.
std::uint64_t logit_prefix(std::uint64_t row);

// The id in [0, tokenizer_size) of the largest logit, the lowest id at a tie, but none of
// `excluded` (ascending, no duplicates). Null: all are excluded.
std::optional<trace::TokenId> largest_logit(std::uint64_t row, std::uint32_t tokenizer_size,
                                            std::span<const trace::TokenId> excluded);

// logits[j] for j in [0, logits.size()): multiples of 2^-20 in [0, 16), so exact.
void fill_logits(std::uint64_t row, std::span<double> logits);

}  // namespace lockstep::reference
