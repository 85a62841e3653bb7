#include "engine/execute/operation_alone.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "engine/execute/tap.h"
#include "engine/models/batch.h"
#include "engine/models/blocks/attention.h"
#include "engine/models/blocks/ffn.h"
#include "engine/models/device_model.h"
#include "engine/models/forward.h"
#include "kernels/kernel_set.h"

namespace lockstep::engine {
namespace {

using model::WeightRole;
using trace::Op;
using trace::OpCall;
using trace::TapPoint;
using trace::TapTensor;

// Runs of consecutive positions of one request, as a step plans them. A request's pages come one
// behind the other.
std::vector<PlannedRows> plan_rows(const std::vector<trace::RowId>& rows, bool prefill,
                                   std::uint32_t page_size, std::uint32_t& page_count) {
  std::map<trace::RequestId, trace::Position> positions;
  for (const trace::RowId& row : rows) {
    trace::Position& count = positions[row.request];
    count = std::max(count, row.position + 1);
  }
  std::map<trace::RequestId, std::vector<trace::PageId>> pages;
  for (const auto& [request, count] : positions) {
    const std::uint32_t needed = (count + page_size - 1) / page_size;
    for (std::uint32_t i = 0; i < needed; ++i) pages[request].push_back({page_count++});
  }
  std::vector<PlannedRows> planned;
  for (const trace::RowId& row : rows) {
    const bool follows =
        prefill && !planned.empty() && planned.back().request == row.request &&
        planned.back().first_position + planned.back().tokens.size() == row.position;
    if (!follows) planned.push_back({row.request, row.position, {}, false, pages[row.request]});
    planned.back().tokens.push_back(0);
  }
  return planned;
}

base::Result<device::Buffer> upload_bytes(device::Device& device, std::span<const std::byte> bytes,
                                          std::string_view label) {
  LS_ASSIGN(device::Buffer buffer, device.allocate(bytes.size(), label));
  LS_TRY(device.copy_to_device(buffer.address(), bytes));
  return buffer;
}
base::Result<DeviceTensor> upload_tap(device::Device& device, const TapTensor& tap) {
  DeviceTensor tensor;
  tensor.dtype = tap.dtype;
  tensor.width = tap.width;
  tensor.rows = tap.rows;
  LS_ASSIGN(tensor.buffer, upload_bytes(device, tap.bytes, trace::name(tap.point)));
  return tensor;
}

// Recorded cells to their places in the pool; all other cells are undefined.
base::Status upload_cells(device::Device& device, const kernels::KvLayout& kv,
                          const std::vector<PlannedRows>& planned, const device::Buffer& pool,
                          const TapTensor& cells) {
  std::map<trace::RequestId, const std::vector<trace::PageId>*> tables;
  for (const PlannedRows& rows : planned) tables[rows.request] = &rows.pages;
  const std::uint64_t size = *model::storage_bytes(kv.cell_format, kv.head_size);
  for (std::size_t i = 0; i < cells.rows.size(); ++i) {
    const auto table = tables.find(cells.rows[i].request);
    const trace::Position position = cells.rows[i].position;
    if (table == tables.end() || position / kv.page_size >= table->second->size()) continue;
    const std::uint64_t page = (*table->second)[position / kv.page_size].value;
    for (std::uint32_t head = 0; head < kv.kv_head_count; ++head) {
      const std::uint64_t to =
          ((page * kv.kv_head_count + head) * kv.page_size + position % kv.page_size) * size;
      const std::uint64_t from = (std::uint64_t{i} * kv.kv_head_count + head) * size;
      LS_TRY(
          device.copy_to_device(pool.address() + to, std::span(cells.bytes).subspan(from, size)));
    }
  }
  return base::Ok{};
}

const kernels::DeviceWeight& matrix_of(const DeviceModel& model, WeightRole role,
                                       std::uint32_t index) {
  const LayerWeights& layer = model.layers[index];
  switch (role) {
    case WeightRole::TokenEmbedding:
      return model.embedding.matrix;
    case WeightRole::Head:
      return model.head.matrix;
    case WeightRole::Query:
      return layer.query.matrix;
    case WeightRole::Key:
      return layer.key.matrix;
    case WeightRole::Value:
      return layer.value.matrix;
    case WeightRole::AttnOutput:
      return layer.attn_output.matrix;
    case WeightRole::Gate:
      return layer.gate.matrix;
    case WeightRole::Up:
      return layer.up.matrix;
    case WeightRole::Down:
      return layer.down.matrix;
    case WeightRole::FinalNorm:
    case WeightRole::AttnNorm:
    case WeightRole::QueryNorm:
    case WeightRole::KeyNorm:
    case WeightRole::PostAttnNorm:
    case WeightRole::FfnNorm:
    case WeightRole::PostFfnNorm:
      break;
  }
  LS_CHECK(false, "a vector is no matrix");
}
const device::Buffer& norm_of(const DeviceModel& model, WeightRole role, std::uint32_t index) {
  const LayerWeights& layer = model.layers[index];
  if (role == WeightRole::AttnNorm) return layer.attn_norm;
  if (role == WeightRole::FfnNorm) return layer.ffn_norm;
  if (role == WeightRole::PostAttnNorm) return layer.post_attn_norm;
  LS_CHECK(role == WeightRole::PostFfnNorm);
  return layer.post_ffn_norm;
}

base::Status status_of(const base::Result<DeviceTensor>& made) {
  if (!made) return made.error();
  return base::Ok{};
}

base::Status launch(const Forward& forward, const OpCall& call,
                    const std::vector<DeviceTensor>& operands) {
  const std::uint32_t layer = call.layer.value;
  const auto input = [&](std::size_t i) {
    return Forward::Input{operands.at(i), call.reads.at(i).point};
  };
  const TapTensor& written = call.writes.front();
  switch (call.contract.op) {
    case Op::EmbedRows:
      return status_of(embed(forward));
    case Op::RmsNorm:
      if (call.weight == WeightRole::FinalNorm) return status_of(final_norm(forward, operands[0]));
      return status_of(forward.norm(input(0), norm_of(forward.model, call.weight.value(), layer),
                                    call.weight.value(), layer, written.point, written.dtype));
    case Op::Gemv:
    case Op::Gemm:
      return status_of(forward.product(input(0),
                                       matrix_of(forward.model, call.weight.value(), layer),
                                       call.weight.value(), layer, written.point));
    case Op::RopeKvWrite:
      return status_of(rotate(forward, layer, operands.at(0), operands.at(1), operands.at(2)));
    case Op::AttentionPrefill:
    case Op::AttentionDecode:
      return status_of(attend(forward, layer, operands.at(0)));
    case Op::Gate:
      return status_of(activate(forward, layer, operands.at(0), operands.at(1)));
    case Op::ResidualAdd:
      return status_of(forward.add(input(0), input(1), layer, written.point));
    case Op::Argmax:
      return status_of(argmax(forward, operands.at(0)));
  }
  LS_CHECK(false);
}

// The parts of a batch that this operation looks at.
base::Result<Batch> make_part(device::Device& device, const OpCall& call,
                              const std::vector<PlannedRows>& planned, std::uint32_t page_size) {
  if (trace::has_heads(call.contract.op))
    return make_batch(device, planned, call.prefill, page_size);
  Batch batch;
  batch.prefill = call.prefill;
  batch.rows = call.reads.front().rows;
  if (call.contract.op == Op::EmbedRows) {
    LS_ASSIGN(batch.tokens, upload_tap(device, call.reads.front()));
  }
  if (call.weight != WeightRole::FinalNorm) return batch;
  for (const trace::RowId& row : call.writes.front().rows) {
    const auto at = std::find(batch.rows.begin(), batch.rows.end(), row);
    LS_CHECK(at != batch.rows.end());
    batch.sampled.push_back(static_cast<std::uint32_t>(at - batch.rows.begin()));
  }
  LS_ASSIGN(batch.sampled_rows,
            upload_bytes(device, std::as_bytes(std::span(batch.sampled)), "sampled rows"));
  return batch;
}

}  // namespace

base::Status run_alone(const model::Model& model, device::Device& device,
                       const trace::EngineSettings& settings, const OpCall& recorded,
                       const EventSink& sink) {
  LS_CHECK(!recorded.reads.empty() && !recorded.writes.empty());
  const bool paged = trace::has_heads(recorded.contract.op);
  const std::vector<trace::RowId>& rows = recorded.writes.front().rows;
  trace::EngineSettings own = settings;
  own.num_blocks = 0;
  std::vector<PlannedRows> planned;
  trace::Position positions = 0;
  if (paged) {
    planned = plan_rows(rows, recorded.prefill, settings.block_size, own.num_blocks);
    for (const trace::RowId& row : rows) positions = std::max(positions, row.position + 1);
  }
  LS_ASSIGN(const std::unique_ptr<DeviceModel> uploaded,
            upload_layer_alone(model, device, own, recorded.layer.value, positions));
  LS_ASSIGN(const Batch batch, make_part(device, recorded, planned, settings.block_size));
  std::vector<DeviceTensor> operands;
  for (const TapTensor& read : recorded.reads) {
    const bool is_k = read.point == TapPoint::KCell, is_v = read.point == TapPoint::VCell;
    if (is_k || is_v) {
      const LayerWeights& layer = uploaded->layers[recorded.layer.value];
      LS_TRY(upload_cells(device, uploaded->kv, planned, is_k ? layer.k_pool : layer.v_pool, read));
      continue;
    }
    LS_ASSIGN(DeviceTensor operand, upload_tap(device, read));
    operands.push_back(std::move(operand));
  }
  kernels::KernelSet kernel_set(device);
  TapRecorder taps(device, sink, true);
  taps.begin(recorded.launch, recorded.prefill);
  const Forward forward{*uploaded, batch, {kernel_set, {}}, taps};
  LS_TRY(launch(forward, recorded, operands));
  return device.synchronize();
}

}  // namespace lockstep::engine
