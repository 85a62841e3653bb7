#include "engine/models/forward.h"

#include "base/check.h"
#include "kernels/argmax.h"
#include "kernels/embed_rows.h"
#include "kernels/gemm.h"
#include "kernels/gemv.h"
#include "kernels/residual_add.h"
#include "kernels/rms_norm.h"

namespace lockstep::engine {

using model::DType;
using trace::TapPoint;

base::Result<DeviceTensor> Forward::make(DType dtype, std::uint32_t width,
                                         const std::vector<trace::RowId>& rows,
                                         std::string_view label) const {
  DeviceTensor tensor;
  tensor.dtype = dtype;
  tensor.width = width;
  tensor.rows = rows;
  const auto bytes = model::storage_bytes(dtype, std::uint64_t{width} * rows.size());
  LS_CHECK(bytes && *bytes > 0);
  LS_ASSIGN(tensor.buffer, device().allocate(*bytes, label));
  return tensor;
}

base::Result<DeviceTensor> Forward::product(Input x, const kernels::DeviceWeight& weight,
                                            model::WeightRole role, std::uint32_t layer,
                                            TapPoint out) const {
  LS_CHECK(x.tensor.width == weight.columns);
  LS_ASSIGN(DeviceTensor y, make(DType::F32, weight.rows, x.tensor.rows, trace::name(out)));
  const std::uint32_t rows = x.tensor.row_count();
  trace::Contract contract;
  // Logits of prompts' last rows run as decode does: they are the same operation.
  if (x.tensor.dtype == DType::F32) {
    const kernels::GemvArgs args{x.tensor.address(), weight, y.address(), rows};
    LS_TRY(kernels::launch_gemv(context, args));
    contract = kernels::gemv_contract(args);
  } else {
    const kernels::GemmArgs args{x.tensor.address(), weight, y.address(), rows, x.tensor.dtype};
    LS_TRY(kernels::launch_gemm(context, args));
    contract = kernels::gemm_contract(args);
  }
  LS_TRY(taps.record(contract, layer, role, {{x.point, x.tensor}}, {{out, y}}));
  return y;
}

base::Result<DeviceTensor> Forward::norm(Input x, const device::Buffer& weight,
                                         model::WeightRole role, std::uint32_t layer, TapPoint out,
                                         DType out_format) const {
  LS_ASSIGN(DeviceTensor y, make(out_format, x.tensor.width, x.tensor.rows, trace::name(out)));
  kernels::RmsNormArgs args;
  args.x = x.tensor.address();
  args.weight = weight.address();
  args.out = y.address();
  args.out_format = out_format;
  args.rows = x.tensor.row_count();
  args.hidden = x.tensor.width;
  args.epsilon = static_cast<float>(model.config.rms_norm_epsilon);
  LS_TRY(kernels::launch_rms_norm(context, args));
  LS_TRY(taps.record(kernels::rms_norm_contract(args), layer, role, {{x.point, x.tensor}},
                     {{out, y}}));
  return y;
}

base::Result<DeviceTensor> Forward::add(Input a, Input b, std::uint32_t layer, TapPoint out) const {
  LS_CHECK(a.tensor.width == b.tensor.width && a.tensor.rows == b.tensor.rows);
  LS_ASSIGN(DeviceTensor sum, make(DType::F32, a.tensor.width, a.tensor.rows, trace::name(out)));
  const kernels::ResidualAddArgs args{a.tensor.address(), b.tensor.address(), sum.address(),
                                      std::uint64_t{a.tensor.width} * a.tensor.row_count()};
  LS_TRY(kernels::launch_residual_add(context, args));
  LS_TRY(taps.record(kernels::residual_add_contract(args), layer, {},
                     {{a.point, a.tensor}, {b.point, b.tensor}}, {{out, sum}}));
  return sum;
}

base::Result<DeviceTensor> embed(const Forward& forward) {
  const DeviceModel& model = forward.model;
  LS_ASSIGN(DeviceTensor resid,
            forward.make(DType::F32, model.config.hidden_size, forward.batch.rows, "embed"));
  kernels::EmbedRowsArgs args;
  args.table = model.embedding.matrix;
  args.tokens = forward.batch.tokens.address();
  args.out = resid.address();
  args.rows = forward.batch.row_count();
  args.scale = static_cast<float>(model.config.embedding_scale);
  LS_TRY(kernels::launch_embed_rows(forward.context, args));
  LS_TRY(
      forward.taps.record(kernels::embed_rows_contract(args), 0, model::WeightRole::TokenEmbedding,
                          {{TapPoint::Token, forward.batch.tokens}}, {{TapPoint::Embed, resid}}));
  return resid;
}

// Final norm of the sampled rows only, gathered by the norm itself.
base::Result<DeviceTensor> final_norm(const Forward& forward, const DeviceTensor& resid) {
  const Batch& batch = forward.batch;
  std::vector<trace::RowId> rows;
  for (const std::uint32_t index : batch.sampled) rows.push_back(batch.rows[index]);
  LS_ASSIGN(DeviceTensor y, forward.make(DType::F32, resid.width, rows, "final_norm"));
  kernels::RmsNormArgs args;
  args.x = resid.address();
  args.weight = forward.model.final_norm.address();
  args.source_rows = batch.sampled_rows.address();
  args.out = y.address();
  args.rows = y.row_count();
  args.hidden = resid.width;
  args.epsilon = static_cast<float>(forward.model.config.rms_norm_epsilon);
  LS_TRY(kernels::launch_rms_norm(forward.context, args));
  const std::uint32_t last = forward.model.config.layer_count - 1;
  if (forward.taps.enabled()) {
    // The read tap holds all rows of the residual stream: the reference picks the sampled ones.
    LS_ASSIGN(trace::TapTensor read, forward.taps.copy(TapPoint::ResidOut, last, resid));
    LS_ASSIGN(trace::TapTensor written, forward.taps.copy(TapPoint::FinalNorm, 0, y));
    std::vector<trace::TapTensor> reads, writes;
    reads.push_back(std::move(read));
    writes.push_back(std::move(written));
    forward.taps.send(kernels::rms_norm_contract(args), 0, model::WeightRole::FinalNorm,
                      std::move(reads), std::move(writes));
  }
  return y;
}

base::Result<DeviceTensor> argmax(const Forward& forward, const DeviceTensor& logits) {
  LS_ASSIGN(DeviceTensor tokens, forward.make(DType::I32, 1, logits.rows, "token"));
  const kernels::ArgmaxArgs args{logits.address(), tokens.address(), logits.row_count(),
                                 logits.width};
  LS_TRY(kernels::launch_argmax(forward.context, args));
  LS_TRY(forward.taps.record(kernels::argmax_contract(args), 0, {}, {{TapPoint::Logits, logits}},
                             {{TapPoint::Token, tokens}}));
  return tokens;
}

base::Result<std::vector<trace::TokenId>> run_batch(const Forward& forward) {
  LS_ASSIGN(DeviceTensor resid, embed(forward));
  for (std::uint32_t layer = 0; layer < forward.model.config.layer_count; ++layer) {
    switch (forward.model.config.arch) {
      case model::Arch::Llama: {
        LS_ASSIGN(resid, llama_layer(forward, layer, std::move(resid)));
        break;
      }
      case model::Arch::Gemma3: {
        LS_ASSIGN(resid, gemma3_layer(forward, layer, std::move(resid)));
        break;
      }
    }
  }
  if (forward.batch.sampled.empty()) return std::vector<trace::TokenId>{};
  LS_ASSIGN(const DeviceTensor normed, final_norm(forward, resid));
  const kernels::DeviceWeight& head = forward.model.head.matrix;
  LS_ASSIGN(const DeviceTensor logits,
            forward.product({normed, TapPoint::FinalNorm}, head, model::WeightRole::Head, 0,
                            TapPoint::Logits));
  LS_ASSIGN(const DeviceTensor tokens, argmax(forward, logits));
  std::vector<trace::TokenId> result(logits.row_count());
  LS_TRY(forward.device().copy_from_device(std::as_writable_bytes(std::span(result)),
                                           tokens.address()));
  return result;
}

}  // namespace lockstep::engine
