#include "engine/models/blocks/attention.h"

#include <cstring>
#include <map>

#include "base/check.h"
#include "kernels/attention_decode.h"
#include "kernels/attention_prefill.h"
#include "kernels/rope_kv_write.h"

namespace lockstep::engine {
namespace {

using model::DType;
using model::WeightRole;
using trace::TapPoint;

// Copies cells out of a layer's pool for the taps: positions 0 .. count - 1 of a request, through
// `pages`.
class CellReader {
 public:
  CellReader(const Forward& forward, const LayerWeights& layer)
      : forward_(forward), layer_(layer) {}

  base::Status append(trace::TapTensor& tap, trace::RequestId request, trace::Position first,
                      trace::Position count, std::span<const std::int32_t> pages) {
    const kernels::KvLayout& kv = forward_.model.kv;
    const std::uint64_t cell = *model::storage_bytes(kv.cell_format, kv.head_size);
    const std::uint64_t page_bytes = cell * kv.page_size * kv.kv_head_count;
    const device::Buffer& pool = tap.point == TapPoint::KCell ? layer_.k_pool : layer_.v_pool;
    std::vector<std::byte> page(page_bytes);
    std::int64_t loaded = -1;
    for (trace::Position position = first; position < first + count; ++position) {
      const std::int64_t index = pages[position / kv.page_size];
      // A table entry outside the pool names no cell: the row stays absent.
      if (index < 0 || (static_cast<std::uint64_t>(index) + 1) * page_bytes > pool.size_bytes()) {
        continue;
      }
      if (index != loaded) {
        LS_TRY(forward_.device().copy_from_device(
            page, pool.address() + static_cast<std::uint64_t>(index) * page_bytes));
        loaded = index;
      }
      tap.rows.push_back({request, position});
      for (std::uint32_t head = 0; head < kv.kv_head_count; ++head) {
        const std::uint64_t at =
            (std::uint64_t{head} * kv.page_size + position % kv.page_size) * cell;
        tap.bytes.insert(tap.bytes.end(), page.begin() + static_cast<std::ptrdiff_t>(at),
                         page.begin() + static_cast<std::ptrdiff_t>(at + cell));
      }
    }
    return base::Ok{};
  }

  trace::TapTensor empty(TapPoint point, std::uint32_t layer) const {
    const kernels::KvLayout& kv = forward_.model.kv;
    return {point, {layer}, kv.cell_format, kv.kv_head_count * kv.head_size, {}, {}};
  }

