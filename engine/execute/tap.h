// TapRecorder: copies what an operation read and wrote out of device memory after its launch, and
// sends it on as an OpCall. The tapped kernel is the shipped kernel: nothing differs but the
// copies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/schedule/step.h"
#include "model/config.h"
#include "trace/op_call.h"

namespace lockstep::engine {

// A matrix on the device, [rows, width], and the tokens that its rows stand for.
struct DeviceTensor {
  device::Buffer buffer;
  model::DType dtype = model::DType::F32;
  std::uint32_t width = 0;
  std::vector<trace::RowId> rows;

  device::DevicePointer address() const { return buffer.address(); }
  std::uint32_t row_count() const { return static_cast<std::uint32_t>(rows.size()); }
};

class TapRecorder {
 public:
  TapRecorder(device::Device& device, EventSink sink, bool enabled)
      : device_(device), sink_(std::move(sink)), enabled_(enabled) {}

  bool enabled() const { return enabled_; }
  void begin(trace::LaunchIndex launch, bool prefill);

  base::Result<trace::TapTensor> copy(trace::TapPoint point, std::uint32_t layer,
                                      const DeviceTensor& tensor);
  void send(const trace::Contract& contract, std::uint32_t layer,
            std::optional<model::WeightRole> weight, std::vector<trace::TapTensor> reads,
            std::vector<trace::TapTensor> writes);

  struct Side {
    trace::TapPoint point;
    const DeviceTensor& tensor;
  };
  // copy() of each and send(), if enabled.
  base::Status record(const trace::Contract& contract, std::uint32_t layer,
                      std::optional<model::WeightRole> weight, std::initializer_list<Side> reads,
                      std::initializer_list<Side> writes);

 private:
  device::Device& device_;
  EventSink sink_;
  bool enabled_;
  trace::LaunchIndex launch_;
  bool prefill_ = false;
};

}  // namespace lockstep::engine
