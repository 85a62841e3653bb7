#include "engine/execute/tap.h"

#include "base/check.h"

namespace lockstep::engine {

void TapRecorder::begin(trace::LaunchIndex launch, bool prefill) {
  launch_ = launch;
  prefill_ = prefill;
}

base::Result<trace::TapTensor> TapRecorder::copy(trace::TapPoint point, std::uint32_t layer,
                                                 const DeviceTensor& tensor) {
  trace::TapTensor tap{point, {layer}, tensor.dtype, tensor.width, tensor.rows, {}};
  const auto elements = std::uint64_t{tensor.width} * tensor.rows.size();
  const auto bytes = model::storage_bytes(tensor.dtype, elements);
  LS_CHECK(bytes && *bytes <= tensor.buffer.size_bytes());
  tap.bytes.resize(*bytes);
  LS_TRY(device_.copy_from_device(tap.bytes, tensor.address()));
  return tap;
}

void TapRecorder::send(const trace::Contract& contract, std::uint32_t layer,
                       std::optional<model::WeightRole> weight, std::vector<trace::TapTensor> reads,
                       std::vector<trace::TapTensor> writes) {
  trace::OpCall call;
  call.contract = contract;
  call.layer = {layer};
  call.launch = launch_;
  call.prefill = prefill_;
  call.weight = weight;
  call.reads = std::move(reads);
  call.writes = std::move(writes);
  sink_(trace::OpCompleted{std::move(call), {}});
}

base::Status TapRecorder::record(const trace::Contract& contract, std::uint32_t layer,
                                 std::optional<model::WeightRole> weight,
                                 std::initializer_list<Side> reads,
                                 std::initializer_list<Side> writes) {
  if (!enabled_) return base::Ok{};
  std::vector<trace::TapTensor> read_taps, written_taps;
  for (const Side& side : reads) {
    LS_ASSIGN(trace::TapTensor tap, copy(side.point, layer, side.tensor));
    read_taps.push_back(std::move(tap));
  }
  for (const Side& side : writes) {
    LS_ASSIGN(trace::TapTensor tap, copy(side.point, layer, side.tensor));
    written_taps.push_back(std::move(tap));
  }
  send(contract, layer, weight, std::move(read_taps), std::move(written_taps));
  return base::Ok{};
}

}  // namespace lockstep::engine
