#include "reference/local.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "reference/local_operations.h"

namespace lockstep::reference {

namespace {

using trace::OpCall;
using trace::OpReference;
using trace::RowId;
using trace::TapPoint;
using trace::TapTensor;

// Products of an operation alone up to which all of its outputs are replayed (a second or two).
constexpr std::uint64_t kProductsReplayed = std::uint64_t{1} << 26;

bool is_cell(TapPoint point) { return point == TapPoint::KCell || point == TapPoint::VCell; }

NodeKind kind_of(trace::Op op) {
  switch (op) {
    case trace::Op::EmbedRows:
      return NodeKind::EmbedRows;
    case trace::Op::RmsNorm:
      return NodeKind::RmsNorm;
    case trace::Op::Gemv:
    case trace::Op::Gemm:
      return NodeKind::Linear;
    case trace::Op::RopeKvWrite:
      return NodeKind::Rope;
    case trace::Op::AttentionPrefill:
    case trace::Op::AttentionDecode:
      return NodeKind::Attention;
    case trace::Op::Gate:
      return NodeKind::Gate;
    case trace::Op::ResidualAdd:
      return NodeKind::ResidualAdd;
    case trace::Op::Argmax:
      return NodeKind::Argmax;
  }
  LS_CHECK(false);
}

}  // namespace

struct LocalReference::State {
  base::Result<LocalModel> opened;
  TapStore store;
  KnownTokens tokens;
  bool lone = false;  // judge_alone: a product may have some of its outputs only

  const LocalModel& model() const { return opened.value(); }

  const Node* node_of(const OpCall& call) const;
  Reason malformed(const OpCall& call) const;
  std::uint64_t width_of(const OpCall& call, const TapTensor& write) const;
  Reason compute(const OpCall& call, const Node& node, OpReference& reference) const;
  TapTensor operand(const TapTensor& read, const Source& source,
                    const std::vector<RowId>& needed) const;
  TapTensor token_operand(const TapTensor& read) const;
  std::vector<RowId> needed_rows(const OpCall& call, const Node& node, const Source& source) const;
  void fill_operands(const OpCall& call, const Node& node, OpReference& reference) const;
  void forget_used(const OpCall& call, const Node& node);
};

const Node* LocalReference::State::node_of(const OpCall& call) const {
  if (call.writes.empty()) return nullptr;
  const auto found = model().producers.find(source_of(call.writes[0]));
  if (found == model().producers.end()) return nullptr;
  const Node& node = model().graph.nodes[found->second];
  return node.kind == kind_of(call.contract.op) && node.layer == call.layer.value ? &node : nullptr;
}

std::uint64_t LocalReference::State::width_of(const OpCall& call, const TapTensor& write) const {
  const Node* node = lone ? node_of(call) : nullptr;
  if (node == nullptr || node->kind != NodeKind::Linear) return model().graph.width(write.point);
  return model().graph.model->tensors.find(node->weight)->rows();
}

// Taps come from a subject, or from a file: shapes and positions are checked.
Reason LocalReference::State::malformed(const OpCall& call) const {
  for (const auto* taps : {&call.reads, &call.writes}) {
    for (const TapTensor& tap : *taps) {
      const auto row_bytes = model::storage_bytes(tap.dtype, tap.width);
      if (!row_bytes || tap.bytes.size() != tap.rows.size() * *row_bytes || *row_bytes == 0) {
        return "a tap's size is not that of its rows: " + std::string(trace::name(tap.point));
      }
    }
  }
  for (const TapTensor& tap : call.writes) {
    if (tap.width != width_of(call, tap)) {
      return "a tap has another width than the graph: " + std::string(trace::name(tap.point));
    }
    const bool number = tap.dtype == model::DType::F32 || tap.dtype == model::DType::F16 ||
                        tap.dtype == model::DType::BF16;
    if (tap.point == TapPoint::Token ? tap.dtype != model::DType::I32 : !number) {
      return "a tap of a type that no operation writes: " + std::string(model::name(tap.dtype));
    }
    for (const RowId& row : tap.rows) {
      if (row.position >= model().graph.model->config.context_length) {
        return "a position beyond the model's context length";
      }
    }
  }
  return {};
}

Reason LocalReference::State::compute(const OpCall& call, const Node& node,
                                      OpReference& reference) const {
  const LocalCall local{model(), store, tokens, node, call};
  reference.expected.resize(call.writes.size());
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    const TapTensor& write = call.writes[i];
    const Source source = source_of(write);
    if (std::find(node.outputs.begin(), node.outputs.end(), source) == node.outputs.end()) {
      return "the operation writes no " + std::string(trace::name(write.point));
    }
    if (write.rows.empty()) continue;
    if (Reason reason = expect(local, write, reference.expected[i]); !reason.empty()) {
      return reason;
    }
    if (node.kind == NodeKind::Linear && call.contract.sum == trace::SumKind::TensorCore &&
        write.dtype == model::DType::F32) {
      reference.replayed = replay_sample(local, write);
    }
  }
  return {};
}

