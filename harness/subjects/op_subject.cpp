#include "harness/subjects/op_subject.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "engine/execute/operation_alone.h"
#include "kernels/kernel_set.h"

namespace lockstep::harness {
namespace {

using model::WeightRole;
using trace::Op;
using trace::TapTensor;

// Outputs that are kept of a large weight begin at a multiple of this: a tile of every kernel.
constexpr std::uint32_t kOutputsAlignment = 64;

WeightPart whole(const model::TensorInfo& tensor, WeightRole role) {
  WeightPart part;
  part.name = tensor.name;
  part.role = role;
  part.dtype = tensor.dtype;
  part.is_vector = tensor.shape.size() == 1;
  part.rows = tensor.rows();
  part.columns = tensor.columns();
  part.bytes.assign(tensor.data.begin(), tensor.data.end());
  return part;
}

// The rows of the tokens that were read; the tokens then count in them.
void cut_embedding(const model::TensorInfo& table, RecordedOperation& operation) {
  std::vector<std::byte>& bytes = operation.call.reads.front().bytes;
  std::vector<trace::TokenId> tokens(bytes.size() / sizeof(trace::TokenId));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  std::map<trace::TokenId, std::uint32_t> places;
  for (const trace::TokenId token : tokens) {
    if (token < table.rows()) places[token] = 0;
  }
  WeightPart part = whole(table, WeightRole::TokenEmbedding);
  part.rows = 0;
  part.bytes.clear();
  for (auto& [token, place] : places) {
    place = static_cast<std::uint32_t>(part.rows++);
    const std::span<const std::byte> row = table.row(token);
    part.bytes.insert(part.bytes.end(), row.begin(), row.end());
  }
  for (trace::TokenId& token : tokens) {
    const auto found = places.find(token);
    token = found == places.end() ? static_cast<trace::TokenId>(part.rows) : found->second;
  }
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  operation.weights.push_back(std::move(part));
}

void keep_columns(TapTensor& tap, std::uint32_t first, std::uint32_t count) {
  const std::size_t element = tap.bytes.size() / tap.rows.size() / tap.width;
  std::vector<std::byte> kept;
  for (std::size_t row = 0; row < tap.rows.size(); ++row) {
    const auto from =
        tap.bytes.begin() + static_cast<std::ptrdiff_t>((row * tap.width + first) * element);
    kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(count * element));
  }
  tap.bytes = std::move(kept);
  tap.width = count;
}

void cut_product(const model::TensorInfo& tensor, WeightRole role, std::uint64_t index,
                 const CutOptions& cut, RecordedOperation& operation) {
  WeightPart part = whole(tensor, role);
  if (part.bytes.size() > cut.whole_bytes && part.rows > cut.outputs) {
    // The last window may begin anywhere, to end with the weight.
    const std::uint64_t first =
        std::min(index / kOutputsAlignment * kOutputsAlignment, part.rows - cut.outputs);
    const std::uint64_t row_bytes = tensor.row_bytes();
    part.rows = cut.outputs;
    part.bytes.assign(
        tensor.data.begin() + static_cast<std::ptrdiff_t>(first * row_bytes),
        tensor.data.begin() + static_cast<std::ptrdiff_t>((first + cut.outputs) * row_bytes));
    operation.first_output = static_cast<std::uint32_t>(first);
    keep_columns(operation.call.writes.front(), operation.first_output, cut.outputs);
  }
  operation.weights.push_back(std::move(part));
}

void cut_weights(const model::Model& model, std::uint64_t index, const CutOptions& cut,
                 RecordedOperation& operation) {
  const trace::OpCall& call = operation.call;
  const auto tensor = [&](WeightRole role) {
    const model::TensorInfo* found = model.weight(role, call.layer.value);
    LS_CHECK(found != nullptr);
    return found;
  };
  switch (call.contract.op) {
    case Op::EmbedRows:
      return cut_embedding(*tensor(WeightRole::TokenEmbedding), operation);
    case Op::RmsNorm:
      operation.weights.push_back(whole(*tensor(call.weight.value()), call.weight.value()));
      return;
    case Op::Gemv:
    case Op::Gemm: {
      WeightRole role = call.weight.value();
      if (role == WeightRole::Head && model.config.tied_embeddings) {
        role = WeightRole::TokenEmbedding;
      }
      return cut_product(*tensor(role), role, index, cut, operation);
    }
    case Op::RopeKvWrite:
      if (!model.config.qk_norm) return;
      for (const WeightRole role : {WeightRole::QueryNorm, WeightRole::KeyNorm}) {
        operation.weights.push_back(whole(*tensor(role), role));
      }
      return;
    case Op::AttentionPrefill:
    case Op::AttentionDecode:
    case Op::Gate:
    case Op::ResidualAdd:
    case Op::Argmax:
      return;
  }
}

bool is_model_wide(WeightRole role) {
  return role == WeightRole::TokenEmbedding || role == WeightRole::FinalNorm ||
         role == WeightRole::Head;
}

void report_diagnostics(device::Device& device, const EventSink& sink) {
  for (const device::Diagnostic& each : device.take_diagnostics()) {
    sink(trace::DeviceReported{each.checker, each.kind, each.kernel, each.message, each.source,
                               each.source_second, each.count});
  }
}

}  // namespace

