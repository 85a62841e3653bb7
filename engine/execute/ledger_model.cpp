#include "engine/execute/ledger_model.h"

#include <algorithm>
#include <limits>

namespace lockstep::engine {
namespace {

constexpr double kPaddingLogit = 32, kEosLogit = -16, kScriptLogit = 64;

bool is_eos(const trace::LedgerModel& model, trace::TokenId id) {
  return std::ranges::find(model.eos_token_ids, id) != model.eos_token_ids.end();
}

// 24 bits of an id's logit, times 2^20 in [0, 16).
std::uint64_t logit_bits(std::uint64_t prefix, std::uint64_t id) {
  return mix_in(prefix, id) >> 40;
}

// Logit above, id below, reversed: the largest of these is the lowest id of the largest logit.
[[gnu::always_inline]] inline std::uint64_t largest(std::uint64_t prefix, std::uint32_t count) {
  std::uint64_t best = 0;
  for (std::uint64_t id = 0; id < count; ++id) {
    std::uint64_t z = (prefix ^ id) + 0x9e3779b97f4a7c15u;
    z ^= z >> 30;
    z *= 0xbf58476d1ce4e5b9u;
    z ^= z >> 27;
    z *= 0x94d049bb133111ebu;
    z ^= z >> 31;
    const std::uint64_t candidate = ((z >> 40) << 32) | (0xffffffffu - id);
    best = candidate > best ? candidate : best;
  }
  return best;
}

std::uint64_t largest_scalar(std::uint64_t prefix, std::uint32_t count) {
  return largest(prefix, count);
}
// The same sums in wider registers.
[[gnu::target("avx2")]] std::uint64_t largest_avx2(std::uint64_t prefix, std::uint32_t count) {
  return largest(prefix, count);
}
[[gnu::target("avx512f,avx512dq")]] std::uint64_t largest_avx512(std::uint64_t prefix,
                                                                 std::uint32_t count) {
  return largest(prefix, count);
}

using Largest = std::uint64_t (*)(std::uint64_t, std::uint32_t);
Largest pick_largest() {
  if (__builtin_cpu_supports("avx512dq")) return largest_avx512;
  if (__builtin_cpu_supports("avx2")) return largest_avx2;
  return largest_scalar;
}
const Largest kLargest = pick_largest();

trace::TokenId id_of(std::uint64_t candidate) {
  return static_cast<trace::TokenId>(0xffffffffu - (candidate & 0xffffffffu));
}

}  // namespace

trace::TokenId greedy_token(std::uint64_t v, const trace::LedgerModel& model) {
  const std::uint64_t prefix = mix(7, v);
  const trace::TokenId best = id_of(kLargest(prefix, model.tokenizer_size));
  if (!is_eos(model, best)) return best;
  // Rare: an EOS id's own logit is -16, below all others.
  std::uint64_t second = 0;
  for (trace::TokenId id = 0; id < model.tokenizer_size; ++id) {
    if (is_eos(model, id)) continue;
    second = std::max(second, (logit_bits(prefix, id) << 32) | (0xffffffffu - id));
  }
  return second > 0 ? id_of(second) : *std::ranges::min_element(model.eos_token_ids);
}

trace::TokenId greedy_token(std::uint64_t v, const trace::LedgerModel& model,
                            const trace::ScriptEntry& entry) {
  switch (entry.kind) {
    case trace::ScriptEntry::Kind::Own:
      return greedy_token(v, model);
    case trace::ScriptEntry::Kind::Token:
      return entry.token;
    case trace::ScriptEntry::Kind::Logits: {
      trace::TokenId best = 0;
      double logit = -std::numeric_limits<double>::infinity();
      for (const auto& [id, value] : entry.logits) {
        if (value > logit) {
          best = id;
          logit = value;
        }
      }
      return best;
    }
  }
  return 0;
}

void fill_logits(std::uint64_t v, const trace::LedgerModel& model, const trace::ScriptEntry& entry,
                 std::vector<double>& logits) {
  logits.assign(model.vocab_size, kPaddingLogit);
  if (entry.kind == trace::ScriptEntry::Kind::Logits) {
    std::fill_n(logits.begin(), model.tokenizer_size, -std::numeric_limits<double>::infinity());
    for (const auto& [id, value] : entry.logits) logits[id] = value;
    return;
  }
  const std::uint64_t prefix = mix(7, v);
  for (trace::TokenId id = 0; id < model.tokenizer_size; ++id) {
    logits[id] = static_cast<double>(logit_bits(prefix, id)) * 0x1p-20;
  }
  for (const trace::TokenId id : model.eos_token_ids) logits[id] = kEosLogit;
  if (entry.kind == trace::ScriptEntry::Kind::Token) logits[entry.token] = kScriptLogit;
}

}  // namespace lockstep::engine