// Rows of an operand that the written rows need.
std::vector<RowId> LocalReference::State::needed_rows(const OpCall& call, const Node& node,
                                                      const Source& source) const {
  std::vector<RowId> rows;
  if (node.kind != NodeKind::Attention || !is_cell(source.point)) {
    for (const TapTensor& write : call.writes) {
      if (rows.empty()) rows = write.rows;
    }
    return rows;
  }
  const std::uint32_t window = model().graph.attention[node.layer].window;
  std::set<RowId> seen;
  for (const RowId& row : call.writes[0].rows) {
    trace::Position first = 0;
    if (window != 0 && row.position >= window) first = row.position + 1 - window;
    for (trace::Position position = first; position <= row.position; ++position) {
      // Positions before a known one are known from the row that brought it in.
      seen.insert({row.request, position});
    }
  }
  return {seen.begin(), seen.end()};
}

// The producer's rows beside `read`: in its order, then those that the graph needs and it lacks.
TapTensor LocalReference::State::operand(const TapTensor& read, const Source& source,
                                         const std::vector<RowId>& needed) const {
  TapTensor out;
  out.point = read.point;
  out.layer = read.layer;
  out.dtype = read.dtype;
  out.width = read.width;
  const auto add = [&](RowId row) {
    const TapRow found = store.find(source, row);
    if (found.bytes.empty()) return;
    if (out.rows.empty()) {
      out.dtype = found.dtype;
      out.width = found.width;
    }
    out.rows.push_back(row);
    out.bytes.insert(out.bytes.end(), found.bytes.begin(), found.bytes.end());
  };
  for (const RowId& row : read.rows) add(row);
  const std::set<RowId> present(read.rows.begin(), read.rows.end());
  for (const RowId& row : needed) {
    if (!present.contains(row)) add(row);
  }
  return out;
}

TapTensor LocalReference::State::token_operand(const TapTensor& read) const {
  TapTensor out{read.point, read.layer, read.dtype, read.width, {}, {}};
  for (const RowId& row : read.rows) {
    const auto told = tokens.find(row);
    if (told == tokens.end()) continue;
    out.rows.push_back(row);
    const auto* bytes = reinterpret_cast<const std::byte*>(&told->second);
    out.bytes.insert(out.bytes.end(), bytes, bytes + sizeof(trace::TokenId));
  }
  return out;
}

void LocalReference::State::fill_operands(const OpCall& call, const Node& node,
                                          OpReference& reference) const {
  std::vector<Source> left = node.inputs;
  for (const TapTensor& read : call.reads) {
    if (node.kind == NodeKind::EmbedRows && read.point == TapPoint::Token) {
      reference.operands.push_back(token_operand(read));
      continue;
    }
    const Source source = source_of(read);
    const auto found = std::find(left.begin(), left.end(), source);
    if (found == left.end()) {
      // The graph knows no such operand: nothing to put beside it.
      reference.operands.push_back({read.point, read.layer, read.dtype, read.width, {}, {}});
      continue;
    }
    reference.operands.push_back(operand(read, source, needed_rows(call, node, source)));
    left.erase(found);
  }
  // Operands that the call did not read.
  for (const Source& source : left) {
    const TapTensor absent{
        source.point, {source.layer}, model::DType::F32, model().graph.width(source.point), {}, {}};
    TapTensor own = operand(absent, source, needed_rows(call, node, source));
    if (!own.rows.empty()) reference.operands.push_back(std::move(own));
  }
}

