#include "reference/local_operations.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/prng.h"
#include "reference/expected.h"
#include "reference/ops/argmax.h"
#include "reference/ops/embed_rows.h"
#include "reference/ops/gate.h"
#include "reference/ops/matmul.h"
#include "reference/ops/residual_add.h"
#include "reference/ops/rms_norm.h"
#include "reference/ops/rope.h"
#include "reference/tensor_core.h"
#include "reference/weights.h"

namespace lockstep::reference {

namespace {

using model::DType;
using trace::Expected;
using trace::TapPoint;
using trace::TapTensor;

WeightPrecision precision_of(DType format) {
  if (format == DType::F16) return WeightPrecision::F16;
  if (format == DType::BF16) return WeightPrecision::BF16;
  return WeightPrecision::F32;
}

Weight weight_of(const LocalCall& local, WeightPrecision precision) {
  const model::TensorInfo* tensor = local.model.graph.model->tensors.find(local.node.weight);
  LS_CHECK(tensor != nullptr);
  auto weight = Weight::open(*tensor, precision);
  LS_CHECK(weight.ok(), "opened before");
  return std::move(weight).value();
}

// The i-th row of a row-major matrix.
template <class T>
std::span<T> row_of(std::vector<T>& values, std::size_t index, std::size_t width) {
  return std::span(values).subspan(index * width, width);
}

void set_row(Expected& expected, std::size_t row, std::span<const Ball> balls, DType format) {
  for (std::size_t i = 0; i < balls.size(); ++i) {
    set(expected, row * balls.size() + i, balls[i], format);
  }
}

// Token of a row: as told, or as the call read it.
Reason token_of(const LocalCall& local, trace::RowId row, trace::TokenId& token) {
  if (const auto told = local.tokens.find(row); told != local.tokens.end()) {
    token = told->second;
    return {};
  }
  for (const TapTensor& read : local.call.reads) {
    if (read.point != TapPoint::Token || read.bytes.size() != 4 * read.rows.size()) continue;
    const auto at = std::find(read.rows.begin(), read.rows.end(), row);
    if (at == read.rows.end()) continue;
    std::memcpy(&token, read.bytes.data() + 4 * (at - read.rows.begin()), 4);
    return {};
  }
  return no_tap({TapPoint::Token, 0}, row);
}

Reason expect_embed(const LocalCall& local, const TapTensor& write, Expected& expected) {
  const Weight table = weight_of(local, WeightPrecision::F32);
  std::vector<double> weights(write.width);
  std::vector<Ball> out(write.width);
  for (std::size_t i = 0; i < write.rows.size(); ++i) {
    trace::TokenId token = 0;
    if (Reason reason = token_of(local, write.rows[i], token); !reason.empty()) return reason;
    if (token >= table.outputs()) return "token id beyond the vocabulary";
    table.row(token, weights);
    embed_row<Ball>(weights, local.model.graph.embedding_scale, out);
    set_row(expected, i, out, local.call.contract.output_format);
  }
  return {};
}

Reason expect_norm(const LocalCall& local, const TapTensor& write, Expected& expected) {
  const std::size_t width = write.width;
  std::vector<double> x;
  if (Reason reason = gather(local.store, local.node.inputs[0], write.rows, write.width, x);
      !reason.empty()) {
    return reason;
  }
  const std::vector<double>& weight = local.model.norm_weights.at(local.node.weight);
  const NormRule rule = norm_rule(local.call.contract);
  const double epsilon = round_f32(local.model.graph.epsilon);
  tbb::parallel_for(std::size_t{0}, write.rows.size(), [&](std::size_t i) {
    std::vector<Ball> out(width);
    rms_norm<Ball>(row_of(x, i, width), weight, epsilon, rule, out);
    set_row(expected, i, out, local.call.contract.output_format);
  });
  return {};
}

// Radii of f32 chains: gamma(d) A, what subnormal products may lose, and the reference's own.
void chain_bounds(const trace::Contract& contract, std::size_t inputs,
                  const std::vector<double>& value, const std::vector<double>& magnitude,
                  Expected& expected) {
  const double relative = gamma(contract.rounding_depth) + matmul_relative_error(inputs);
  const double floor = static_cast<double>(inputs) * kF32Smallest;
  constexpr std::size_t kGrain = 4096;
  tbb::parallel_for(std::size_t{0}, (value.size() + kGrain - 1) / kGrain, [&](std::size_t part) {
    const std::size_t end = std::min(value.size(), (part + 1) * kGrain);
    for (std::size_t i = part * kGrain; i < end; ++i) {
      set(expected, i, {value[i], relative * magnitude[i] + floor}, contract.output_format);
    }
  });
}

Reason expect_linear(const LocalCall& local, const TapTensor& write, Expected& expected) {
  const Source& source = local.node.inputs[0];
  const trace::Contract& contract = local.call.contract;
  std::vector<double> x;
  if (Reason reason =
          gather(local.store, source, write.rows, local.model.graph.width(source.point), x);
      !reason.empty()) {
    return reason;
  }
  if (contract.input_format != DType::F32) round_values(contract.input_format, x);
  const Weight weight = weight_of(local, precision_of(contract.weight_format));
  const std::size_t rows = write.rows.size();
  std::vector<double> value(rows * write.width), radius(rows * write.width);
  switch (contract.sum) {
    case trace::SumKind::None:
      return "the contract of a product declares no sum";
    case trace::SumKind::F32Chains:
      matmul(x, rows, weight, value, radius);
      chain_bounds(contract, weight.inputs(), value, radius, expected);
      return {};
    case trace::SumKind::TensorCore:
      tensor_core_products(contract, local.model.device.f16, x, rows, weight, value, radius);
      for (std::size_t i = 0; i < value.size(); ++i) {
        set(expected, i, {value[i], radius[i]}, contract.output_format);
      }
      return {};
  }
  LS_CHECK(false);
}

Reason expect_rope(const LocalCall& local, const TapTensor& write, Expected& expected) {
  const Graph& graph = local.model.graph;
  const trace::Contract& contract = local.call.contract;
  const bool query = write.point == TapPoint::QRot;
  const std::size_t input = query ? 0 : write.point == TapPoint::KCell ? 1 : 2;
  std::vector<double> raw;
  if (Reason reason = gather(local.store, local.node.inputs[input], write.rows, write.width, raw);
      !reason.empty()) {
    return reason;
  }
  const DType format = query ? contract.output_format : contract.second_output_format;
  if (write.point == TapPoint::VCell) {  // known bits, rounded once
    for (std::size_t i = 0; i < raw.size(); ++i) set(expected, i, {raw[i], 0}, format);
    return {};
  }
  const std::string& name = query ? local.node.weight : local.node.second_weight;
  std::span<const double> norm;
  if (!name.empty()) norm = local.model.norm_weights.at(name);
  const AttentionFacts& facts = graph.attention[local.node.layer];
  const double epsilon = round_f32(graph.epsilon);
  tbb::parallel_for(std::size_t{0}, write.rows.size(), [&](std::size_t i) {
    std::vector<Angle<Ball>> angles(graph.head_size / 2);
    rope_angles<Ball>(facts, write.rows[i].position, angles);
    std::vector<Ball> out(write.width);
    norm_and_rotate<Ball>(row_of(raw, i, write.width), norm, epsilon, norm_rule(contract), angles,
                          graph.rope_pairing, out);
    set_row(expected, i, out, format);
  });
  return {};
}

// Gate and ResidualAdd: two operands, element by element.
Reason expect_elementwise(const LocalCall& local, const TapTensor& write, Expected& expected) {
  std::vector<double> a, b;
  for (const auto& [index, values] : {std::pair{0u, &a}, std::pair{1u, &b}}) {
    if (Reason reason =
            gather(local.store, local.node.inputs[index], write.rows, write.width, *values);
        !reason.empty()) {
      return reason;
    }
  }
  const trace::Contract& contract = local.call.contract;
  const std::size_t width = write.width;
  tbb::parallel_for(std::size_t{0}, write.rows.size(), [&](std::size_t i) {
    std::vector<Ball> out(width);
    if (local.node.kind == NodeKind::Gate) {
      gate<Ball>(local.model.graph.activation, row_of(a, i, width), row_of(b, i, width),
                 contract.approximate, out);
    } else {
      residual_add<Ball>(row_of(a, i, width), row_of(b, i, width), out);
    }
    set_row(expected, i, out, contract.output_format);
  });
  return {};
}

Reason expect_argmax(const LocalCall& local, const TapTensor& write, Expected& expected) {
  const std::uint32_t vocab = local.model.graph.vocab_size;
  std::vector<double> logits;
  if (Reason reason = gather(local.store, local.node.inputs[0], write.rows, vocab, logits);
      !reason.empty()) {
    return reason;
  }
  for (std::size_t i = 0; i < write.rows.size(); ++i) {
    set(expected, i, {static_cast<double>(argmax(row_of(logits, i, vocab))), 0}, DType::F32);
  }
  return {};
}

base::Status add_norm_weight(LocalModel& local, const std::string& name) {
  LS_ASSIGN(const Weight weight,
            Weight::open(*local.graph.model->tensors.find(name), WeightPrecision::Exact));
  std::vector<double> values(weight.inputs());
  weight.row(0, values);
  for (double& value : values) {
    value = round_f32(local.graph.norm_weight_plus_one ? 1 + value : value);
  }
  local.norm_weights[name] = std::move(values);
  return base::Ok{};
}

base::Status open_weights(LocalModel& local, const Node& node) {
  if (node.kind == NodeKind::RmsNorm || node.kind == NodeKind::Rope) {
    for (const std::string& name : {node.weight, node.second_weight}) {
      if (!name.empty()) LS_TRY(add_norm_weight(local, name));
    }
  } else if (!node.weight.empty()) {
    LS_ASSIGN([[maybe_unused]] const Weight weight,
              Weight::open(*local.graph.model->tensors.find(node.weight), WeightPrecision::F32));
  }
  return base::Ok{};
}

// Every tensor of the node has rows of the right size.
base::Status check_columns(const Graph& graph, const Node& node) {
  const std::uint64_t columns = node.kind == NodeKind::EmbedRows || node.kind == NodeKind::RmsNorm
                                    ? graph.hidden_size
                                : node.kind == NodeKind::Rope   ? graph.head_size
                                : node.kind == NodeKind::Linear ? graph.width(node.inputs[0].point)
                                                                : 0;
  for (const std::string& name : {node.weight, node.second_weight}) {
    if (name.empty() || graph.model->tensors.find(name)->columns() == columns) continue;
    return base::input_error(
        graph.model->path, "tensor " + name + " must have " + std::to_string(columns) + " columns");
  }
  return base::Ok{};
}

}  // namespace

Source source_of(const TapTensor& tap) {
  if (tap.point != trace::TapPoint::ResidIn) return {tap.point, tap.layer.value};
  if (tap.layer.value == 0) return {trace::TapPoint::Embed, 0};
  return {trace::TapPoint::ResidOut, tap.layer.value - 1};
}

base::Result<LocalModel> make_local_model(const model::Model& model,
                                          const trace::DeviceInfo& device, std::uint64_t seed) {
  LocalModel local;
  LS_ASSIGN(local.graph, build_graph(model));
  local.device = device;
  local.seed = seed;
  for (std::size_t i = 0; i < local.graph.nodes.size(); ++i) {
    for (const Source& output : local.graph.nodes[i].outputs) local.producers[output] = i;
    LS_TRY(open_weights(local, local.graph.nodes[i]));
  }
  return local;
}

base::Result<LocalModel> make_lone_model(const model::Model& model, const trace::DeviceInfo& device,
                                         std::uint64_t seed, const trace::OpCall& call) {
  LocalModel local;
  local.graph = outline_graph(model);
  local.device = device;
  local.seed = seed;
  for (std::size_t i = 0; i < local.graph.nodes.size(); ++i) {
    for (const Source& output : local.graph.nodes[i].outputs) local.producers[output] = i;
  }
  const auto found = local.producers.find(source_of(call.writes.at(0)));
  if (found == local.producers.end()) return local;
  const Node& node = local.graph.nodes[found->second];
  for (const std::string& name : {node.weight, node.second_weight}) {
    if (name.empty() || model.tensors.find(name) != nullptr) continue;
    return base::input_error(model.path, "tensor missing: " + name);
  }
  LS_TRY(check_columns(local.graph, node));
  LS_TRY(open_weights(local, node));
  return local;
}

Reason no_tap(const Source& source, trace::RowId row) {
  return "no tap: " + std::string(trace::name(source.point)) + " of layer " +
         std::to_string(source.layer) + ", request " + std::to_string(row.request.value) +
         ", position " + std::to_string(row.position);
}

Reason gather(const TapStore& store, const Source& source, const std::vector<trace::RowId>& rows,
              std::uint32_t width, std::vector<double>& values) {
  values.resize(rows.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TapRow row = store.find(source, rows[i]);
    if (row.bytes.empty()) return no_tap(source, rows[i]);
    if (row.width != width) return "the tap of an operand has another width";
    decode_values(row.dtype, row.bytes, row_of(values, i, width));
  }
  return {};
}

Reason expect(const LocalCall& local, const TapTensor& write, Expected& expected) {
  resize(expected, write.rows.size() * write.width);
  switch (local.node.kind) {
    case NodeKind::EmbedRows:
      return expect_embed(local, write, expected);
    case NodeKind::RmsNorm:
      return expect_norm(local, write, expected);
    case NodeKind::Linear:
      return expect_linear(local, write, expected);
    case NodeKind::Rope:
      return expect_rope(local, write, expected);
    case NodeKind::Attention:
      return expect_attention(local, write, expected);
    case NodeKind::Gate:
    case NodeKind::ResidualAdd:
      return expect_elementwise(local, write, expected);
    case NodeKind::Argmax:
      return expect_argmax(local, write, expected);
  }
  LS_CHECK(false);
}

std::vector<trace::ReplaySample> replay_sample(const LocalCall& local, const TapTensor& write) {
  const trace::Contract& contract = local.call.contract;
  const Source& source = local.node.inputs[0];
  const std::uint32_t inputs = local.model.graph.width(source.point);
  std::vector<double> x;
  if (!gather(local.store, source, write.rows, inputs, x).empty()) return {};
  std::vector<std::uint16_t> x_bits(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x_bits[i] = static_cast<std::uint16_t>(bits_of_value(contract.input_format, x[i]));
  }
  const Weight weight = weight_of(local, precision_of(contract.weight_format));
  const std::uint64_t seed = local.model.seed ^ std::uint64_t{local.call.launch.value} << 40 ^
                             std::uint64_t{local.node.layer} << 20 ^
                             static_cast<std::uint64_t>(write.point) << 8;
  std::vector<std::vector<trace::ReplaySample>> samples(write.width);
  tbb::parallel_for(std::uint32_t{0}, write.width, [&](std::uint32_t column) {
    base::Prng prng(seed ^ std::uint64_t{column} * 0x9e3779b97f4a7c15u);
    std::vector<std::uint16_t> w_bits;
    for (std::uint32_t row = 0; row < write.rows.size(); ++row) {
      if (prng.below(local.model.replay_one_in) != 0) continue;
      if (w_bits.empty()) {
        std::vector<double> values(inputs);
        weight.row(column, values);
        for (const double value : values) {
          w_bits.push_back(
              static_cast<std::uint16_t>(bits_of_value(contract.weight_format, value)));
        }
      }
      trace::ReplaySample sample;
      sample.row = row;
      sample.column = column;
      sample.want_bits =
          tensor_core_replay(contract, local.model.device.f16,
                             std::span(x_bits).subspan(std::size_t{row} * inputs, inputs), w_bits);
      std::memcpy(&sample.got_bits,
                  write.bytes.data() + 4 * (std::size_t{row} * write.width + column), 4);
      samples[column].push_back(sample);
    }
  });
  std::vector<trace::ReplaySample> all;
  for (const auto& part : samples) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace lockstep::reference
