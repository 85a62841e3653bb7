// Shares in fixed point; candidates as plain lists. No step of it is shared with engine/sample.
#include "reference/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "reference/fixed.h"

namespace lockstep::reference {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// A logit against the largest, over the temperature: (l - max) / T.
struct Distance {
  double coarse = 0;  // the quotient rounded, and
  double fine = 0;    // what rounding took away
};

Distance distance(double logit, double largest, double temperature) {
  if (logit == largest) return {};
  const double difference = logit - largest;
  if (!std::isfinite(difference)) return {kMasked, 0};
  // The rounding error of a difference is a double (Knuth, TAOCP vol. 2, 4.2.2, theorem B).
  const double shadow = difference - logit;
  const double error = (logit - (difference - shadow)) - (largest + shadow);
  if (temperature == 1) return {difference, error};
  const double quotient = difference / temperature;
  if (!std::isfinite(quotient)) return {kMasked, 0};
  // The remainder of a division is one too (Boldo, Daumas, ARITH 16, 2003).
  const double remainder = std::fma(-quotient, temperature, difference) + error;
  return {quotient, remainder / temperature};
}

constexpr double kFar = -0x1p20;  // beyond it e^x is 0 by any measure

Fixed fixed_distance(const Distance& x) {
  const Fixed coarse = to_fixed(x.coarse);
  return x.fine == 0 ? coarse : std::min<Fixed>(0, coarse + to_fixed(x.fine));
}

UnsignedFixed share_of(const Distance& x) {
  return x.coarse < kFar ? 1 : exp_fixed(fixed_distance(x));
}

struct Candidate {
  trace::TokenId id = 0;
  double logit = 0;
  UnsignedFixed share = 0;
};

// Likeliest first, lower ids first among equals.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
bool by_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }

trace::TokenId largest_of(std::span<const double> logits) {
  return static_cast<trace::TokenId>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
}

// What isn't masked, by id, with shares.
std::vector<Candidate> candidates_of(std::span<const double> logits, double temperature) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  const double largest = logits[largest_of(logits)];
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == kMasked) continue;
    candidates.push_back({static_cast<trace::TokenId>(id), logits[id],
                          share_of(distance(logits[id], largest, temperature))});
  }
  return candidates;
}

UnsignedFixed total_of(std::span<const Candidate> candidates) {
  UnsignedFixed total = 0;
  for (const Candidate& candidate : candidates) total += candidate.share;
  return total;
}

// The least x whose ratio to `whole`, as the nearest double, is at least `probability` (in (0, 1]):
// whole times the middle between that double and the one below it.
UnsignedFixed threshold_of(UnsignedFixed whole, double probability) {
  int exponent = 0;
  const double mantissa = std::frexp(probability, &exponent);  // in [1/2, 1)
  // The middle, in steps of 2^(exponent - 55): the double below a power of two is half as far.
  const std::uint64_t steps = static_cast<std::uint64_t>(mantissa * 0x1p55);
  const std::uint64_t middle = steps - (mantissa == 0.5 ? 1 : 2);
  const Scaled scaled = multiply_shift(whole, middle, 55 - exponent);
  return scaled.floor + (scaled.inexact ? 1 : 0);
}

void apply_bias_and_mask(const ChoiceInput& input, std::span<double> logits) {
  const trace::SamplingParams& params = *input.params;
  if (input.output_count < params.min_tokens) {
    for (const auto ids : {input.eos, std::span<const trace::TokenId>(params.stop_token_ids)}) {
      for (const trace::TokenId id : ids) {
        if (id < logits.size()) logits[id] = kMasked;
      }
    }
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < logits.size()) logits[id] += bias;
  }
}

void apply_penalties(const ChoiceInput& input, std::span<double> logits) {
  const trace::SamplingParams& params = *input.params;
  if (!params.has_penalties()) return;
  LS_CHECK(input.history != nullptr);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (!input.history->seen(id)) continue;
    double& logit = logits[id];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    const std::uint32_t count = input.history->output_count(id);
    if (count == 0) continue;
    logit -= params.frequency_penalty * count;
    logit -= params.presence_penalty;
  }
}

// min_p, top_k, top_p, in this order.
void restrict_to_likely(const trace::SamplingParams& params, std::vector<Candidate>& candidates) {
  if (params.min_p > 0) {
    const UnsignedFixed least = threshold_of(kFixedOne, params.min_p);
    std::erase_if(candidates, [&](const Candidate& c) { return c.share < least; });
  }
  const bool limits_count = params.top_k > 0 && params.top_k < candidates.size();
  if ((!limits_count && params.top_p >= 1) || candidates.empty()) return;
  // A heap gives the likeliest first, as many as are wanted.
  const auto after = [](const Candidate& a, const Candidate& b) { return before(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), after);
  std::vector<Candidate> kept;
  const auto keep_next = [&] {
    std::pop_heap(candidates.begin(), candidates.end(), after);
    kept.push_back(candidates.back());
    candidates.pop_back();
  };
  if (limits_count) {
    while (kept.size() < params.top_k) keep_next();
    std::swap(kept, candidates);
    kept.clear();
    // Likeliest first is a heap too.
  }
  if (params.top_p < 1) {
    UnsignedFixed wanted = 0;
    if (params.top_p > 0) wanted = threshold_of(total_of(candidates), params.top_p);
    UnsignedFixed sum = 0;
    do {
      keep_next();
      sum += kept.back().share;
    } while (sum < wanted && !candidates.empty());
    std::swap(kept, candidates);
  }
  std::sort(candidates.begin(), candidates.end(), by_id);
}