// What no later operation needs: a layer's values once its end is judged, the stream before it, and
// whatever an earlier step left.
void LocalReference::State::forget_used(const OpCall& call, const Node& node) {
  const Source written = node.outputs[0];
  for (const RowId& row : call.writes[0].rows) {
    switch (written.point) {
      case TapPoint::Embed:
        store.forget_before(call.launch, row.request);
        break;
      case TapPoint::ResidOut:
        for (const Node& other : model().graph.nodes) {
          if (other.layer != node.layer) continue;
          for (const Source& output : other.outputs) {
            const bool layer_value = output.point < TapPoint::ResidOut && !is_cell(output.point);
            if (layer_value) store.forget(output, row);
          }
        }
        store.forget(node.layer == 0 ? Source{TapPoint::Embed, 0}
                                     : Source{TapPoint::ResidOut, node.layer - 1},
                     row);
        break;
      case TapPoint::FinalNorm:
        store.forget({TapPoint::ResidOut, model().graph.layer_count - 1}, row.request);
        break;
      case TapPoint::Logits:
        store.forget({TapPoint::FinalNorm, 0}, row);
        break;
      case TapPoint::Token:
        store.forget({TapPoint::Logits, 0}, row);
        store.forget(written, row);
        break;
      default:
        break;
    }
  }
}

LocalReference::LocalReference(const model::Model& model, const trace::DeviceInfo& device,
                               std::uint64_t seed)
    : state_(new State{make_local_model(model, device, seed), {}, {}, false}) {}
LocalReference::LocalReference(LocalReference&&) noexcept = default;
LocalReference& LocalReference::operator=(LocalReference&&) noexcept = default;
LocalReference::~LocalReference() = default;

base::Status LocalReference::status() const {
  if (!state_->opened) return state_->opened.error();
  return base::Ok{};
}

OpReference LocalReference::judge(const OpCall& call) {
  OpReference reference;
  if (!state_->opened) {
    reference.reason = state_->opened.error().message();
    return reference;
  }
  const Node* node = state_->node_of(call);
  reference.reason = state_->malformed(call);
  if (!reference.reason.empty()) return reference;
  if (node == nullptr) {
    reference.reason =
        "the graph has no such operation: " + std::string(trace::name(call.contract.op)) +
        " in layer " + std::to_string(call.layer.value);
  } else {
    // Rope's own writes are no operands of it; attention's cells were written before.
    reference.reason = state_->compute(call, *node, reference);
    state_->fill_operands(call, *node, reference);
  }
  reference.computed = reference.reason.empty();
  if (!reference.computed) {
    reference.expected.clear();
    reference.replayed.clear();
  }
  for (const TapTensor& write : call.writes) state_->store.put(write, call.launch);
  if (node != nullptr) state_->forget_used(call, *node);
  return reference;
}

OpReference LocalReference::judge_alone(const model::Model& model, const trace::DeviceInfo& device,
                                        std::uint64_t seed, const OpCall& call) {
  OpReference reference;
  LS_CHECK(!call.writes.empty());
  State state{make_lone_model(model, device, seed, call), {}, {}, true};
  if (!state.opened) {
    reference.reason = state.opened.error().message();
    return reference;
  }
  reference.reason = state.malformed(call);
  if (!reference.reason.empty()) return reference;
  const Node* node = state.node_of(call);
  if (node == nullptr) {
    reference.reason = "the graph has no such operation";
    return reference;
  }
  for (TapTensor read : call.reads) {
    const Source source = source_of(read);
    read.point = source.point;
    read.layer = {source.layer};
    state.store.put(read, call.launch);
  }
  // All outputs of tensor cores, if they are few.
  const TapTensor& write = call.writes.front();
  const std::uint64_t products =
      std::uint64_t{write.width} * write.rows.size() * call.reads.front().width;
  if (products <= kProductsReplayed) state.opened.value().replay_one_in = 1;
  reference.reason = state.compute(call, *node, reference);
  reference.computed = reference.reason.empty();
  if (!reference.computed) {
    reference.expected.clear();
    reference.replayed.clear();
  }
  return reference;
}

void LocalReference::tell_tokens(trace::RequestId request, trace::Position first,
                                 std::span<const trace::TokenId> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    state_->tokens[{request, first + static_cast<trace::Position>(i)}] = tokens[i];
  }
}

void LocalReference::release(trace::RequestId request) {
  state_->store.release(request);
  std::erase_if(state_->tokens, [&](const auto& entry) { return entry.first.request == request; });
}

std::size_t LocalReference::stored_bytes() const { return state_->store.stored_bytes(); }

}  // namespace lockstep::reference
