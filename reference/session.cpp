// Session: walks the graph row block by row block, in double.
#include "reference/session.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "reference/ops/argmax.h"
#include "reference/ops/attention.h"
#include "reference/ops/embed_rows.h"
#include "reference/ops/gate.h"
#include "reference/ops/matmul.h"
#include "reference/ops/residual_add.h"
#include "reference/ops/rms_norm.h"
#include "reference/ops/rope.h"

namespace lockstep::reference {

namespace {

using model::DType;
using trace::TapPoint;

WeightPrecision operand_precision(DType format) {
  return format == DType::BF16 ? WeightPrecision::BF16 : WeightPrecision::F16;
}

// Weights of one node: as vectors where they are small, as stored where they are matrices.
struct NodeWeights {
  std::optional<Weight> matrix;
  std::optional<Weight> operand_matrix;       // declared roundings: as tensor cores see it
  std::vector<double> vector, second_vector;  // norms
};

// K and V of a layer, [positions, kv_heads * head_size].
struct LayerCache {
  std::vector<double> keys, values;
};

// What one append works on.
struct Batch {
  std::span<const trace::TokenId> tokens;
  trace::Position first = 0;  // position of tokens[0]
  const ForwardRequest* request = nullptr;
  bool prefill = false;  // declared roundings: on tensor cores
  std::map<Source, Matrix> values;
};

}  // namespace

struct Session::State {
  Graph graph;
  SessionOptions options;
  std::vector<NodeWeights> weights;   // a node
  std::vector<std::size_t> last_use;  // a node: index of the last node that reads its outputs
  std::vector<LayerCache> cache;      // a layer
  trace::Position length = 0;
  std::unique_ptr<tbb::task_arena> arena;

  base::Status open_weights();
  base::Result<std::vector<double>> norm_vector(const std::string& name) const;
  void find_last_uses();
  ForwardResult run(std::span<const trace::TokenId> tokens, const ForwardRequest& request);
  ForwardResult run_phase(std::span<const trace::TokenId> tokens, const ForwardRequest& request,
                          bool prefill);
  void run_node(std::size_t index, Batch& batch);
  void embed(const NodeWeights& weights, Batch& batch, Matrix& out) const;
  Matrix norm(const Node& node, const NodeWeights& weights, const Batch& batch) const;
  void linear(const Node& node, const NodeWeights& weights, const Matrix& x, bool prefill,
              Matrix& out) const;
  Matrix rope(const Node& node, const NodeWeights& weights, const Batch& batch);
  void attention(const Node& node, const Batch& batch, Matrix& out) const;
  void attention_row(const Node& node, const Batch& batch, std::size_t row, std::uint32_t head,
                     std::span<double> out) const;
  // Declared roundings of a stored value.
  void store(TapPoint point, bool prefill, std::vector<double>& values) const;
};

base::Result<std::vector<double>> Session::State::norm_vector(const std::string& name) const {
  LS_ASSIGN(const Weight weight, Weight::open(*graph.model->tensors.find(name), options.weights));
  std::vector<double> values(weight.inputs());
  weight.row(0, values);
  if (graph.norm_weight_plus_one) {
    for (double& value : values) value += 1;
  }
  if (options.declared) round_values(DType::F32, values);
  return values;
}

base::Status Session::State::open_weights() {
  weights.resize(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.weight.empty()) continue;
    if (node.kind == NodeKind::Linear || node.kind == NodeKind::EmbedRows) {
      const model::TensorInfo& tensor = *graph.model->tensors.find(node.weight);
      LS_ASSIGN(weights[i].matrix, Weight::open(tensor, options.weights));
      if (options.declared) {
        LS_ASSIGN(weights[i].operand_matrix,
                  Weight::open(tensor, operand_precision(options.declared->operand_format)));
      }
    } else {
      LS_ASSIGN(weights[i].vector, norm_vector(node.weight));
      if (!node.second_weight.empty()) {
        LS_ASSIGN(weights[i].second_vector, norm_vector(node.second_weight));
      }
    }
  }
  return base::Ok{};
}

