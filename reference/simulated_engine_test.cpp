#include "reference/simulated_engine_test.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "reference/formats/ieee.h"
#include "reference/models/graph.h"
#include "reference/tensor_core.h"
#include "reference/weights.h"

namespace lockstep::reference {

using model::DType;
using model::WeightRole;
using trace::Contract;
using trace::Op;
using trace::RowId;
using trace::TapPoint;
using trace::TapTensor;

float cut_of(float x, DType format) {
  // For f16 of normal size and bf16: low bits away.
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>(bits & (format == DType::F16 ? 0xffffe000u : 0xffff0000u));
}

std::uint16_t narrow_bits_of(DType format, float x) {
  return static_cast<std::uint16_t>(bits_of_value(format, static_cast<double>(x)));
}

std::vector<std::uint16_t> narrow_row_of(DType format, const float* x, std::size_t n) {
  std::vector<std::uint16_t> bits(n);
  for (std::size_t i = 0; i < n; ++i) bits[i] = narrow_bits_of(format, x[i]);
  return bits;
}

SimulatedEngine::SimulatedEngine(const model::Model& model, const trace::DeviceInfo& device,
                                 DType operand_format, DType cell_format, std::uint64_t seed,
                                 Planted planted)
    : model_(model),
      device_(device),
      operand_format_(operand_format),
      cell_format_(cell_format),
      planted_(planted),
      prng_(seed),
      keys_(model.config.layer_count),
      values_(model.config.layer_count) {
  lanes_ = 1u << prng_.below(6);
  tile_keys_ = 16u << prng_.below(2);
  split_keys_ = tile_keys_ << prng_.below(2);
}

SimulatedEngine::Tensor SimulatedEngine::make(TapPoint point, std::uint32_t layer,
                                              std::uint32_t width, const std::vector<RowId>& rows,
                                              bool narrow) const {
  Tensor tensor{point, layer, width, narrow && prefill_ ? operand_format_ : DType::F32, rows, {}};
  tensor.values.resize(rows.size() * width);
  return tensor;
}

TapTensor SimulatedEngine::tap(const Tensor& tensor) const {
  TapTensor out{tensor.point, {tensor.layer}, tensor.dtype, tensor.width, tensor.rows, {}};
  for (const float value : tensor.values) {
    std::uint32_t bits = bits_of_value(tensor.dtype, static_cast<double>(value));
    if (tensor.dtype == DType::F32) bits = std::bit_cast<std::uint32_t>(value);
    const std::size_t size = tensor.dtype == DType::F32 ? 4 : 2;
    const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
    out.bytes.insert(out.bytes.end(), bytes, bytes + size);
  }
  return out;
}

TapTensor SimulatedEngine::cell_tap(TapPoint point, std::uint32_t layer,
                                    const std::vector<RowId>& rows, bool read) const {
  const Cells& cells = point == TapPoint::KCell ? keys_[layer] : values_[layer];
  Tensor tensor{point, layer, 0, cell_format_, rows, {}};
  for (const RowId& row : rows) {
    RowId from = row;
    if (read && has(Planted::ReadsOtherRequest) && launch_.value > 0 && row.position == 2) {
      from.request.value ^= 1;
    }
    const std::vector<float>& values = cells.at(from);
    tensor.width = static_cast<std::uint32_t>(values.size());
    tensor.values.insert(tensor.values.end(), values.begin(), values.end());
  }
  return tap(tensor);
}

void SimulatedEngine::send(Contract contract, std::uint32_t layer, std::vector<TapTensor> reads,
                           std::vector<TapTensor> writes) {
  trace::OpCall call;
  call.contract = std::move(contract);
  call.layer = {layer};
  call.launch = launch_;
  call.prefill = prefill_;
  call.reads = std::move(reads);
  call.writes = std::move(writes);
  calls_.push_back(std::move(call));
}

// Within 2^-22, its rounding to float included.
float SimulatedEngine::ex2(float x) {
  const double error = (prng_.below(2) == 0 ? 0.7 : -0.7) * 0x1p-22;
  return static_cast<float>(std::exp2(static_cast<double>(x)) * (x == 0 ? 1 : 1 + error));
}

// Within 2^-22.9 = 1.278e-7, the rounding of 6e-8 included.
float SimulatedEngine::reciprocal_root(float x) {
  const double error = prng_.below(2) == 0 ? 6.5e-8 : -6.5e-8;
  return static_cast<float>((1 + error) / std::sqrt(static_cast<double>(x)));
}

float SimulatedEngine::rounded(float x, DType format) const {
  return static_cast<float>(round_to(format, static_cast<double>(x)));
}

std::uint32_t SimulatedEngine::chain_depth(std::size_t n) const {
  return static_cast<std::uint32_t>((n + lanes_ - 1) / lanes_) +
         static_cast<std::uint32_t>(std::bit_width(lanes_));
}

// fma chains by i mod lanes, then a tree.
float SimulatedEngine::chain(const float* a, const float* b, std::size_t n, bool bf16) const {
  std::vector<float> part(lanes_, 0.0f);
  for (std::size_t i = 0; i < n; ++i) {
    float& sum = part[i % lanes_];
    sum = std::fma(a[i], b[i], sum);
    if (bf16) sum = rounded(sum, DType::BF16);
  }
  for (std::size_t step = lanes_ / 2; step > 0; step /= 2) {
    for (std::size_t i = 0; i < step; ++i) part[i] += part[i + step];
  }
  return part[0];
}

const std::vector<float>& SimulatedEngine::matrix(WeightRole role, std::uint32_t layer) {
  if (has(Planted::WrongLayerWeights) && layer == 1 && role == WeightRole::Up) layer = 0;
  std::vector<float>& made = matrices_[{role, layer}];
  if (!made.empty()) return made;
  const model::TensorInfo* tensor = model_.weight(role, layer);
  if (tensor == nullptr) tensor = model_.weight(WeightRole::TokenEmbedding);
  auto weight = Weight::open(*tensor, WeightPrecision::F32);
  LS_CHECK(weight.ok());
  std::vector<double> values(weight->outputs() * weight->inputs());
  weight->rows(0, weight->outputs(), values);
  made.assign(values.begin(), values.end());
  return made;
}

std::vector<float> SimulatedEngine::norm_vector(WeightRole role, std::uint32_t layer) {
  std::vector<float> values = matrix(role, layer);
  for (float& value : values) {
    if (model_.config.norm_weight_plus_one) {
      value = static_cast<float>(1 + static_cast<double>(value));
    }
    if (has(Planted::NormOneMore)) value += 1;
  }
  return values;
}

void SimulatedEngine::norm_row(const float* x, const std::vector<float>& weight, float* out) {
  const std::size_t n = weight.size();
  const std::size_t summed = has(Planted::NormDropsLast) ? n - 1 : n;
  const float sum = chain(x, x, summed, has(Planted::NormBf16Sum));
  const auto count = static_cast<float>(has(Planted::NormCountLess) ? n - 1 : n);
  const auto epsilon = static_cast<float>(model_.config.rms_norm_epsilon);
  float scale = reciprocal_root(sum * (1 / count) + epsilon);
  if (has(Planted::NormEpsilonOutside)) scale = 1 / (std::sqrt(sum / count) + epsilon);
  if (has(Planted::NormScale)) scale *= 1.001f;
  for (std::size_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

SimulatedEngine::Tensor SimulatedEngine::embed(const std::vector<Chunk>& chunks) {
  TapTensor tokens{TapPoint::Token, {}, DType::I32, 1, {}, {}};
  for (const Chunk& chunk : chunks) {
    for (std::size_t i = 0; i < chunk.tokens.size(); ++i) {
      tokens.rows.push_back({chunk.request, chunk.first + static_cast<std::uint32_t>(i)});
      const auto* bytes = reinterpret_cast<const std::byte*>(&chunk.tokens[i]);
      tokens.bytes.insert(tokens.bytes.end(), bytes, bytes + 4);
    }
  }
  Tensor out = make(TapPoint::Embed, 0, model_.config.hidden_size, tokens.rows);
  const std::vector<float>& table = matrix(WeightRole::TokenEmbedding, 0);
  float scale = static_cast<float>(model_.config.embedding_scale);
  if (has(Planted::EmbedUnscaled)) scale = 1;
  for (std::size_t i = 0; i < out.rows.size(); ++i) {
    trace::TokenId token = 0;
    std::memcpy(&token, tokens.bytes.data() + 4 * i, 4);
    for (std::uint32_t d = 0; d < out.width; ++d) {
      out.row(i)[d] = table[std::size_t{token} * out.width + d] * scale;
    }
  }
  send({.op = Op::EmbedRows}, 0, {tokens}, {tap(out)});
  return out;
}

SimulatedEngine::Tensor SimulatedEngine::norm(const Tensor& x, WeightRole role, std::uint32_t layer,
                                              TapPoint out_point, bool narrow) {
  Tensor out = make(out_point, layer, x.width, x.rows, narrow);
  const std::vector<float> weight = norm_vector(role, layer);
  for (std::size_t i = 0; i < x.rows.size(); ++i) norm_row(x.row(i), weight, out.row(i));
  for (float& value : out.values) value = rounded(value, out.dtype);
  send({.op = Op::RmsNorm,
        .sum = trace::SumKind::F32Chains,
        .rounding_depth = chain_depth(x.width),
        .approximate = {.rsqrt = true},
        .output_format = out.dtype},
       layer, {tap(x)}, {tap(out)});
  return out;
}

void SimulatedEngine::product_rows(const Tensor& x, const std::vector<float>& weights,
                                   bool tensor_cores, Tensor& y) const {
  trace::TensorCoreInfo info = device_.f16;
  if (has(Planted::GemmOtherGeneration)) {
    info = info.products == 16 ? trace::TensorCoreInfo{8, 24, -132}
                               : trace::TensorCoreInfo{16, 25, -133};
  }
  const std::size_t dropped = has(Planted::GemmDropsBlock) ? 16 : 0;
  for (std::uint32_t o = 0; o < y.width; ++o) {
    const float* w = weights.data() + std::size_t{o} * x.width;
    std::vector<float> operand(w, w + x.width);
    for (float& value : operand) {
      if (has(Planted::GemmTruncates)) value = cut_of(value, operand_format_);
    }
    const auto w_bits = narrow_row_of(operand_format_, operand.data(), operand.size() - dropped);
    for (std::size_t i = 0; i < x.rows.size(); ++i) {
      float& result = y.row(i)[o];
      if (tensor_cores) {
        const auto x_bits = narrow_row_of(operand_format_, x.row(i), x.width - dropped);
        result =
            std::bit_cast<float>(tensor_core_chain(info, operand_format_, 16, x_bits, w_bits, 0));
        continue;
      }
      std::vector<float> in(x.row(i), x.row(i) + x.width);
      if (has(Planted::GemvInputF16)) {
        for (float& value : in) value = rounded(value, DType::F16);
      }
      result = chain(in.data(), w, x.width - (has(Planted::GemvDropsLast) ? 1 : 0),
                     has(Planted::GemvBf16Sum));
      if (has(Planted::GemvScale)) result *= 1.001f;
    }
  }
}

SimulatedEngine::Tensor SimulatedEngine::product(const Tensor& x, WeightRole role,
                                                 std::uint32_t layer, TapPoint out_point) {
  const std::vector<float>& weights = matrix(role, layer);
  const auto outputs = static_cast<std::uint32_t>(weights.size() / x.width);
  Tensor y = make(out_point, layer, outputs, x.rows);
  const bool tensor_cores = prefill_ && out_point != TapPoint::Logits;
  product_rows(x, weights, tensor_cores, y);
  Contract contract{.op = tensor_cores ? Op::Gemm : Op::Gemv};
  if (tensor_cores) {
    contract.input_format = contract.weight_format = operand_format_;
    contract.sum = trace::SumKind::TensorCore;
  } else {
    contract.sum = trace::SumKind::F32Chains;
    contract.rounding_depth = chain_depth(x.width);
  }
  send(contract, layer, {tap(x)}, {tap(y)});
  return y;
}

void SimulatedEngine::rotate_row(const float* raw, const std::vector<float>& norm_weight,
                                 trace::Position position, std::uint32_t layer, std::uint32_t width,
                                 float* out) {
  const model::ModelConfig& config = model_.config;
  const std::uint32_t half = config.head_size / 2;
  AttentionFacts facts = attention_facts(config, layer);
  if (has(Planted::RopeNextPosition)) position += 1;
  bool halves = config.rope_pairing == model::RopePairing::Half;
  if (has(Planted::RopePairing)) halves = !halves;
  std::vector<float> x(config.head_size);
  for (std::uint32_t start = 0; start < width; start += config.head_size) {
    std::copy(raw + start, raw + start + config.head_size, x.begin());
    if (!norm_weight.empty()) norm_row(raw + start, norm_weight, x.data());
    for (std::uint32_t i = 0; i < half; ++i) {
      double frequency = facts.rope_frequencies[i];
      if (has(Planted::RopeBase)) frequency = std::pow(9999.0, -2.0 * i / config.head_size);
      float c = static_cast<float>(std::cos(position * frequency));
      float s = static_cast<float>(std::sin(position * frequency));
      if (has(Planted::RopeBf16Table)) {
        c = rounded(c, DType::BF16);
        s = rounded(s, DType::BF16);
      }
      const std::uint32_t first = halves ? i : 2 * i;
      const std::uint32_t second = halves ? i + half : 2 * i + 1;
      out[start + first] = x[first] * c - x[second] * s;
      out[start + second] = std::fma(x[first], s, x[second] * c);
    }
  }
}

SimulatedEngine::Tensor SimulatedEngine::rope(const Tensor& q, const Tensor& k, const Tensor& v) {
  std::vector<float> q_norm, k_norm;
  if (model_.config.qk_norm) {
    q_norm = norm_vector(WeightRole::QueryNorm, q.layer);
    k_norm = norm_vector(WeightRole::KeyNorm, q.layer);
  }
  Tensor out = make(TapPoint::QRot, q.layer, q.width, q.rows, true);
  for (std::size_t i = 0; i < q.rows.size(); ++i) {
    const trace::Position position = q.rows[i].position;
    rotate_row(q.row(i), q_norm, position, q.layer, q.width, out.row(i));
    std::vector<float> key(k.width);
    std::vector<float> value(v.row(i), v.row(i) + v.width);
    rotate_row(k.row(i), k_norm, position, q.layer, k.width, key.data());
    for (auto* cells : {&key, &value}) {
      for (float& x : *cells) {
        if (has(Planted::CellsTruncated)) x = cut_of(x, cell_format_);
        x = rounded(x, cell_format_);
      }
    }
    keys_[q.layer][q.rows[i]] = key;
    values_[q.layer][q.rows[i]] = value;
  }
  for (float& value : out.values) value = rounded(value, out.dtype);
  send({.op = Op::RopeKvWrite,
        .rounding_depth = chain_depth(model_.config.head_size),
        .approximate = {.rsqrt = true},
        .output_format = out.dtype,
        .second_output_format = cell_format_},
       q.layer, {tap(q), tap(k), tap(v)},
       {tap(out), cell_tap(TapPoint::KCell, q.layer, q.rows, false),
        cell_tap(TapPoint::VCell, q.layer, q.rows, false)});
  return out;
}

SimulatedEngine::Tensor SimulatedEngine::gate(const Tensor& g, const Tensor& up) {
  Tensor out = make(TapPoint::Act, g.layer, g.width, g.rows, true);
  bool gelu = model_.config.activation == model::Activation::GeluTanh;
  if (has(Planted::GateOtherActivation)) gelu = !gelu;
  const float k1 = has(Planted::GateConstant) ? 0.0447f : 0.044715f;
  const auto k0 = static_cast<float>(std::sqrt(2 / std::numbers::pi));
  const auto log2e = static_cast<float>(std::numbers::log2e);
  Tensor read_up = up;
  if (has(Planted::ReadsStaleGate) && up.rows.size() > 1) {
    std::copy(up.row(1), up.row(1) + up.width, read_up.row(0));
  }
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    const float x = g.values[i];
    const float z = k0 * (x + k1 * x * x * x);
    float activated = x / (1 + ex2(-(gelu ? 2 * z : x) * log2e));
    if (has(Planted::GateTanhApprox)) {
      const float t = std::tanh(z);
      activated = 0.5f * x * (1 + t * (1 + 0x1p-11f));
    }
    out.values[i] = rounded(activated * read_up.values[i], out.dtype);
  }
  send({.op = Op::Gate, .approximate = {.ex2 = true}, .output_format = out.dtype}, g.layer,
       {tap(g), tap(read_up)}, {tap(out)});
  return out;
}

SimulatedEngine::Tensor SimulatedEngine::add(const Tensor& a, const Tensor& b, TapPoint out_point) {
  Tensor out = make(out_point, b.layer, a.width, a.rows);
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = a.values[i] + b.values[i];
    if (has(Planted::ResidualF16)) out.values[i] = rounded(out.values[i], DType::F16);
  }
  send({.op = Op::ResidualAdd}, b.layer, {tap(a), tap(b)}, {tap(out)});
  return out;
}

std::vector<trace::TokenId> SimulatedEngine::argmax(const Tensor& logits) {
  TapTensor tokens{TapPoint::Token, {}, DType::I32, 1, logits.rows, {}};
  std::vector<trace::TokenId> chosen;
  for (std::size_t i = 0; i < logits.rows.size(); ++i) {
    trace::TokenId best = 0;
    for (std::uint32_t id = 0; id < logits.width; ++id) {
      const float value = logits.row(i)[id];
      const float most = logits.row(i)[best];
      if (value > most) best = id;
    }
    if (has(Planted::ArgmaxOffByOne)) best = (best + 1) % logits.width;
    chosen.push_back(best);
    const auto* bytes = reinterpret_cast<const std::byte*>(&best);
    tokens.bytes.insert(tokens.bytes.end(), bytes, bytes + 4);
  }
  send({.op = Op::Argmax}, 0, {tap(logits)}, {tokens});
  return chosen;
}

SimulatedEngine::Tensor SimulatedEngine::layer(const Tensor& resid, std::uint32_t index) {
  Tensor in = resid;
  in.point = TapPoint::ResidIn;
  in.layer = index;
  const Tensor normed = norm(in, WeightRole::AttnNorm, index, TapPoint::AttnNorm, true);
  const Tensor q = product(normed, WeightRole::Query, index, TapPoint::QRaw);
  const Tensor k = product(normed, WeightRole::Key, index, TapPoint::KRaw);
  const Tensor v = product(normed, WeightRole::Value, index, TapPoint::VRaw);
  const Tensor attended = attention(rope(q, k, v));
  Tensor branch = product(attended, WeightRole::AttnOutput, index, TapPoint::AttnO);
  if (model_.config.post_norms) {
    branch = norm(branch, WeightRole::PostAttnNorm, index, TapPoint::PostAttn, false);
  }
  const Tensor mid = add(in, branch, TapPoint::ResidMid);
  const Tensor ffn = norm(mid, WeightRole::FfnNorm, index, TapPoint::FfnNorm, true);
  const Tensor g = product(ffn, WeightRole::Gate, index, TapPoint::Gate);
  const Tensor up = product(ffn, WeightRole::Up, index, TapPoint::Up);
  branch = product(gate(g, up), WeightRole::Down, index, TapPoint::FfnDown);
  if (model_.config.post_norms) {
    branch = norm(branch, WeightRole::PostFfnNorm, index, TapPoint::PostFfn, false);
  }
  return add(mid, branch, TapPoint::ResidOut);
}

std::vector<trace::OpCall> SimulatedEngine::step(trace::LaunchIndex launch, bool prefill,
                                                 const std::vector<Chunk>& chunks,
                                                 std::vector<trace::TokenId>& tokens) {
  launch_ = launch;
  prefill_ = prefill;
  calls_.clear();
  Tensor resid = embed(chunks);
  for (std::uint32_t i = 0; i < model_.config.layer_count; ++i) resid = layer(resid, i);
  Tensor last{resid.point, resid.layer, resid.width, resid.dtype, {}, {}};
  std::size_t row = 0;
  for (const Chunk& chunk : chunks) {
    row += chunk.tokens.size();
    last.rows.push_back(resid.rows[row - 1]);
    last.values.insert(last.values.end(), resid.row(row - 1), resid.row(row - 1) + resid.width);
  }
  const Tensor normed = norm(last, WeightRole::FinalNorm, 0, TapPoint::FinalNorm, false);
  tokens = argmax(product(normed, WeightRole::Head, 0, TapPoint::Logits));
  return std::move(calls_);
}

}  // namespace lockstep::reference
