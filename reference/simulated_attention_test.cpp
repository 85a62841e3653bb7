// Attention of the simulated engine: decode in splits and tiles of f32 chains, prefill on tensor
// cores.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/formats/ieee.h"
#include "reference/simulated_engine_test.h"
#include "reference/tensor_core.h"

namespace lockstep::reference {

using model::DType;
using trace::Contract;
using trace::Op;
using trace::RowId;
using trace::TapPoint;

// fl(scale log2 e), of the scale as float.
float SimulatedEngine::score_factor() const {
  const auto scale = static_cast<float>(model_.config.attention_scale);
  return static_cast<float>(static_cast<double>(scale) * std::numbers::log2e);
}

const float* SimulatedEngine::cell(const Cells& cells, RowId row) const {
  if (has(Planted::ReadsOtherRequest) && launch_.value > 0 && row.position == 2) {
    row.request.value ^= 1;
  }
  return cells.at(row).data();
}

std::vector<trace::Position> SimulatedEngine::visible(trace::Position position,
                                                      std::uint32_t layer) const {
  std::uint32_t window = model_.config.layers[layer].window;
  const bool wider = prefill_ ? has(Planted::PrefillWindowWider) : has(Planted::DecodeWindowWider);
  if (wider && window != 0) window += 1;
  trace::Position first = window == 0 || position < window ? 0 : position + 1 - window;
  trace::Position last = position;
  if (!prefill_ && has(Planted::DecodeDropsNewest)) last -= 1;
  if (!prefill_ && has(Planted::DecodeFirstKeyLost)) first += 1;
  std::vector<trace::Position> positions;
  for (trace::Position at = first; at <= last; ++at) positions.push_back(at);
  return positions;
}

SimulatedEngine::Sums SimulatedEngine::decode_split(const float* q,
                                                    const std::vector<const float*>& keys,
                                                    const std::vector<const float*>& values) {
  const std::uint32_t size = model_.config.head_size;
  float c = score_factor();
  if (has(Planted::DecodeScoreScale)) c *= 1.001f;
  Sums sums{-std::numeric_limits<float>::infinity(), 0, std::vector<float>(size, 0.0f)};
  for (std::size_t begin = 0; begin < keys.size(); begin += tile_keys_) {
    const std::size_t end = std::min(keys.size(), begin + tile_keys_);
    std::vector<float> t;
    float m = sums.m;
    for (std::size_t j = begin; j < end; ++j) {
      t.push_back(chain(q, keys[j], size, false) * c);
      m = std::max(m, t.back());
    }
    const float factor = begin == 0 ? 0 : ex2(sums.m - m);
    sums.l *= factor;
    for (float& element : sums.o) element *= factor;
    for (std::size_t j = begin; j < end; ++j) {
      const float p = ex2(t[j - begin] - m);
      sums.l += p;
      if (has(Planted::DecodeBf16Sum)) sums.l = rounded(sums.l, DType::BF16);
      for (std::uint32_t d = 0; d < size; ++d) sums.o[d] = std::fma(p, values[j][d], sums.o[d]);
    }
    sums.m = m;
  }
  return sums;
}

void SimulatedEngine::decode_head(const float* q, const RowId& row, std::uint32_t layer,
                                  std::uint32_t head, float* out) {
  const model::ModelConfig& config = model_.config;
  std::uint32_t kv_head = head / (config.head_count / config.kv_head_count);
  if (has(Planted::DecodeWrongHead)) kv_head = (kv_head + 1) % config.kv_head_count;
  std::map<std::uint32_t, std::pair<std::vector<const float*>, std::vector<const float*>>> splits;
  for (const trace::Position position : visible(row.position, layer)) {
    auto& [keys, values] = splits[position / split_keys_];
    const std::size_t at = std::size_t{kv_head} * config.head_size;
    keys.push_back(cell(keys_[layer], {row.request, position}) + at);
    values.push_back(cell(values_[layer], {row.request, position}) + at);
  }
  std::vector<Sums> parts;
  float m = -std::numeric_limits<float>::infinity();
  for (const auto& [index, cells] : splits) {
    parts.push_back(decode_split(q, cells.first, cells.second));
    m = std::max(m, parts.back().m);
  }
  float l = 0;
  std::vector<float> o(config.head_size, 0.0f);
  for (const Sums& part : parts) {
    const float weight = ex2(part.m - m);
    l = std::fma(part.l, weight, l);
    for (std::size_t d = 0; d < o.size(); ++d) o[d] = std::fma(part.o[d], weight, o[d]);
  }
  for (std::size_t d = 0; d < o.size(); ++d) out[d] = o[d] / l;
}

void SimulatedEngine::prefill_head(const float* q, const RowId& row, std::uint32_t layer,
                                   std::uint32_t head, float* out) {
  const model::ModelConfig& config = model_.config;
  const std::uint32_t size = config.head_size;
  const std::size_t at = std::size_t{head / (config.head_count / config.kv_head_count)} * size;
  std::vector<trace::Position> positions = visible(row.position, layer);
  const RowId next{row.request, row.position + 1};
  if (has(Planted::PrefillSeesFuture) && keys_[layer].contains(next)) {
    positions.push_back(next.position);
  }
  const float c = score_factor();
  const auto q_bits = narrow_row_of(operand_format_, q, size);
  float m = -std::numeric_limits<float>::infinity(), l = 0;
  std::vector<std::uint32_t> o(size, 0);
  for (std::size_t begin = 0; begin < positions.size();) {
    const std::uint32_t tile = positions[begin] / tile_keys_;
    std::vector<float> t(tile_keys_, -std::numeric_limits<float>::infinity());
    std::vector<std::uint16_t> p_bits(tile_keys_, 0);
    std::size_t end = begin;
    for (; end < positions.size() && positions[end] / tile_keys_ == tile; ++end) {
      const float* key = cell(keys_[layer], {row.request, positions[end]}) + at;
      const std::uint32_t score = tensor_core_chain(device_.f16, operand_format_, 16, q_bits,
                                                    narrow_row_of(operand_format_, key, size), 0);
      t[positions[end] % tile_keys_] = std::bit_cast<float>(score) * c;
    }
    const float raised = std::max(m, *std::max_element(t.begin(), t.end()));
    const float factor = begin == 0 ? 0 : ex2(m - raised);
    l *= factor;
    for (std::uint32_t& element : o) {
      if (has(Planted::PrefillStaleRescale)) continue;
      element = std::bit_cast<std::uint32_t>(std::bit_cast<float>(element) * factor);
    }
    for (std::uint32_t j = 0; j < tile_keys_; ++j) {
      if (std::isinf(t[j])) continue;
      const float exact = ex2(t[j] - raised);
      float p = rounded(exact, operand_format_);
      if (has(Planted::PrefillTruncatesP)) p = cut_of(exact, operand_format_);
      p_bits[j] = narrow_bits_of(operand_format_, p);
      if (!(has(Planted::PrefillLosesTile) && begin == 0 && end < positions.size())) l += p;
    }
    for (std::uint32_t d = 0; d < size; ++d) {
      std::vector<std::uint16_t> v_bits(tile_keys_, 0);
      for (std::size_t j = begin; j < end; ++j) {
        const float* value = cell(values_[layer], {row.request, positions[j]}) + at;
        v_bits[positions[j] % tile_keys_] = narrow_bits_of(operand_format_, value[d]);
      }
      o[d] = tensor_core_chain(device_.f16, operand_format_, 16, p_bits, v_bits, o[d]);
    }
    m = raised;
    begin = end;
  }
  for (std::uint32_t d = 0; d < size; ++d) {
    out[d] = std::bit_cast<float>(o[d]) / l * (has(Planted::PrefillValueScale) ? 1.001f : 1.0f);
  }
}

SimulatedEngine::Tensor SimulatedEngine::attention(const Tensor& q) {
  Tensor out = make(TapPoint::Attn, q.layer, q.width, q.rows, true);
  const std::uint32_t size = model_.config.head_size;
  for (std::size_t i = 0; i < q.rows.size(); ++i) {
    for (std::uint32_t head = 0; head < model_.config.head_count; ++head) {
      const std::size_t at = std::size_t{head} * size;
      if (prefill_) {
        prefill_head(q.row(i) + at, q.rows[i], q.layer, head, out.row(i) + at);
      } else {
        decode_head(q.row(i) + at, q.rows[i], q.layer, head, out.row(i) + at);
      }
    }
  }
  for (float& value : out.values) value = rounded(value, out.dtype);
  std::map<trace::RequestId, trace::Position> lengths;
  for (const RowId& row : q.rows) {
    lengths[row.request] = std::max(lengths[row.request], row.position + 1);
  }
  std::vector<RowId> cells;
  for (const auto& [request, length] : lengths) {
    for (trace::Position position = 0; position < length; ++position) {
      cells.push_back({request, position});
    }
  }
  Contract contract{.op = prefill_ ? Op::AttentionPrefill : Op::AttentionDecode};
  contract.tile_keys = tile_keys_;
  contract.approximate.ex2 = true;
  contract.output_format = out.dtype;
  if (prefill_) {
    contract.input_format = contract.weight_format = operand_format_;
    contract.probability_format = operand_format_;
    contract.sum = trace::SumKind::TensorCore;
  } else {
    contract.sum = trace::SumKind::F32Chains;
    contract.split_keys = split_keys_;
    contract.depth_scores = chain_depth(size);
    contract.depth_output = contract.depth_sum = split_keys_ + split_keys_ / tile_keys_;
    contract.rescales = split_keys_ / tile_keys_ + 1;
  }
  send(contract, q.layer,
       {tap(q), cell_tap(TapPoint::KCell, q.layer, cells, true),
        cell_tap(TapPoint::VCell, q.layer, cells, true)},
       {tap(out)});
  return out;
}

}  // namespace lockstep::reference
