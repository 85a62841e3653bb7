// One loop over ids, compiled for three vector widths; integers, so the same bits from each.
#include "reference/ledger_logits.h"

#include <algorithm>

#include "base/check.h"
#include "reference/host_vectors.h"
#include "reference/ledger_mix.h"

namespace lockstep::reference {
namespace {

constexpr std::uint64_t kIds = std::uint64_t{1} << 20;  // tokenizer_size is at most this
constexpr double kLogitStep = 0x1p-20;

namespace baseline {
#include "reference/ledger_logits.inc"
}
LS_TARGET_BEGIN_AVX2
namespace avx2 {
#include "reference/ledger_logits.inc"
}
LS_TARGET_END
LS_TARGET_BEGIN_AVX512
namespace avx512 {
#include "reference/ledger_logits.inc"
}
LS_TARGET_END

std::int64_t largest_key(std::uint64_t prefix, std::uint64_t begin, std::uint64_t end) {
  switch (host_vectors()) {
    case HostVectors::Avx512:
      return avx512::largest_key(prefix, begin, end);
    case HostVectors::Avx2:
      return avx2::largest_key(prefix, begin, end);
    case HostVectors::Baseline:
      break;
  }
  return baseline::largest_key(prefix, begin, end);
}

}  // namespace

std::uint64_t logit_prefix(std::uint64_t row) { return absorb(first(LedgerHash::Logit), row); }

std::optional<trace::TokenId> largest_logit(std::uint64_t row, std::uint32_t tokenizer_size,
                                            std::span<const trace::TokenId> excluded) {
  LS_CHECK(tokenizer_size <= kIds);
  const std::uint64_t prefix = logit_prefix(row);
  std::int64_t best = -1;
  std::uint64_t begin = 0;
  for (const trace::TokenId id : excluded) {
    if (id >= tokenizer_size) break;
    LS_CHECK(id + std::uint64_t{1} > begin, "ascending");
    best = std::max(best, largest_key(prefix, begin, id));
    begin = id + std::uint64_t{1};
  }
  best = std::max(best, largest_key(prefix, begin, tokenizer_size));
  if (best < 0) return std::nullopt;
  return static_cast<trace::TokenId>(kIds - 1 - (static_cast<std::uint64_t>(best) & (kIds - 1)));
}

void fill_logits(std::uint64_t row, std::span<double> logits) {
  const std::uint64_t prefix = logit_prefix(row);
  switch (host_vectors()) {
    case HostVectors::Avx512:
      return avx512::fill(prefix, logits.data(), logits.size());
    case HostVectors::Avx2:
      return avx2::fill(prefix, logits.data(), logits.size());
    case HostVectors::Baseline:
      return baseline::fill(prefix, logits.data(), logits.size());
  }
}

}  // namespace lockstep::reference
