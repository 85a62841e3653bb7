#include "harness/chained.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "reference/session.h"

namespace lockstep::harness {

using reference::Matrix;
using trace::TapPoint;

struct ChainedComparison::Sums {
  std::vector<std::vector<double>> layers;  // relative rms a position
  double logit_squares = 0, logits_max = 0, kl = 0, sigma_squares = 0;
  std::uint64_t logit_count = 0, sigma_count = 0, tokens = 0, top1 = 0, top5 = 0;
};

namespace {

std::size_t argmax(std::span<const double> values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

double log_sum_exp(std::span<const double> values) {
  const double top = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - top);
  return top + std::log(sum);
}

double kl_divergence(std::span<const double> p, std::span<const double> q) {
  const double p_norm = log_sum_exp(p), q_norm = log_sum_exp(q);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_norm;
    sum += std::exp(log_p) * (log_p - (q[i] - q_norm));
  }
  return std::max(0.0, sum);
}

std::vector<std::size_t> top_five(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t count = std::min<std::size_t>(5, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return values[a] > values[b] || (values[a] == values[b] && a < b);
                    });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

double relative_rms(std::span<const float> got, std::span<const double> want) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

std::vector<float> row_of(const trace::TapTensor& tap, std::size_t row) {
  std::vector<float> values(tap.width);
  std::memcpy(values.data(), tap.bytes.data() + row * tap.width * sizeof(float),
              tap.width * sizeof(float));
  return values;
}

}  // namespace

ChainedComparison::ChainedComparison(const model::Model& model, const trace::Scenario& scenario)
    : model_(model), scenario_(scenario) {}

void ChainedComparison::on_event(const trace::Event& event) {
  if (const auto* admitted = std::get_if<trace::RequestAdmitted>(&event)) {
    requests_[admitted->request].tokens = admitted->prompt;
  } else if (const auto* sampled = std::get_if<trace::TokenSampled>(&event)) {
    Request& request = requests_[sampled->request];
    LS_CHECK(request.tokens.size() == sampled->position);
    request.sampled[sampled->position] = sampled->argmax;
    request.tokens.push_back(sampled->fed);
  } else if (const auto* done = std::get_if<trace::OpCompleted>(&event)) {
    if (done->call.contract.op == trace::Op::AttentionPrefill) {
      tile_keys_ = done->call.contract.tile_keys;
    }
    for (const trace::TapTensor& tap : done->call.writes) keep(tap);
  }
}

void ChainedComparison::keep(const trace::TapTensor& tap) {
  if (tap.point != TapPoint::ResidOut && tap.point != TapPoint::Logits) return;
  LS_CHECK(tap.dtype == model::DType::F32);
  for (std::size_t i = 0; i < tap.rows.size(); ++i) {
    Row& row = requests_[tap.rows[i].request].rows[tap.rows[i].position];
    if (tap.point == TapPoint::Logits) {
      row.logits = row_of(tap, i);
    } else {
      row.residual[tap.layer.value] = row_of(tap, i);
    }
  }
}

base::Status ChainedComparison::compare_request(
    trace::RequestId id, const Request& request, Sums& sums,
    std::vector<trace::TokenReferenced>& referenced) const {
  if (request.sampled.empty()) return base::Ok{};
  // The last token was emitted but never fed.
  const std::size_t count = request.tokens.size() - 1;
  const std::span<const trace::TokenId> tokens(request.tokens.data(), count);
  const trace::Position first = request.sampled.begin()->first;  // of the first new token
  reference::SessionOptions options;
  options.weights = reference::WeightPrecision::F32;
  LS_ASSIGN(reference::Session pure, reference::Session::open(model_, options));
  options.declared =
      reference::DeclaredRoundings{scenario_.engine.operand_format, scenario_.engine.operand_format,
                                   scenario_.engine.operand_format, tile_keys_, first};
  LS_ASSIGN(reference::Session declared, reference::Session::open(model_, options));
  reference::ForwardRequest wanted;
  wanted.logits_from = first - 1;
  const reference::ForwardResult yardstick = declared.append(tokens, wanted);
  wanted.keep = {TapPoint::ResidOut};
  const reference::ForwardResult exact = pure.append(tokens, wanted);

  for (const auto& [position, choice] : request.sampled) {
    const std::span<const double> want = exact.logits.row(position - first);
    const std::span<const double> rounded = yardstick.logits.row(position - first);
    const std::size_t best = argmax(want);
    for (std::size_t i = 0; i < want.size(); ++i) {
      sums.sigma_squares += (rounded[i] - want[i]) * (rounded[i] - want[i]);
    }
    sums.sigma_count += want.size();
    referenced.push_back({id, position, static_cast<trace::TokenId>(best),
                          choice < want.size() ? want[best] - want[choice] : HUGE_VAL, 0});
    const auto row = request.rows.find(position - 1);
    if (row == request.rows.end() || row->second.logits.empty()) continue;
    const std::vector<double> got(row->second.logits.begin(), row->second.logits.end());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double difference = std::fabs(got[i] - want[i]);
      sums.logit_squares += difference * difference;
      sums.logits_max = std::max(sums.logits_max, difference);
    }
    sums.logit_count += want.size();
    sums.kl += kl_divergence(want, got);
    ++sums.tokens;
    sums.top1 += argmax(got) == best;
    sums.top5 += top_five(got) == top_five(want);
  }
  for (const auto& [position, row] : request.rows) {
    for (const auto& [layer, residual] : row.residual) {
      if (position >= count) continue;
      const Matrix& want = exact.kept.at({TapPoint::ResidOut, layer});
      sums.layers[layer].push_back(relative_rms(residual, want.row(position)));
    }
  }
  return base::Ok{};
}

base::Result<Drift> ChainedComparison::compare(const EventSink& sink) {
  Sums sums;
  sums.layers.resize(model_.config.layer_count);
  std::vector<trace::TokenReferenced> referenced;
  for (const auto& [id, request] : requests_) {
    LS_TRY(compare_request(id, request, sums, referenced));
  }
  Drift drift;
  const auto mean = [](double sum, std::uint64_t count) {
    return count ? sum / static_cast<double>(count) : 0.0;
  };
  drift.sigma = std::sqrt(mean(sums.sigma_squares, sums.sigma_count));
  drift.logits_rms = std::sqrt(mean(sums.logit_squares, sums.logit_count));
  drift.logits_max = sums.logits_max;
  drift.kl_mean = mean(sums.kl, sums.tokens);
  drift.tokens = sums.tokens;
  drift.top1_equal = sums.top1;
  drift.top5_equal = sums.top5;
  for (std::vector<double>& layer : sums.layers) {
    if (layer.empty()) continue;
    std::sort(layer.begin(), layer.end());
    drift.layer_median.push_back(layer[layer.size() / 2]);
    drift.layer_worst.push_back(layer.back());
  }
  for (trace::TokenReferenced& token : referenced) {
    token.sigma = drift.sigma;
    sink(token);
  }
  return drift;
}

}  // namespace lockstep::harness
