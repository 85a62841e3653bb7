#include "harness/chained.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "reference/drift.h"
#include "reference/session.h"

namespace lockstep::harness {

using reference::Matrix;
using trace::TapPoint;

struct ChainedComparison::Sums {
  reference::Drift drift;
  double sigma_squares = 0;
  std::uint64_t sigma_count = 0;
};

namespace {

std::size_t argmax(std::span<const double> values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
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
    sums.drift.add_logits(got, want);
  }
  for (const auto& [position, row] : request.rows) {
    for (const auto& [layer, residual] : row.residual) {
      if (position >= count) continue;
      const Matrix& want = exact.kept.at({TapPoint::ResidOut, layer});
      const std::vector<double> got(residual.begin(), residual.end());
      sums.drift.add_residual(layer, {id, position}, got, want.row(position));
    }
  }
  return base::Ok{};
}

base::Result<Drift> ChainedComparison::compare(const EventSink& sink) {
  Sums sums;
  std::vector<trace::TokenReferenced> referenced;
  for (const auto& [id, request] : requests_) {
    LS_TRY(compare_request(id, request, sums, referenced));
  }
  const reference::LogitDrift logits = sums.drift.logits();
  Drift drift;
  if (sums.sigma_count > 0) {
    drift.sigma = std::sqrt(sums.sigma_squares / static_cast<double>(sums.sigma_count));
  }
  drift.logits_rms = logits.rms;
  drift.logits_max = logits.max;
  drift.kl_mean = logits.kl_mean;
  drift.tokens = logits.rows;
  drift.top1_equal = logits.top1_equal;
  drift.top5_equal = logits.top5_equal;
  for (const auto& [layer, figures] : sums.drift.layers()) {
    drift.layer_median.push_back(figures.median);
    drift.layer_worst.push_back(figures.worst);
  }
  for (trace::TokenReferenced& token : referenced) {
    token.sigma = drift.sigma;
    sink(token);
  }
  return drift;
}

}  // namespace lockstep::harness