void Session::State::find_last_uses() {
  last_use.assign(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const Source& output : graph.nodes[i].outputs) {
      for (std::size_t j = i + 1; j < graph.nodes.size(); ++j) {
        const auto& inputs = graph.nodes[j].inputs;
        if (std::find(inputs.begin(), inputs.end(), output) != inputs.end()) {
          last_use[i] = std::max(last_use[i], j);
        }
      }
    }
  }
}

void Session::State::store(TapPoint point, bool prefill, std::vector<double>& values) const {
  if (!options.declared) return;
  round_values(DType::F32, values);
  const DeclaredRoundings& declared = *options.declared;
  if (point == TapPoint::KCell || point == TapPoint::VCell) {
    round_values(declared.cell_format, values);
  } else if (prefill &&
             (point == TapPoint::AttnNorm || point == TapPoint::QRot || point == TapPoint::Attn ||
              point == TapPoint::FfnNorm || point == TapPoint::Act)) {
    round_values(declared.operand_format, values);
  }
}

void Session::State::embed(const NodeWeights& node_weights, Batch& batch, Matrix& out) const {
  std::vector<double> row(graph.hidden_size);
  const double scale = options.declared ? round_f32(graph.embedding_scale) : graph.embedding_scale;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    LS_CHECK(batch.tokens[i] < graph.vocab_size);
    node_weights.matrix->row(batch.tokens[i], row);
    embed_row<double>(row, scale, out.row(i));
  }
}

Matrix Session::State::norm(const Node& node, const NodeWeights& node_weights,
                            const Batch& batch) const {
  const Matrix& x = batch.values.at(node.inputs[0]);
  // Only rows whose logits are wanted reach the head.
  const bool last = node.outputs[0].point == TapPoint::FinalNorm;
  const std::size_t skip = last ? batch.request->logits_from : 0;
  Matrix out(x.rows - skip, x.columns);
  tbb::parallel_for(std::size_t{0}, out.rows, [&](std::size_t i) {
    rms_norm<double>(x.row(i + skip), node_weights.vector, graph.epsilon, {}, out.row(i));
  });
  return out;
}

void Session::State::linear(const Node& node, const NodeWeights& node_weights, const Matrix& x,
                            bool prefill, Matrix& out) const {
  // Logits run as decode does.
  const bool operands = prefill && node.outputs[0].point != TapPoint::Logits;
  const Weight& weight = operands ? *node_weights.operand_matrix : *node_weights.matrix;
  if (x.rows > 0) matmul(x.values, x.rows, weight, out.values);
}

// Rotates q (returned), k and appends k and v to the cache.
Matrix Session::State::rope(const Node& node, const NodeWeights& node_weights, const Batch& batch) {
  const Matrix& q = batch.values.at(node.inputs[0]);
  const Matrix& k = batch.values.at(node.inputs[1]);
  const Matrix& v = batch.values.at(node.inputs[2]);
  Matrix q_rotated(q.rows, q.columns);
  Matrix k_rotated(k.rows, k.columns);
  const AttentionFacts& facts = graph.attention[node.layer];
  tbb::parallel_for(std::size_t{0}, q.rows, [&](std::size_t i) {
    std::vector<Angle<double>> angles(graph.head_size / 2);
    rope_angles<double>(facts, batch.first + static_cast<trace::Position>(i), angles);
    norm_and_rotate<double>(q.row(i), node_weights.vector, graph.epsilon, {}, angles,
                            graph.rope_pairing, q_rotated.row(i));
    norm_and_rotate<double>(k.row(i), node_weights.second_vector, graph.epsilon, {}, angles,
                            graph.rope_pairing, k_rotated.row(i));
  });
  std::vector<double> v_values = v.values;
  store(TapPoint::KCell, batch.prefill, k_rotated.values);
  store(TapPoint::VCell, batch.prefill, v_values);
  LayerCache& layer = cache[node.layer];
  layer.keys.insert(layer.keys.end(), k_rotated.values.begin(), k_rotated.values.end());
  layer.values.insert(layer.values.end(), v_values.begin(), v_values.end());
  return q_rotated;
}

