// Filters and draws over weights.
#include "engine/sample/candidates.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "engine/sample/math.h"
#include "engine/sample/precise.h"

namespace lockstep::engine {
namespace {

using trace::TokenId;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

bool by_id(const Candidate& a, const Candidate& b) { return a.id < b.id; }
// Likeliest first. By logit, which no rounding of the temperature or of exp has made equal.
bool by_rank(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// More than a weight's relative error: 1 ulp, and |scaled| < 2^10 times the two roundings in it.
constexpr double kWeightError = 0x1p-41;
// The same for sums of some of n weights against the sum of all, and their products: an ulp of
// each, n additions, and the roundings of `scaled`, whose mean is at most the entropy, below 14.
double sum_error(std::size_t n) { return static_cast<double>(n + 64) * 0x1p-51; }

double total_weight(const Candidates& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates.list) total += candidate.weight;
  return total;
}

Precise precise_prefix_sum(const Candidates& candidates, std::size_t count) {
  Precise sum;
  for (std::size_t i = 0; i < count; ++i) {
    sum =
        sum + precise_weight(candidates.list[i].logit, candidates.largest, candidates.temperature);
  }
  return sum;
}

// The least number of first candidates, `count` or more, whose exact sum `is_enough`; else all.
template <class Condition>
std::size_t precise_prefix(const Candidates& candidates, std::size_t count, Condition is_enough) {
  Precise sum = precise_prefix_sum(candidates, count);
  while (!is_enough(sum) && count < candidates.list.size()) {
    sum = sum + precise_weight(candidates.list[count++].logit, candidates.largest,
                               candidates.temperature);
  }
  return count;
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
  candidates.list.clear();
  const double largest = logits[argmax(logits)];
  candidates.largest = largest;
  candidates.temperature = temperature;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const double logit = logits[id];
    if (!(logit > kMasked)) continue;  // masked, or NaN
    // The difference comes first: logit / temperature may overflow where the temperature is tiny.
    const double scaled = logit == largest ? 0 : (logit - largest) / temperature;
    const double weight = portable_exp(scaled);
    if (weight < min_p * (1 + kWeightError)) {
      if (weight < min_p * (1 - kWeightError)) continue;
      if (precise_weight(logit, largest, temperature).high < min_p) continue;
    }
    candidates.list.push_back({static_cast<TokenId>(id), logit, scaled, weight});
  }
}

void keep_top_k(Candidates& candidates, std::uint32_t k) {
  std::vector<Candidate>& list = candidates.list;
  if (k == 0 || k >= list.size()) return;
  std::nth_element(list.begin(), list.begin() + k, list.end(), by_rank);
  list.resize(k);
  std::sort(list.begin(), list.end(), by_id);
}

void keep_top_p(Candidates& candidates, double p) {
  std::vector<Candidate>& list = candidates.list;
  if (p >= 1 || list.size() < 2) return;
  const double total = total_weight(candidates);
  const double slack = sum_error(list.size()) * total;
  std::sort(list.begin(), list.end(), by_rank);
  std::size_t kept = 0;
  double cumulative = 0;
  do {
    cumulative += list[kept++].weight;
  } while (cumulative < p * total - slack && kept < list.size());
  if (cumulative < p * total + slack) {
    const Precise all = precise_prefix_sum(candidates, list.size());
    kept = precise_prefix(candidates, kept, [&](Precise sum) { return (sum / all).high >= p; });
  }
  list.resize(kept);
  std::sort(list.begin(), list.end(), by_id);
}

TokenId draw_from(const Candidates& candidates, double u) {
  const std::vector<Candidate>& list = candidates.list;
  LS_CHECK(!list.empty());
  const double total = total_weight(candidates);
  const double slack = sum_error(list.size()) * total;
  std::size_t count = 0;
  double cumulative = 0;
  do {
    cumulative += list[count++].weight;
  } while (cumulative <= u * total - slack && count < list.size());
  if (cumulative <= u * total + slack) {
    const Precise limit = precise_prefix_sum(candidates, list.size()) * Precise{u, 0};
    count = precise_prefix(candidates, count, [&](Precise sum) { return limit < sum; });
  }
  return list[count - 1].id;
}

trace::TokenLogprobs list_logprobs(Candidates& candidates, TokenId token, std::uint32_t count) {
  std::vector<Candidate>& list = candidates.list;
  trace::TokenLogprobs logprobs;
  const double log_total = portable_log(total_weight(candidates));
  const std::size_t listed = std::min<std::size_t>(count, list.size());
  logprobs.entries.reserve(listed + 1);
  const auto append = [&](const Candidate& candidate) {
    if (candidate.scaled > kMasked) {
      logprobs.entries.emplace_back(candidate.id, candidate.scaled - log_total);
    }
  };
  const auto own = std::lower_bound(list.begin(), list.end(), Candidate{token, 0, 0, 0}, by_id);
  if (own != list.end() && own->id == token) append(*own);
  std::partial_sort(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(listed), list.end(),
                    by_rank);
  for (std::size_t i = 0; i < listed; ++i) append(list[i]);
  return logprobs;
}

}  // namespace lockstep::engine