std::uint64_t RecordedOperation::size_bytes() const {
  std::uint64_t size = 0;
  for (const auto* taps : {&call.reads, &call.writes}) {
    for (const TapTensor& tap : *taps) size += tap.bytes.size();
  }
  for (const WeightPart& part : weights) size += part.bytes.size();
  return size;
}

base::Result<RecordedOperation> cut_out(const trace::OpCall& call, std::uint64_t index,
                                        const model::Model& model, const trace::Scenario& scenario,
                                        const device::DeviceOptions& options,
                                        const CutOptions& cut) {
  RecordedOperation operation;
  operation.seed = scenario.seed;
  operation.device = scenario.device;
  operation.approximation = options.approximation;
  operation.kernel_hash = kernel_hash(call.contract.op, scenario.device);
  operation.block_size = scenario.engine.block_size;
  operation.operand_format = scenario.engine.operand_format;
  operation.config = model.config;
  operation.call = call;
  cut_weights(model, index, cut, operation);
  LS_TRY(check_operation(operation, model.path));
  return operation;
}

model::Model part_of_model(const RecordedOperation& operation) {
  model::Model model;
  model.path = "the recorded operation";
  model.display_name = model.path;
  model.config = operation.config;
  for (const WeightPart& part : operation.weights) {
    model::TensorInfo tensor;
    tensor.name = part.name;
    tensor.dtype = part.dtype;
    tensor.shape = {part.rows, part.columns};
    if (part.is_vector) tensor.shape = {part.columns};
    tensor.data = part.bytes;
    const bool inserted = model.tensors.insert(std::move(tensor));
    LS_CHECK(inserted);
    const std::uint32_t layer = is_model_wide(part.role) ? 0 : operation.call.layer.value;
    model.weights[{part.role, layer}] = model.tensors.find(part.name);
  }
  return model;
}

std::string kernel_hash(trace::Op op, const std::string& device) {
  const base::Result<trace::DeviceInfo> info = device_info(device);
  if (!info) return "";
  const kernels::EmbeddedPtx* best = nullptr;
  for (const kernels::EmbeddedPtx& ptx : kernels::embedded_ptx()) {
    const bool runs = ptx.op == trace::name(op) && ptx.sm <= info->sm;
    if (runs && (best == nullptr || ptx.sm > best->sm)) best = &ptx;
  }
  if (best == nullptr) return "";
  return base::hash_bytes(std::as_bytes(std::span(best->text))).hex().substr(0, 6);
}

base::Status run_operation(const RecordedOperation& operation, const std::string& device_name,
                           const device::DeviceOptions& options, const EventSink& sink) {
  LS_ASSIGN(const std::unique_ptr<device::Device> device, device::open(device_name, options));
  const model::Model model = part_of_model(operation);
  trace::EngineSettings settings;
  settings.block_size = operation.block_size;
  settings.operand_format = operation.operand_format;
  base::Status status = base::Ok{};
  try {
    const base::SubjectScope scope;
    status = engine::run_alone(model, *device, settings, operation.call, sink);
    report_diagnostics(*device, sink);
  } catch (const base::CheckFailure& failure) {
    report_diagnostics(*device, sink);
    sink(trace::SubjectFailed{failure.file, failure.function, failure.what()});
  }
  const device::DeviceCounters counters = device->counters();
  sink(trace::DeviceCounted{counters.launches, counters.warp_instructions,
                            counters.checked_accesses});
  return status;
}

}  // namespace lockstep::harness