void Session::State::attention_row(const Node& node, const Batch& batch, std::size_t row,
                                   std::uint32_t head, std::span<double> out) const {
  const LayerCache& layer = cache[node.layer];
  const std::size_t stride = std::size_t{graph.kv_head_count} * graph.head_size;
  const std::uint32_t group = graph.head_count / graph.kv_head_count;
  const trace::Position position = batch.first + static_cast<trace::Position>(row);
  KeyRange range;
  range.first = first_visible(position, graph.attention[node.layer].window);
  range.count = position - range.first + 1;
  range.stride = stride;
  const std::size_t at = range.first * stride + head / group * graph.head_size;
  range.keys = &layer.keys[at];
  range.values = &layer.values[at];
  const Matrix& queries = batch.values.at(node.inputs[0]);
  const std::span<const double> q =
      queries.row(row).subspan(std::size_t{head} * graph.head_size, graph.head_size);
  const double scale = options.declared ? round_f32(graph.attention_scale) : graph.attention_scale;
  if (!batch.prefill) {
    attend<double>(q, scale, range, {}, out);
    return;
  }
  std::vector<double> scores(range.count);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    scores[j] = dot(q.data(), range.keys + j * stride, q.size());
  }
  PrefillRule rule;
  rule.tile_keys = options.declared->tile_keys;
  rule.probability_format = options.declared->probability_format;
  attend_prefill<double>(scores, {}, scale, range, rule, out);
}

void Session::State::attention(const Node& node, const Batch& batch, Matrix& out) const {
  const std::size_t count = out.rows * graph.head_count;
  tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
    const std::size_t row = i / graph.head_count;
    const auto head = static_cast<std::uint32_t>(i % graph.head_count);
    attention_row(node, batch, row, head,
                  out.row(row).subspan(std::size_t{head} * graph.head_size, graph.head_size));
  });
}

void Session::State::run_node(std::size_t index, Batch& batch) {
  const Node& node = graph.nodes[index];
  const Source& output = node.outputs[0];
  Matrix out;
  const auto input = [&](std::size_t i) -> const Matrix& {
    return batch.values.at(node.inputs[i]);
  };
  switch (node.kind) {
    case NodeKind::EmbedRows:
      out = Matrix(batch.tokens.size(), graph.hidden_size);
      embed(weights[index], batch, out);
      break;
    case NodeKind::RmsNorm:
      out = norm(node, weights[index], batch);
      break;
    case NodeKind::Linear:
      out = Matrix(input(0).rows, graph.width(output.point));
      linear(node, weights[index], input(0), batch.prefill, out);
      break;
    case NodeKind::Rope:
      out = rope(node, weights[index], batch);
      break;
    case NodeKind::Attention:
      out = Matrix(input(0).rows, input(0).columns);
      attention(node, batch, out);
      break;
    case NodeKind::Gate:
      out = Matrix(input(0).rows, input(0).columns);
      tbb::parallel_for(std::size_t{0}, out.rows, [&](std::size_t i) {
        gate<double>(graph.activation, input(0).row(i), input(1).row(i), {}, out.row(i));
      });
      break;
    case NodeKind::ResidualAdd:
      out = Matrix(input(0).rows, input(0).columns);
      residual_add<double>(input(0).values, input(1).values, out.values);
      break;
    case NodeKind::Argmax:
      return;
  }
  store(output.point, batch.prefill, out.values);
  batch.values[output] = std::move(out);
}