 private:
  const Forward& forward_;
  const LayerWeights& layer_;
};

// Where the plan's page map says that a row's cell must be.
base::Result<trace::TapTensor> written_cells(const Forward& forward, std::uint32_t index,
                                             TapPoint point) {
  CellReader reader(forward, forward.model.layers[index]);
  trace::TapTensor tap = reader.empty(point, index);
  for (const PlannedRows& rows : *forward.batch.planned) {
    std::vector<std::int32_t> pages;
    for (const trace::PageId page : rows.pages) {
      pages.push_back(static_cast<std::int32_t>(page.value));
    }
    LS_TRY(reader.append(tap, rows.request, rows.first_position,
                         static_cast<trace::Position>(rows.tokens.size()), pages));
  }
  return tap;
}

// What attention reads: through the block table as it is on the device.
base::Result<trace::TapTensor> read_cells(const Forward& forward, std::uint32_t index,
                                          TapPoint point) {
  const Batch& batch = forward.batch;
  std::vector<std::int32_t> tables(std::size_t{batch.segments} * batch.table_stride);
  LS_TRY(forward.device().copy_from_device(std::as_writable_bytes(std::span(tables)),
                                           batch.segment_tables.address()));
  CellReader reader(forward, forward.model.layers[index]);
  trace::TapTensor tap = reader.empty(point, index);
  for (std::uint32_t segment = 0; segment < batch.segments; ++segment) {
    const PlannedRows& rows = (*batch.planned)[segment];
    const auto count = static_cast<trace::Position>(rows.first_position + rows.tokens.size());
    LS_TRY(reader.append(
        tap, rows.request, 0, count,
        std::span(tables).subspan(std::size_t{segment} * batch.table_stride, batch.table_stride)));
  }
  return tap;
}

base::Result<trace::Contract> launch_prefill(const Forward& forward, std::uint32_t index,
                                             const DeviceTensor& q_rot, const DeviceTensor& out) {
  const LayerWeights& layer = forward.model.layers[index];
  const Batch& batch = forward.batch;
  kernels::AttentionPrefillArgs args;
  args.q = q_rot.address();
  args.k_pool = layer.k_pool.address();
  args.v_pool = layer.v_pool.address();
  args.kv = forward.model.kv;
  args.block_tables = batch.segment_tables.address();
  args.table_stride = batch.table_stride;
  args.query_starts = batch.query_starts.address();
  args.first_positions = batch.first_positions.address();
  args.segments = batch.segments;
  args.max_segment_rows = batch.max_segment_rows;
  args.scale = static_cast<float>(forward.model.config.attention_scale);
  args.window = forward.model.config.layers[index].window;
  args.out = out.address();
  args.out_format = out.dtype;
  args.rows = batch.row_count();
  args.head_count = forward.model.config.head_count;
  LS_TRY(kernels::launch_attention_prefill(forward.context, args));
  return kernels::attention_prefill_contract(args);
}

base::Result<trace::Contract> launch_decode(const Forward& forward, std::uint32_t index,
                                            const DeviceTensor& q_rot, const DeviceTensor& out) {
  const LayerWeights& layer = forward.model.layers[index];
  const model::ModelConfig& config = forward.model.config;
  const Batch& batch = forward.batch;
  LS_ASSIGN(const device::Buffer workspace,
            forward.device().allocate(kernels::attention_decode_workspace_bytes(
                                          batch.row_count(), config.head_count, config.head_size,
                                          batch.max_context_length),
                                      "attention workspace"));
  kernels::AttentionDecodeArgs args;
  args.q = q_rot.address();
  args.k_pool = layer.k_pool.address();
  args.v_pool = layer.v_pool.address();
  args.kv = forward.model.kv;
  args.block_tables = batch.row_tables.address();
  args.table_stride = batch.table_stride;
  args.context_lengths = batch.context_lengths.address();
  args.max_context_length = batch.max_context_length;
  args.scale = static_cast<float>(config.attention_scale);
  args.window = config.layers[index].window;
  args.workspace = workspace.address();
  args.out = out.address();
  args.rows = batch.row_count();
  args.head_count = config.head_count;
  LS_TRY(kernels::launch_attention_decode(forward.context, args));
  return kernels::attention_decode_contract(args);
}

}  // namespace

base::Result<DeviceTensor> rotate(const Forward& forward, std::uint32_t index,
                                  const DeviceTensor& q, const DeviceTensor& k,
                                  const DeviceTensor& v) {
  const LayerWeights& layer = forward.model.layers[index];
  const model::ModelConfig& config = forward.model.config;
  LS_ASSIGN(DeviceTensor q_rot,
            forward.make(forward.activation_format(), q.width, q.rows, "q_rot"));
  kernels::RopeKvWriteArgs args;
  args.q_raw = q.address();
  args.k_raw = k.address();
  args.v_raw = v.address();
  args.q_norm = layer.query_norm.address();
  args.k_norm = layer.key_norm.address();
  args.epsilon = static_cast<float>(config.rms_norm_epsilon);
  args.cos_sin = layer.cos_sin;
  args.positions = forward.batch.positions.address();
  args.slots = forward.batch.slots.address();
  args.q_out = q_rot.address();
  args.q_format = q_rot.dtype;
  args.k_pool = layer.k_pool.address();
  args.v_pool = layer.v_pool.address();
  args.kv = forward.model.kv;
  args.pairing = config.rope_pairing;
  args.rows = forward.batch.row_count();
  args.head_count = config.head_count;
  LS_TRY(kernels::launch_rope_kv_write(forward.context, args));
  if (!forward.taps.enabled()) return q_rot;
  std::vector<trace::TapTensor> reads, writes;
  for (const auto& [point, tensor] : {std::pair{TapPoint::QRaw, &q}, std::pair{TapPoint::KRaw, &k},
                                      std::pair{TapPoint::VRaw, &v}}) {
    LS_ASSIGN(trace::TapTensor tap, forward.taps.copy(point, index, *tensor));
    reads.push_back(std::move(tap));
  }
  LS_ASSIGN(trace::TapTensor q_tap, forward.taps.copy(TapPoint::QRot, index, q_rot));
  LS_ASSIGN(trace::TapTensor k_tap, written_cells(forward, index, TapPoint::KCell));
  LS_ASSIGN(trace::TapTensor v_tap, written_cells(forward, index, TapPoint::VCell));
  writes.push_back(std::move(q_tap));
  writes.push_back(std::move(k_tap));
  writes.push_back(std::move(v_tap));
  forward.taps.send(kernels::rope_kv_write_contract(args), index, {}, std::move(reads),
                    std::move(writes));
  return q_rot;
}

base::Result<DeviceTensor> attend(const Forward& forward, std::uint32_t index,
                                  const DeviceTensor& q_rot) {
  LS_ASSIGN(DeviceTensor out,
            forward.make(forward.activation_format(), q_rot.width, q_rot.rows, "attn"));
  LS_ASSIGN(const trace::Contract contract, forward.tensor_cores()
                                                ? launch_prefill(forward, index, q_rot, out)
                                                : launch_decode(forward, index, q_rot, out));
  if (!forward.taps.enabled()) return out;
  std::vector<trace::TapTensor> reads, writes;
  LS_ASSIGN(trace::TapTensor q_tap, forward.taps.copy(TapPoint::QRot, index, q_rot));
  LS_ASSIGN(trace::TapTensor k_tap, read_cells(forward, index, TapPoint::KCell));
  LS_ASSIGN(trace::TapTensor v_tap, read_cells(forward, index, TapPoint::VCell));
  LS_ASSIGN(trace::TapTensor out_tap, forward.taps.copy(TapPoint::Attn, index, out));
  reads.push_back(std::move(q_tap));
  reads.push_back(std::move(k_tap));
  reads.push_back(std::move(v_tap));
  writes.push_back(std::move(out_tap));
  forward.taps.send(contract, index, {}, std::move(reads), std::move(writes));
  return out;
}

base::Result<DeviceTensor> attention_block(const Forward& forward, std::uint32_t index,
                                           const DeviceTensor& normed) {
  const LayerWeights& layer = forward.model.layers[index];
  const Forward::Input input{normed, TapPoint::AttnNorm};
  LS_ASSIGN(const DeviceTensor q,
            forward.product(input, layer.query.matrix, WeightRole::Query, index, TapPoint::QRaw));
  LS_ASSIGN(const DeviceTensor k,
            forward.product(input, layer.key.matrix, WeightRole::Key, index, TapPoint::KRaw));
  LS_ASSIGN(const DeviceTensor v,
            forward.product(input, layer.value.matrix, WeightRole::Value, index, TapPoint::VRaw));
  LS_ASSIGN(const DeviceTensor q_rot, rotate(forward, index, q, k, v));
  LS_ASSIGN(const DeviceTensor attended, attend(forward, index, q_rot));
  return forward.product({attended, TapPoint::Attn}, layer.attn_output.matrix,
                         WeightRole::AttnOutput, index, TapPoint::AttnO);
}

}  // namespace lockstep::engine
