// Filters and draws over weights.
#include "engine/sample/candidates.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/sample/math.h"

namespace lockstep::engine {
namespace {

using trace::TokenId;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

bool by_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }
// Likeliest first. By logit, which no rounding of the temperature or of exp has made equal.
bool by_rank(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

double total_weight(const Candidates& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

}  // namespace

TokenId argmax(std::span<const double> logits) {
  // Eight at a time: their maximum needs no order, and it is rarely above the best so far.
  constexpr std::size_t kGroup = 8;
  const auto larger = [](double a, double b) { return b > a ? b : a; };
  double best = kMasked;
  std::size_t token = 0, id = 0;
  const auto look_at = [&](std::size_t end) {
    for (; id < end; ++id) {
      if (logits[id] > best) {
        best = logits[id];
        token = id;
      }
    }
  };
  while (logits.size() - id >= kGroup) {
    const double* group = &logits[id];
    double largest[4];
    for (std::size_t i = 0; i < 4; ++i) {
      largest[i] = larger(larger(kMasked, group[i]), group[i + 4]);
    }
    if (larger(larger(largest[0], largest[1]), larger(largest[2], largest[3])) > best) {
      look_at(id + kGroup);
    } else {
      id += kGroup;
    }
  }
  look_at(logits.size());
  return static_cast<TokenId>(token);
}

void weigh(std::span<const double> logits, double temperature, double min_p,
           Candidates& candidates) {
  candidates.clear();
  const double largest = logits[argmax(logits)];
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double logit = logits[id];
    if (!(logit > kMasked)) continue;  // masked, or NaN
    // The difference comes first: logit / temperature may overflow where the temperature is tiny.
    const double scaled = logit == largest ? 0 : (logit - largest) / temperature;
    const double weight = portable_exp(scaled);
    if (weight < min_p) continue;
    candidates.push_back({static_cast<TokenId>(id), logit, scaled, weight});
  }
}

void keep_top_k(Candidates& candidates, std::uint32_t k) {
  if (k == 0 || k >= candidates.size()) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), by_rank);
  candidates.resize(k);
  std::sort(candidates.begin(), candidates.end(), by_id);
}

void keep_top_p(Candidates& candidates, double p) {
  if (p >= 1 || candidates.size() < 2) return;
  const double enough = p * total_weight(candidates);
  std::sort(candidates.begin(), candidates.end(), by_rank);
  std::size_t kept = 0;
  double cumulative = 0;
  do {
    cumulative += candidates[kept++].weight;
  } while (cumulative < enough && kept < candidates.size());
  candidates.resize(kept);
  std::sort(candidates.begin(), candidates.end(), by_id);
}

TokenId draw_from(const Candidates& candidates, double u) {
  // The last sum below is the total, to the bit, and the total is at least 1 (the largest weight),
  // so u <= 1 - 2^-53 keeps `target` below it.
  const double target = u * total_weight(candidates);
  double cumulative = 0;
  for (const Candidate& candidate : candidates) {
    cumulative += candidate.weight;
    if (cumulative > target) return candidate.id;
  }
  LS_CHECK(false, "no candidate has any weight");
  return 0;
}

trace::TokenLogprobs list_logprobs(Candidates& candidates, TokenId token, std::uint32_t count) {
  trace::TokenLogprobs list;
  const double log_total = portable_log(total_weight(candidates));
  const std::size_t listed = std::min<std::size_t>(count, candidates.size());
  list.entries.reserve(listed + 1);
  const auto append = [&](const Candidate& candidate) {
    if (candidate.scaled > kMasked) {
      list.entries.emplace_back(candidate.id, candidate.scaled - log_total);
    }
  };
  const auto own =
      std::lower_bound(candidates.begin(), candidates.end(), Candidate{token, 0, 0, 0}, by_id);
  if (own != candidates.end() && own->id == token) append(*own);
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(listed),
                    candidates.end(), by_rank);
  for (std::size_t i = 0; i < listed; ++i) append(candidates[i]);
  return list;
}

}  // namespace lockstep::engine