ForwardResult Session::State::run_phase(std::span<const trace::TokenId> tokens,
                                        const ForwardRequest& request, bool prefill) {
  Batch batch;
  batch.tokens = tokens;
  batch.first = length;
  batch.request = &request;
  batch.prefill = prefill;
  ForwardResult result;
  const auto kept = [&](const Source& source) {
    return std::find(request.keep.begin(), request.keep.end(), source.point) != request.keep.end();
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    run_node(i, batch);
    for (std::size_t j = 0; j < i; ++j) {
      if (last_use[j] != i) continue;
      const Source& source = graph.nodes[j].outputs[0];
      const auto found = batch.values.find(source);
      if (found == batch.values.end()) continue;
      if (source.point == TapPoint::Logits) {
        result.logits = std::move(found->second);
      } else if (kept(source)) {
        result.kept[source] = std::move(found->second);
      }
      batch.values.erase(found);
    }
  }
  length += static_cast<trace::Position>(tokens.size());
  return result;
}

namespace {

void append_rows(Matrix& to, Matrix&& from) {
  if (to.rows == 0) {
    to = std::move(from);
    return;
  }
  to.values.insert(to.values.end(), from.values.begin(), from.values.end());
  to.rows += from.rows;
}

}  // namespace

ForwardResult Session::State::run(std::span<const trace::TokenId> tokens,
                                  const ForwardRequest& request) {
  LS_CHECK(request.logits_from <= tokens.size());
  if (!options.declared) return run_phase(tokens, request, false);
  // Prefill rows and decode rows round differently.
  const trace::Position from = options.declared->decode_from;
  const std::size_t prefill_rows =
      std::min(tokens.size(), std::size_t{from > length ? from - length : 0});
  ForwardResult result;
  if (prefill_rows > 0) {
    ForwardRequest part = request;
    part.logits_from = std::min(request.logits_from, prefill_rows);
    result = run_phase(tokens.first(prefill_rows), part, true);
  }
  if (prefill_rows < tokens.size()) {
    ForwardRequest part = request;
    part.logits_from = request.logits_from - std::min(request.logits_from, prefill_rows);
    ForwardResult rest = run_phase(tokens.subspan(prefill_rows), part, false);
    append_rows(result.logits, std::move(rest.logits));
    for (auto& [source, matrix] : rest.kept) append_rows(result.kept[source], std::move(matrix));
  }
  return result;
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

base::Result<Session> Session::open(const model::Model& model, const SessionOptions& options) {
  auto state = std::make_unique<State>();
  LS_ASSIGN(state->graph, build_graph(model));
  state->options = options;
  if (options.declared) {
    state->options.weights = WeightPrecision::F32;
    // Kernels take these as float32.
    state->graph.epsilon = round_f32(state->graph.epsilon);
  }
  LS_TRY(state->open_weights());
  state->find_last_uses();
  state->cache.resize(state->graph.layer_count);
  state->arena = std::make_unique<tbb::task_arena>(
      options.threads > 0 ? options.threads : int{tbb::task_arena::automatic});
  return Session(std::move(state));
}

ForwardResult Session::append(std::span<const trace::TokenId> tokens,
                              const ForwardRequest& request) {
  ForwardResult result;
  state_->arena->execute([&] { result = state_->run(tokens, request); });
  return result;
}

std::vector<trace::TokenId> Session::greedy(std::span<const trace::TokenId> prompt,
                                            std::size_t count) {
  std::vector<trace::TokenId> output;
  LS_CHECK(!prompt.empty());
  std::span<const trace::TokenId> next = prompt;
  trace::TokenId last = 0;
  while (output.size() < count) {
    const ForwardResult result = append(next, {next.size() - 1});
    last = argmax(result.logits.row(0));
    output.push_back(last);
    next = {&last, 1};
  }
  return output;
}

trace::Position Session::length() const { return state_->length; }

void Session::truncate(trace::Position length) {
  LS_CHECK(length <= state_->length);
  const std::size_t stride = std::size_t{state_->graph.kv_head_count} * state_->graph.head_size;
  for (LayerCache& layer : state_->cache) {
    layer.keys.resize(length * stride);
    layer.values.resize(length * stride);
  }
  state_->length = length;
}

}  // namespace lockstep::reference