trace::TokenId draw_from(std::span<const Candidate> candidates, double u) {
  // sum > u * total, where u = steps / 2^53; a whole number exceeds a real one if it exceeds its
  // floor.
  const auto steps = static_cast<std::uint64_t>(u * 0x1p53);
  const UnsignedFixed limit = multiply_shift(total_of(candidates), steps, 53).floor;
  UnsignedFixed sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += candidate.share;
    if (sum > limit) return candidate.id;
  }
  LS_CHECK(false, "u is below 1");
}

// Of `token`, then of the `count` likeliest. `candidates`: what isn't masked, in any order.
trace::TokenLogprobs logprobs_of(std::vector<Candidate> candidates, double temperature,
                                 trace::TokenId token, std::uint32_t count) {
  trace::TokenLogprobs listed;
  if (candidates.empty()) return listed;
  const auto own = std::find_if(candidates.begin(), candidates.end(),
                                [&](const Candidate& c) { return c.id == token; });
  std::vector<Candidate> chosen;
  if (own != candidates.end()) chosen.push_back(*own);
  const auto listed_count = std::min<std::size_t>(std::max(count, 1u), candidates.size());
  std::partial_sort(candidates.begin(),
                    candidates.begin() + static_cast<std::ptrdiff_t>(listed_count),
                    candidates.end(), before);
  const double largest = candidates.front().logit;
  if (count > 0) {
    chosen.insert(chosen.end(), candidates.begin(),
                  candidates.begin() + static_cast<std::ptrdiff_t>(listed_count));
  }
  const Fixed log_total = log_fixed(total_of(candidates));
  for (const Candidate& candidate : chosen) {
    const Distance x = distance(candidate.logit, largest, temperature);
    const double value = x.coarse < kFar ? x.coarse + (x.fine - to_double(log_total))
                                         : to_double(fixed_distance(x) - log_total);
    listed.entries.emplace_back(candidate.id, value);
  }
  return listed;
}

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  // Salmon et al., table 2 and figure 2: multipliers and Weyl increments of Philox4x32.
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xd2511f53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xcd9e8d57} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1],
               low(first)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
  }
  return counter;
}

double uniform(const trace::DrawAddress& address) {
  const std::array<std::uint32_t, 4> words =
      philox4x32_10({low(address.position), high(address.position),
                     static_cast<std::uint32_t>(address.purpose), address.candidate},
                    {low(address.seed), high(address.seed)});
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

TokenHistory::TokenHistory(std::uint32_t tokenizer_size, std::span<const trace::TokenId> prompt)
    : in_prompt_(tokenizer_size), output_counts_(tokenizer_size) {
  for (const trace::TokenId token : prompt) {
    if (token < tokenizer_size) in_prompt_[token] = 1;
  }
}

void TokenHistory::add_output(trace::TokenId token) {
  if (token < output_counts_.size()) ++output_counts_[token];
}

Choice choose(const ChoiceInput& input, std::vector<double>& logits) {
  LS_CHECK(input.params != nullptr && !logits.empty());
  const trace::SamplingParams& params = *input.params;
  std::vector<Candidate> raw;
  if (params.logprobs && !params.processed_logprobs) raw = candidates_of(logits, 1);
  apply_bias_and_mask(input, logits);
  apply_penalties(input, logits);

  Choice choice;
  choice.token = largest_of(logits);
  const bool greedy = params.temperature == 0 || logits[choice.token] == kMasked;
  const double temperature = greedy ? 1 : params.temperature;
  std::vector<Candidate> candidates;
  if (!greedy || (params.logprobs && params.processed_logprobs)) {
    candidates = candidates_of(logits, temperature);
  }
  if (!greedy) {
    restrict_to_likely(params, candidates);
    choice.draw = trace::DrawResult{input.address, uniform(input.address)};
    choice.token = draw_from(candidates, choice.draw->u);
  }
  if (params.logprobs) {
    choice.logprobs =
        params.processed_logprobs
            ? logprobs_of(std::move(candidates), temperature, choice.token, *params.logprobs)
            : logprobs_of(std::move(raw), 1, choice.token, *params.logprobs);
  }
  return choice;
}

}  // namespace lockstep::reference
